"""Arrow input is checked completely before any computation.

Attacked: arguments of a table function that lead out of their buffers killed the server
(SIGSEGV; 42 of 4,000 mutated inputs), because two batches were joined before they were checked.
"""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from jetbridge.client import connect
from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.wire.arrow_input import BatchDecoder
from jetbridge.wire.flight_data import split
from jetbridge.wire.schemas import read_schema
from tests.helpers.raw import Raw, descriptor, opening, said
from tests.helpers.run_calls import run_sql
from tests.helpers.wire_calls import Wire
from tests.security.input.corpus import flight_data, stream
from tests.security.input.crafted import as_stream, messages, with_offsets, with_run

ROOT = Path(__file__).resolve().parents[3]
NO_OPTIONS = pa.ipc.IpcWriteOptions()
RUN = descriptor("memory", "jetbridge", "table_function", "run").SerializeToString()
# Two batches are joined, and the string of a run leads out of its buffer.
KILLED = as_stream(with_run(2**20, 1, copies=2))
MEMORY = 200 * 1024 * 1024


def bind(raw: Raw, parameters: bytes) -> list[bytes]:
    return raw.action("table_function_flight_info", {"descriptor": RUN, "parameters": parameters})


def refused(raw: Raw, call: Callable[[], object]) -> str:
    with pytest.raises(grpc.RpcError) as error:
        call()
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return said(error)


def test_arguments_that_killed_the_server_are_refused(raw):
    assert "not an Arrow IPC stream" in refused(raw, lambda: bind(raw, KILLED))


@pytest.mark.parametrize("offsets", [(0, 2**31 - 1), (0, -1), (-8, 8), (4, 0), (2**30, 2**30)])
def test_arguments_whose_offsets_lead_outside_are_refused(raw, offsets):
    data = as_stream(with_offsets(*offsets))
    assert "not an Arrow IPC stream" in refused(raw, lambda: bind(raw, data))


def test_arguments_in_order_are_still_read(raw):
    assert bind(raw, stream(pa.record_batch({"sql": ["SELECT 1"]}), None, copies=1))


def test_insert_whose_offsets_lead_outside_is_refused(raw):
    message = flight_data(*with_offsets(0, 2**31 - 1)[1])
    sent = [opening(("s", "t"), pa.schema([("s", pa.string())])), message]
    headers = (("airport-operation", "insert"), ("return-chunks", "0"))
    text = refused(raw, lambda: list(raw.both_ways("DoExchange", sent, *headers)))
    assert "an Arrow record batch cannot be read" in text


ENUMS = pa.array(["b", None, "a"]).dictionary_encode()
ENUM_ARRAYS = pa.FixedSizeListArray.from_arrays(ENUMS, 3)


@pytest.mark.parametrize(
    ("array", "target", "stored"),
    [
        (ENUM_ARRAYS, pa.list_(pa.string(), 3), [["b", None, "a"]]),
        (ENUM_ARRAYS, pa.string(), ["[b, NULL, a]"]),
        (pa.StructArray.from_arrays([ENUM_ARRAYS], ["x"]), pa.string(), ["{'x': [b, NULL, a]}"]),
        (ENUMS, pa.string(), ["b", None, "a"]),
        (pa.ListArray.from_arrays([0, 3], ENUMS), pa.string(), ["[b, NULL, a]"]),
    ],
)
def test_arrays_of_enums_are_stored_as_they_are(server, raw, array, target, stored):
    """DuckDB reads the indexes of a dictionary in an ARRAY as values, also outside of it."""
    sent = [opening(("s", "enums"), pa.schema([("e", array.type)]))]
    sent += messages(pa.record_batch({"e": array}), NO_OPTIONS)[1:]
    headers = (("airport-operation", "insert"), ("return-chunks", "0"))
    with connect(server.location, "memory") as client:
        client.create_table("s", "enums", pa.schema([("e", target)]))
        try:
            list(raw.both_ways("DoExchange", sent, *headers))
            assert client.read("s", "enums").column("e").to_pylist() == stored
        finally:
            client.drop_table("s", "enums")


# --- the decoder itself


def altered(batch: pa.RecordBatch, old: int, new: int) -> list[bytes]:
    """Return the messages of a batch, with one 64-bit number of its header replaced."""
    schema, rows = messages(batch, NO_OPTIONS)
    parts = split(rows)
    header = bytes(parts.header or b"")
    packed = old.to_bytes(8, "little", signed=True)
    assert packed in header
    changed = header.replace(packed, new.to_bytes(8, "little", signed=True))
    return [schema, flight_data(memoryview(changed), parts.body or memoryview(b""))]


def decode(sent: list[bytes]) -> list[pa.RecordBatch]:
    header = split(sent[0]).header
    assert header is not None
    decoder = BatchDecoder(header)
    for message in sent[1:]:
        decoder.feed(split(message))
    return list(decoder.flush())


SEVEN = pa.record_batch({"n": pa.array([*range(6), None], pa.int64())})


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (7, -1, "negative"),
        (7, 2**62, r"limits\.batch_rows"),
        (1, -1, "negative length, or more NULLs"),
        (1, 8, "more NULLs than values"),
        (56, 2**40, "outside the body"),
        (56, -8, "outside the body"),
        (64, 0, "outside the body"),
        (64, -64, "negative length"),
        (64, 2**62, "body is cut short"),
    ],
)
def test_impossible_numbers_in_a_header_are_refused(old, new, reason):
    assert decode(altered(SEVEN, 7, 7)) == [SEVEN]
    with pytest.raises((BadRequest, LimitExceeded), match=reason):
        decode(altered(SEVEN, old, new))


def test_fields_that_refer_to_one_another_are_counted_each_time():
    wide = pa.schema([(f"c{n}", pa.int8()) for n in range(20_001)])
    with pytest.raises(LimitExceeded, match="more than 20000 fields"):
        read_schema(wide.serialize().to_pybytes(), "x")


def test_types_are_nested_up_to_a_limit():
    kind = pa.int8()
    for _ in range(100):
        kind = pa.list_(kind)
    with pytest.raises(LimitExceeded, match="deeper than 64 levels"):
        read_schema(pa.schema([("c", kind)]).serialize().to_pybytes(), "x")


@pytest.mark.parametrize("where", ["schema", "field"])
def test_metadata_is_kept_up_to_a_limit(where):
    large = {"k": "v" * 17_000_000}
    field = pa.field("c", pa.int8(), metadata=large if where == "field" else None)
    schema = pa.schema([field], metadata=large if where == "schema" else None)
    with pytest.raises(LimitExceeded, match="names and metadata"):
        read_schema(schema.serialize().to_pybytes(), "x")


def test_pickled_extension_types_are_refused():
    metadata = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": "x"}
    schema = pa.schema([pa.field("c", pa.int8(), metadata=metadata)])
    with pytest.raises(BadRequest, match="pickled"):
        read_schema(schema.serialize().to_pybytes(), "x")


@pytest.mark.parametrize("kind", ["tensor", "schema"])
def test_only_batches_come_after_the_schema(kind):
    schema, _ = messages(SEVEN, NO_OPTIONS)
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(SEVEN.column(0).fill_null(0).to_numpy()), sink)
    tensor = sink.getvalue().to_pybytes()
    size = int.from_bytes(tensor[4:8], "little")
    sent = flight_data(memoryview(tensor)[8 : 8 + size], memoryview(tensor)[8 + size :])
    with pytest.raises(BadRequest, match="neither a schema nor|a second Arrow schema"):
        decode([schema, sent if kind == "tensor" else schema])


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.run_end_encoded(pa.int32(), pa.string())),
        pa.run_end_encoded(pa.int32(), pa.list_(pa.int8())),
        pa.dictionary(pa.int8(), pa.struct([("a", pa.int8())])),
        pa.dictionary(pa.int8(), pa.null()),
    ],
)
def test_types_that_duckdb_cannot_read_are_refused(kind):
    with pytest.raises(BadRequest, match="send the values themselves"):
        read_schema(pa.schema([("c", kind)]).serialize().to_pybytes(), "x")


def test_buffers_that_share_bytes_are_refused():
    """A small message would become large by naming the same bytes again and again."""
    both = pa.record_batch({"a": SEVEN.column(0), "b": SEVEN.column(0)})
    schema, rows = messages(both, NO_OPTIONS)
    parts = split(rows)
    header = bytes(parts.header or b"")
    for old, new in (((8, 56), (0, 128)), ((72, 56), (0, 56))):
        assert struct.pack("<qq", *old) in header
        header = header.replace(struct.pack("<qq", *old), struct.pack("<qq", *new))
    with pytest.raises(BadRequest, match="overlap"):
        decode([schema, flight_data(memoryview(header), parts.body or memoryview(b""))])


@pytest.mark.parametrize("kind", [pa.decimal32(9, -1), pa.decimal128(9, -1), pa.decimal64(9, 10)])
def test_decimals_that_duckdb_cannot_read_are_refused(kind):
    with pytest.raises(BadRequest, match="its scale must be 0 to 9"):
        read_schema(pa.schema([("c", pa.list_(kind))]).serialize().to_pybytes(), "x")


# --- mutated inputs


def fuzz(folder: Path, first: int, count: int) -> dict[str, int]:
    """Run inputs in a child; keep an input that kills it as the file `input`."""
    command = [sys.executable, "-m", "tests.security.input.fuzz_child"]
    command += [str(first), str(count), str(folder)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    number = (folder / "number").read_text() if (folder / "number").exists() else "none"
    assert done.returncode == 0, f"input {number}, kept in {folder}: {done.stderr[-2000:]}"
    report = json.loads(done.stdout)
    assert report["problems"] == []
    assert report["grown"] < MEMORY
    outcomes: dict[str, int] = report["outcomes"]
    assert sum(outcomes.values()) == count
    return outcomes


def test_mutated_inputs_are_refused_or_can_be_computed_with(tmp_path):
    outcomes = fuzz(tmp_path, 0, 2_000)
    for kind in ("arguments", "exchange", "schema", "msgpack"):
        assert outcomes[f"{kind} accepted"] > 10
        assert outcomes[f"{kind} INVALID_ARGUMENT"] > 100


@pytest.mark.soak
def test_many_mutated_inputs_are_refused_or_can_be_computed_with(tmp_path):
    assert sum(fuzz(tmp_path, 1_000_000, 50_000).values()) == 50_000


UNION = pa.sparse_union([pa.field("a", pa.int32()), pa.field("b", pa.string())])


@pytest.mark.parametrize("is_null", [True, False])
def test_empty_unions_are_stored(server, is_null):
    """Attacked: Arrow crashes when it counts the bytes of an empty union."""
    values = [pa.array([], field.type) for field in (UNION.field(0), UNION.field(1))]
    union = pa.UnionArray.from_sparse(pa.array([], pa.int8()), values, ["a", "b"])
    offsets = pa.array([0, 0, 0], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, union, mask=pa.array([is_null] * 2))
    name = f"unions_{is_null}"
    with connect(server.location, "memory") as client:
        client.create_table("s", name, pa.schema([("u", lists.type)]))
        client.insert("s", name, pa.table({"u": lists}))
        rows = client.read("s", name)["u"]
        assert (len(rows), rows.null_count) == (2, 2 * is_null)
        client.drop_table("s", name)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT []::UNION(a INT, b VARCHAR)[] AS u FROM range(3)",
        "SELECT MAP {}::MAP(INT, UNION(a INT)) AS u",
    ],
)
def test_empty_unions_of_run_are_stored(server, query):
    text = f"CREATE OR REPLACE TABLE memory.s.unions AS {query}"
    with Wire(server.location) as wire:
        assert run_sql(wire, text, "memory").status == "OK"
    with connect(server.location, "memory") as client:
        assert all(not row["u"] for row in client.read("s", "unions").to_pylist())
        client.drop_table("s", "unions")


@pytest.mark.parametrize(
    "data_type",
    [
        pa.dense_union([]),
        pa.list_(pa.sparse_union([])),
        pa.dictionary(pa.int8(), pa.dense_union([])),
        pa.opaque(UNION, "union", "nobody"),
        pa.list_(pa.opaque(UNION, "union", "nobody")),
    ],
    ids=str,
)
def test_unions_that_arrow_cannot_handle_are_refused(raw, data_type):
    """Attacked: a column without rows of such a type crashed the server."""
    first = opening(("s", "no_table"), pa.schema([("x", data_type)]))
    headers = (("airport-operation", "insert"), ("return-chunks", "0"))
    with pytest.raises(grpc.RpcError) as error:
        list(raw.both_ways("DoExchange", [first], *headers))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "is not supported" in said(error)
