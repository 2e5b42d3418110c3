"""Reads a metadata file, which is JSON, into the state of a table.

What grows with the number of snapshots stays text, or is left out.
"""

import gzip
import zlib

import msgspec

from jetbridge.backends.lake.metadata.pointers import MetadataPointer
from jetbridge.backends.lake.metadata.snapshot_list import SnapshotList, find_snapshot
from jetbridge.backends.lake.metadata.table_state import Json, TableState
from jetbridge.errors import Unavailable

_GZIP = b"\x1f\x8b"
_NEEDED = ("format-version", "location", "last-column-id")
_SNAPSHOTS, _EARLIER_FILES, _SNAPSHOT_LOG = "snapshots", "metadata-log", "snapshot-log"
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
# An estimate of what a state takes in memory: so much, and so many times the text of `raw`.
_STATE_BYTES, _BYTES_PER_CHARACTER = 8_192, 8


def parsed(pointer: MetadataPointer, data: bytes) -> TableState:
    """The table as its metadata file says it is now; raises Unavailable if that is damaged."""
    try:
        # Other engines may compress it.
        text = gzip.decompress(data) if data.startswith(_GZIP) else data
        return _decoded(pointer, text)
    except KeyError:
        problem = "it is no metadata of a table"
    except (ValueError, TypeError, OSError, EOFError, zlib.error) as error:
        problem = str(error)[:100]
    title = f"{pointer.namespace}.{pointer.name}"
    raise Unavailable(
        f"table {title!r} cannot be read: its metadata file {pointer.location} is damaged: "
        f"{problem}"[:450]
    )


def _decoded(pointer: MetadataPointer, text: bytes) -> TableState:
    """Raises KeyError for JSON that is something else."""
    if not text.isascii():
        text.decode()  # parts that are not decoded now might not be UTF-8
    parts = {name: memoryview(part) for name, part in _PARTS.decode(text).items()}
    parts.pop(_SNAPSHOT_LOG, None)
    snapshots = _array(parts.pop(_SNAPSHOTS, None))
    earlier_files = bytes(_array(parts.pop(_EARLIER_FILES, None)))
    raw: Json = {name: msgspec.json.decode(part) for name, part in parts.items()}
    for name in _NEEDED:
        _ = raw[name]
    size = _STATE_BYTES + len(earlier_files) + _BYTES_PER_CHARACTER * sum(map(len, parts.values()))
    return TableState(
        pointer,
        raw,
        find_snapshot(snapshots, raw.get("current-snapshot-id")),
        raw.get("current-schema-id", 0),
        SnapshotList(snapshots),
        earlier_files,
        size,
    )


def _array(text: memoryview | None) -> memoryview:
    """One that is null or not there is empty."""
    return text if text is not None and bytes(text[:1]) == b"[" else memoryview(b"[]")
