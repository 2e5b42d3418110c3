"""Build messages that no proper client sends."""

import struct
from collections.abc import Iterable

import pyarrow as pa

from jetbridge.wire.flight_pb2 import FlightData
from jetbridge.wire.ipc_headers import split_stream
from jetbridge.wire.schemas import encapsulate
from tests.security.input.corpus import flight_data, stream

COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
_COMPRESSION_KEY, _V4 = b"ARROW:experimental_compression", 3


def messages(batch: pa.RecordBatch, how: pa.ipc.IpcWriteOptions) -> list[bytes]:
    """Return the messages of an exchange: the schema, dictionaries, the batch."""
    return [flight_data(*each) for each in split_stream(memoryview(stream(batch, how, copies=1)))]


def with_offsets(start: int, end: int, copies: int = 1) -> list[tuple[memoryview, memoryview]]:
    """Return one row with a string of any offsets, which pyarrow refuses to write."""
    found, wanted = struct.pack("<ii", 0, 8), struct.pack("<ii", start, end)
    data = stream(pa.record_batch({"s": ["SELECT 1"]}), None, copies)
    parts = [(header, bytes(body)) for header, body in split_stream(memoryview(data))]
    assert all(found in body for _, body in parts[1:])
    return [(header, memoryview(body.replace(found, wanted))) for header, body in parts]


def with_run(start: int, end: int, copies: int) -> list[tuple[memoryview, memoryview]]:
    """Return one row: a run with a string of any offsets."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["a"]))
    data = stream(pa.record_batch({"sql": runs}), None, copies)
    schema, *rows = split_stream(memoryview(data))
    assert {bytes(body)[8:16] for _, body in rows} == {struct.pack("<ii", 0, 1)}
    changed = struct.pack("<ii", start, end)
    bodies = [bytes(body)[:8] + changed + bytes(body)[16:] for _, body in rows]
    return [schema, *((rows[i][0], memoryview(body)) for i, body in enumerate(bodies))]


def as_stream(parts: Iterable[tuple[memoryview, memoryview]]) -> bytes:
    return b"".join(b"".join((*encapsulate(header), body)) for header, body in parts)


def in_format_v4(message: bytes, codec: bytes) -> bytes:
    """Return the compressed batch as Arrow 0.17 sent it: V4, with the codec in the metadata.

    Put a new Message table before the old flatbuffer; it refers to the RecordBatch in there.
    """
    old = FlightData.FromString(message)
    header = bytearray(old.data_header)
    (table,) = struct.unpack_from("<I", header)
    (body_bytes,) = struct.unpack_from("<q", header, _field(header, table, 3))
    place = _field(header, table, 2)
    batch = place + struct.unpack_from("<I", header, place)[0]
    vtable = batch - struct.unpack_from("<i", header, batch)[0]
    struct.pack_into("<H", header, vtable + 4 + 2 * 3, 0)  # takes `compression` out
    key, value = _text(_COMPRESSION_KEY), _text(codec)
    start = 72 + len(key) + len(value)
    start += -start % 8
    made = struct.pack("<I7Hxx", 20, 14, 24, 12, 14, 16, 4, 20)  # the root, its list of fields
    made += struct.pack("<iqHBxII", 16, body_bytes, _V4, 3, start + batch - 36, 4)
    made += struct.pack("<II", 1, 12)  # a vector of one pair
    made += struct.pack("<4HiII", 8, 12, 4, 8, 8, 8, 72 + len(key) - 68) + key + value
    return flight_data(memoryview(made.ljust(start, b"\0") + header), memoryview(old.data_body))


def _text(data: bytes) -> bytes:
    packed = struct.pack("<I", len(data)) + data + b"\0"
    return packed + bytes(-len(packed) % 4)


def _field(data: bytearray, table: int, number: int) -> int:
    vtable = table - struct.unpack_from("<i", data, table)[0]
    place: int = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + place
