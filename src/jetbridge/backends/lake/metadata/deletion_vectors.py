"""Reads and writes deletion vectors: deleted positions of a data file, in Puffin files."""

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from jetbridge.errors import ServerError

Positions = npt.NDArray[np.int64]

MAGIC = b"PFA1"
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
# The reserved id of the column `_pos`.
_POSITION_FIELD = 2147483645


@dataclass(frozen=True)
class PuffinBlob:
    """Describe the place of one vector in a Puffin file."""

    data_file: str
    offset: int
    length: int
    rows: int


def puffin(vectors: Mapping[str, Positions]) -> tuple[bytes, list[PuffinBlob]]:
    """Return a Puffin file with one vector for each data file, and the place of each."""
    out = bytearray(MAGIC)
    blobs = []
    for data_file, positions in vectors.items():
        blob = _vector(positions)
        blobs.append(PuffinBlob(data_file, len(out), len(blob), len(positions)))
        out += blob
    payload = json.dumps({"blobs": [_footer_entry(blob) for blob in blobs]}).encode()
    out += MAGIC + payload + struct.pack("<I", len(payload)) + bytes(4) + MAGIC
    return bytes(out), blobs


def _footer_entry(blob: PuffinBlob) -> dict[str, object]:
    return {
        "type": "deletion-vector-v1",
        "fields": [_POSITION_FIELD],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": blob.offset,
        "length": blob.length,
        "properties": {
            "referenced-data-file": blob.data_file,
            "cardinality": str(blob.rows),
        },
    }


def _vector(positions: Positions) -> bytes:
    """Return the bytes of a vector.

    Length and checksum are big-endian; the bitmaps, one for each high half, are little-endian.
    """
    highs = positions >> 32
    body = bytearray()
    keys = np.unique(highs)
    body += struct.pack("<Q", len(keys))
    for key in keys:
        bitmap = BitMap((positions[highs == key] & 0xFFFFFFFF).astype(np.uint32))
        bitmap.run_optimize()
        body += struct.pack("<I", int(key)) + bitmap.serialize()
    vector = _VECTOR_MAGIC + bytes(body)
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def positions(blob: bytes) -> Positions:
    """Return the positions of a vector, ascending; raises ServerError if it is damaged."""
    length = int.from_bytes(blob[:4], "big")
    vector, checksum = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if vector[:4] != _VECTOR_MAGIC or struct.pack(">I", zlib.crc32(vector)) != checksum:
        raise ServerError("a deletion vector is damaged")
    (count,) = struct.unpack_from("<Q", vector, 4)
    at = 12
    parts = [np.empty(0, dtype=np.int64)]
    for _ in range(count):
        (key,) = struct.unpack_from("<I", vector, at)
        bitmap = BitMap.deserialize(vector[at + 4 :])
        parts.append(np.asarray(bitmap.to_array(), dtype=np.int64) + (key << 32))
        at += 4 + len(bitmap.serialize())
    return np.concatenate(parts)
