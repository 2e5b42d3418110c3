"""Reads a metadata file, which is JSON, into the state of a table.

Every commit writes a metadata file with all snapshots before it. As Python objects the lists of
5,000 versions would take gigabytes. As text they take as much as the longest one, because a commit
adds its snapshot at the end, and versions that follow each other share one text.
"""

import gzip
import zlib
from dataclasses import dataclass

import msgspec

from jetbridge.backends.lake.errors import MESSAGE_CHARACTERS
from jetbridge.backends.lake.metadata.pointers import MetadataPointer
from jetbridge.backends.lake.metadata.structs import (
    EarlierFile,
    KeptSchema,
    Snapshot,
    TableMetadata,
    decode_schema,
)
from jetbridge.errors import Unavailable

_GZIP = b"\x1f\x8b"
_SNAPSHOTS = msgspec.json.Decoder(list[Snapshot])
_TEXTS = msgspec.json.Decoder(list[msgspec.Raw])
_SNAPSHOT = msgspec.json.Decoder(Snapshot)
_EARLIER_FILES = msgspec.json.Decoder(list[EarlierFile])
_METADATA = msgspec.json.Decoder(dict[str, msgspec.Raw])
_END_OF_ARRAY = b"] \t\r\n"
_PROBLEM_CHARACTERS = 200
# An estimate of the memory of a metadata file: a constant, and a multiple of its text.
_FILE_BYTES, _BYTES_PER_CHARACTER = 8_192, 8


class SharedText:
    """Hold the longest list, without its closing bracket."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class SnapshotList:
    """Keep the snapshots that a metadata file names, as text."""

    __slots__ = ("_end", "text")

    def __init__(self, text: bytes | memoryview = b"[]") -> None:
        """Copy a JSON array."""
        end = len(text)
        while end and text[end - 1] in _END_OF_ARRAY:
            end -= 1
        self.text = SharedText(bytes(text[:end]))
        self._end = end

    def decode(self) -> list[Snapshot]:
        """Return the snapshots in the order of the file; new objects each time."""
        return _SNAPSHOTS.decode(self._json())

    def find(self, snapshot_id: int | None) -> Snapshot | None:
        """Return the snapshot of this id; it is most often the last one."""
        return _find_snapshot(self._json(), snapshot_id)

    def share(self, other: "SnapshotList") -> None:
        """Keep one text for both lists, if one of them begins with the other."""
        mine, shared = self.text.data, other.text
        if len(mine) <= len(shared.data):
            fits = shared.data.startswith(mine)
        else:
            fits = mine.startswith(shared.data)
            if fits:
                shared.data = mine
        if fits:
            self.text = shared

    def _json(self) -> bytes:
        return self.text.data[: self._end] + b"]"


def _find_snapshot(text: bytes | memoryview, snapshot_id: int | None) -> Snapshot | None:
    if snapshot_id is None:
        return None
    for snapshot_text in reversed(_TEXTS.decode(text)):
        snapshot = _SNAPSHOT.decode(snapshot_text)
        if snapshot.snapshot_id == snapshot_id:
            return snapshot
    return None


@dataclass(frozen=True, eq=False)
class MetadataFile:
    """Hold the parts of a metadata file decoded, and its long lists as text.

    `size` estimates the memory that it takes, without the text of the snapshots.
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    snapshot_list: SnapshotList
    earlier_files_text: bytes
    size: int

    def earlier_files(self) -> list[str]:
        """Return the metadata files before this one that the table names."""
        return [file.metadata_file for file in _EARLIER_FILES.decode(self.earlier_files_text)]


def read_metadata(pointer: MetadataPointer, data: bytes) -> MetadataFile:
    """Decode a metadata file; raises Unavailable with the file if it is damaged."""
    try:
        # Other engines may compress it.
        text = gzip.decompress(data) if data.startswith(_GZIP) else data
        if not text.isascii():
            text.decode()  # parts that are not decoded now might not be UTF-8
        return _decode(text)
    except (ValueError, TypeError, OSError, EOFError, zlib.error) as error:
        problem = str(error)[:_PROBLEM_CHARACTERS]
    title = f"{pointer.namespace}.{pointer.name}"
    raise Unavailable(
        f"table {title!r} cannot be read: its metadata file {pointer.location} is damaged: "
        f"{problem}"[:MESSAGE_CHARACTERS]
    )


def _decode(text: bytes) -> MetadataFile:
    """Decode the parts one by one: a part of the file must not keep all of it in memory."""
    parts = _METADATA.decode(text)
    parts.pop("snapshot-log", None)
    snapshots = _array(parts.pop("snapshots", None))
    earlier_files = bytes(_array(parts.pop("metadata-log", None)))
    characters = sum(len(memoryview(part)) for part in parts.values())
    size = _FILE_BYTES + len(earlier_files) + _BYTES_PER_CHARACTER * characters
    schemas = _decode_schemas(parts)
    rest = {name: msgspec.json.decode(part) for name, part in parts.items()}
    metadata = msgspec.convert(rest, TableMetadata)
    metadata.schemas = schemas
    current = _find_snapshot(snapshots, metadata.current_snapshot_id)
    return MetadataFile(metadata, current, SnapshotList(snapshots), earlier_files, size)


def _decode_schemas(parts: dict[str, msgspec.Raw]) -> tuple[KeptSchema, ...]:
    """Take the schemas out of the parts; format 1 may have one `schema` only."""
    texts = _TEXTS.decode(_array(parts.pop("schemas", None)))
    only = parts.pop("schema", None)
    if not texts and only is not None and bytes(only) != b"null":
        texts = [only]
    return tuple(decode_schema(memoryview(text)) for text in texts)


def _array(text: msgspec.Raw | None) -> memoryview:
    """Return an array; one that is null or missing is empty."""
    view = memoryview(b"[]") if text is None else memoryview(text)
    return view if bytes(view[:1]) == b"[" else memoryview(b"[]")
