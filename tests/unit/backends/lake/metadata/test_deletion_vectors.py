"""Deletion vectors: what goes in comes out, also what other writers make of it."""

import json
import struct
import zlib

import numpy as np
import pytest
from pyroaring import BitMap

from jetbridge.backends.lake.metadata.deletion_vectors import Positions, positions, puffin
from jetbridge.errors import ServerError

HIGH = 1 << 32


def array(*values: int) -> Positions:
    return np.array(values, dtype=np.int64)


def blob_of(values: Positions) -> bytes:
    content, (blob,) = puffin({"file.parquet": values})
    return content[blob.offset : blob.offset + blob.length]


CASES = {
    "nothing": array(),
    "one": array(5),
    "scattered": np.unique(np.random.default_rng(1).integers(0, 10**6, 5_000)),
    "a run": np.arange(100_000, dtype=np.int64),
    "dense": np.flatnonzero(np.random.default_rng(2).random(200_000) < 0.5).astype(np.int64),
    "runs and gaps": np.concatenate([np.arange(n, n + 500) for n in range(0, 10**6, 70_000)]),
    "both ends of the low half": array(0, HIGH - 1),
    "above 32 bits": array(1, HIGH, HIGH + 7, 5 * HIGH + 2**31),
    "the largest": array((2**31 - 1) * HIGH - 1),
}


@pytest.mark.parametrize("name", CASES)
def test_positions_come_back(name):
    found = positions(blob_of(CASES[name]))
    assert found.dtype == np.int64
    assert found.tolist() == CASES[name].tolist()


def test_a_run_is_kept_as_a_run():
    assert len(blob_of(CASES["a run"])) < 100


def test_containers_that_others_leave_unoptimized_are_read():
    bitmap = BitMap(range(70_000))
    body = struct.pack("<QI", 1, 3) + bitmap.serialize()
    vector = b"\xd1\xd3\x39\x64" + body
    data = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    assert positions(data).tolist() == [3 * HIGH + n for n in range(70_000)]


def test_a_puffin_file_tells_where_each_vector_is():
    content, blobs = puffin({"a": array(1, 2), "b": array(HIGH)})
    assert content[:4] == content[-4:] == b"PFA1"
    (length,) = struct.unpack("<I", content[-12:-8])
    footer = json.loads(content[-12 - length : -12])
    assert content[-16 - length : -12 - length] == b"PFA1"
    told = [
        (each["properties"]["referenced-data-file"], each["offset"], each["length"])
        for each in footer["blobs"]
    ]
    assert told == [(blob.data_file, blob.offset, blob.length) for blob in blobs]
    assert [blob.rows for blob in blobs] == [2, 1]
    for blob, expected in zip(blobs, ([1, 2], [HIGH]), strict=True):
        assert positions(content[blob.offset : blob.offset + blob.length]).tolist() == expected


@pytest.mark.parametrize("at", [4, 12, 20, -1])
def test_a_damaged_blob_is_refused(at):
    data = bytearray(blob_of(array(1, 2, 3)))
    data[at] ^= 0xFF
    with pytest.raises(ServerError, match="damaged"):
        positions(bytes(data))


@pytest.mark.parametrize("length", [0, 3, 10, 30])
def test_a_blob_that_is_cut_off_is_refused(length):
    with pytest.raises(ServerError, match="damaged"):
        positions(blob_of(array(*range(0, 10_000, 3)))[:length])
