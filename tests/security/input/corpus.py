"""Build valid Arrow messages of every type, which the fuzzer breaks."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from jetbridge.wire.flight_pb2 import FlightData
from jetbridge.wire.ipc_headers import split_stream

TEXTS = ["a", None, "ü" * 40, "", "a text that does not fit into a view"]
NUMBERS = [1, None, -3, 0, 100]
LISTS = [[1, None], None, [], [4, 5, 6], [7]]
TEXT_LISTS = [["a", None], None, [], ["b" * 20, "", "c"], ["d"]]
RECORDS = [{"x": 1, "y": "a"}, None, {"x": None, "y": None}, {"x": 3, "y": "c" * 30}, {"x": 4}]
RUN_ENDS = pa.array([2, 3, 5], pa.int32())
RUNS = pa.RunEndEncodedArray.from_arrays(RUN_ENDS, pa.array(["a", None, "c"]))
TAGS = pa.array([0, 1, 0, 1, 0], pa.int8())


def _unions() -> Iterator[tuple[str, Any]]:
    numbers, texts = pa.array(NUMBERS, pa.int32()), pa.array(TEXTS)
    yield "sparse_union", pa.UnionArray.from_sparse(TAGS, [numbers, texts])
    places = pa.array([0, 0, 1, 1, 2], pa.int32())
    yield "dense_union", pa.UnionArray.from_dense(TAGS, places, [numbers, texts])


def arrays() -> dict[str, Any]:
    """Return five rows of every type that Arrow can send."""
    found: dict[str, Any] = {"null": pa.nulls(5), "bool": pa.array([True, None, False, True, None])}
    for name in ("int8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64"):
        numbers = [abs(n) if n is not None else None for n in NUMBERS]
        found[name] = pa.array([None if n is None else float(n) for n in numbers]).cast(name)
    for name in ("decimal32", "decimal64", "decimal128", "decimal256"):
        kind = getattr(pa, name)(9, 2)
        found[name] = pa.array([None if n is None else Decimal(n) for n in NUMBERS], kind)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        found[str(kind)] = pa.array(TEXTS, kind)
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        found[str(kind)] = pa.array([t and t.encode() for t in TEXTS], kind)
    found["fixed_binary"] = pa.array([b"abc", None, b"def", b"ghi", None], pa.binary(3))
    for kind in (pa.date32(), pa.time32("s"), pa.time32("ms"), pa.duration("us")):
        number = pa.int64() if kind == pa.duration("us") else pa.int32()
        found[str(kind)] = pa.array([1, None, 3, 4, 5], number).cast(kind)
    found["date64"] = pa.array([0, None, 86_400_000, 0, 0], pa.int64()).cast(pa.date64())
    for kind in (pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", "UTC")):
        found[str(kind)] = pa.array([1, None, 3, 4, 86_400 * 10**6], pa.int64()).view(kind)
    intervals = [(1, 2, 3), None, (0, 0, 0), (4, 5, 6), None]
    found["interval"] = pa.array(intervals, pa.month_day_nano_interval())
    found |= nested() | dict(_unions())
    found["dictionary"] = pa.array(TEXTS).dictionary_encode()
    found["dictionary_of_numbers"] = pa.array(NUMBERS, pa.int64()).dictionary_encode()
    found["runs"] = RUNS
    found["uuid"] = pa.array([b"u" * 16, None] * 2 + [b"v" * 16], pa.binary(16)).cast(pa.uuid())
    found["json"] = pa.array(["1", None, "[]", "{}", "null"]).cast(pa.json_(pa.string()))
    return found


def nested() -> dict[str, Any]:
    record = pa.struct([("x", pa.int32()), ("y", pa.string())])
    deep = pa.struct([("l", pa.list_(record)), ("d", pa.list_(pa.float64(), 2))])
    pairs = [[("k", 1)], None, [], [("a", None), ("b", 2)], [("c", 3)]]
    return {
        "list": pa.array(LISTS, pa.list_(pa.int32())),
        "large_list": pa.array(TEXT_LISTS, pa.large_list(pa.string())),
        "list_view": pa.array(LISTS, pa.list_view(pa.int32())),
        "large_list_view": pa.array(TEXT_LISTS, pa.large_list_view(pa.string())),
        "fixed_list": pa.array([[1, 2], None, [3, None], [5, 6], [7, 8]], pa.list_(pa.int8(), 2)),
        "list_of_nulls": pa.array([[None], None, [], [None] * 3, []], pa.list_(pa.null())),
        "list_of_views": pa.array(TEXT_LISTS, pa.list_(pa.string_view())),
        "struct": pa.array(RECORDS, record),
        "empty_struct": pa.array([{}, None, {}, {}, {}], pa.struct([])),
        "map": pa.array(pairs, pa.map_(pa.string(), pa.int32())),
        "deep": pa.array(
            [{"l": [{"x": 1, "y": "z"}], "d": [1.0, 2.0]}, None, {"l": None}, {"l": []}, None], deep
        ),
    }


def batches() -> list[pa.RecordBatch]:
    """Return a batch of each type, and some batches of several types."""
    made = arrays()
    single = [pa.record_batch({name: array}) for name, array in made.items()]
    names = list(made)
    mixed = [pa.record_batch({n: made[n] for n in names[i::7]}) for i in range(7)]
    return [*single, *mixed, pa.record_batch({"n": NUMBERS}).select([])]


def options() -> list[Any]:
    made = [pa.ipc.IpcWriteOptions(compression=codec) for codec in (None, None, "lz4", "zstd")]
    return [*made, pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)]


def stream(batch: pa.RecordBatch, how: Any, copies: int = 2) -> bytes:
    """Return a stream with a schema that has metadata."""
    batch = batch.replace_schema_metadata({"key": "value"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=how) as writer:
        for _ in range(copies):
            writer.write(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def flight_data(header: memoryview, body: memoryview) -> bytes:
    """Return one message of an exchange."""
    message = FlightData(data_header=bytes(header), data_body=bytes(body))
    return bytes(message.SerializeToString())


def flight_messages(data: bytes) -> list[bytes]:
    return [flight_data(*message) for message in split_stream(memoryview(data))]


def streams() -> list[bytes]:
    return [stream(batch, how) for batch in batches() for how in options() if fits(batch, how)]


def fits(batch: pa.RecordBatch, how: Any) -> bool:
    """Return whether the format has the type: V4 has no unions."""
    try:
        stream(batch, how)
    except (pa.ArrowException, OSError):
        return False
    return True


def words() -> list[pa.RecordBatch]:
    """Return one row of arguments of real functions."""
    made = {"string": ["CREATE TABLE mema.s.t AS SELECT 1"], "int64": pa.array([1], pa.int64())}
    return [pa.record_batch(made), *(batch.slice(0, 1) for batch in batches())]
