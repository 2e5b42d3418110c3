"""Columns of every Arrow layout are stored as their values, and a few bytes cost little time.

Attacked: list views that overlap or leave gaps were stored as what lay behind them in memory, with
values of another tenant; lists of a dictionary with NULLs and more than 2,050 elements broke the
heap; 169 KB of a dictionary kept the server busy for 29 s. DuckDB misreads such layouts.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from jetbridge.client import Client, connect
from jetbridge.runtime.plain_layout import plain_type
from jetbridge.wire.flight_data import encode_batch
from jetbridge.wire.ipc_headers import split_stream
from tests.helpers.peers import ServerProcess
from tests.helpers.raw import Answer, Raw, opening, read_answer, said
from tests.security.input.corpus import flight_data
from tests.security.input.crafted import COMPRESSED, messages
from tests.security.input.layouts import anything

NO_OPTIONS = pa.ipc.IpcWriteOptions()
ROOT = Path(__file__).resolve().parents[3]
MANY = 2_500
SECONDS = 5.0


def views(starts: list[int], sizes: list[int], child: pa.Array) -> pa.Array:
    return pa.ListViewArray.from_arrays(
        pa.array(starts, pa.int32()), pa.array(sizes, pa.int32()), child
    )


def enums() -> pa.Array:
    codes = pa.array([None if i % 3 else i % 100 for i in range(MANY)], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, pa.array([f"k{i}" for i in range(100)]))


def enum_lists() -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(0, MANY + 1, 5), pa.int32()), enums())


def enum_maps() -> pa.Array:
    keys = pa.array([f"key {i}" for i in range(MANY)])
    return pa.MapArray.from_arrays(pa.array(range(0, MANY + 1, 5), pa.int32()), keys, enums())


def enum_structs() -> pa.Array:
    structs = pa.StructArray.from_arrays([enums()], ["e"])
    return pa.ListArray.from_arrays(pa.array(range(0, MANY + 1, 5), pa.int32()), structs)


OVERLAPS = views([0] * 700, [700] * 700, pa.array(["q" * 5] * 700))
GAPS = views([0, 5], [1, 4], pa.array(range(10)))
ATTACKS = {
    "overlaps": OVERLAPS,
    "gaps": GAPS,
    "backwards": views([8, 4, 0], [2, 2, 2], pa.array(range(10))),
    "views in a struct": pa.StructArray.from_arrays([GAPS], ["x"]),
    "views in a list": pa.ListArray.from_arrays([0, 1, 2], GAPS),
    "views of an enum": views([7, 0], [MANY - 7, MANY], enums()),
    "enums": enums(),
    "lists of enums": enum_lists(),
    "lists of enums in a struct": pa.StructArray.from_arrays([enum_lists()], ["x"]),
    "maps of enums": enum_maps(),
    "lists of structs of enums": enum_structs(),
    "lists of enums of views": pa.ListArray.from_arrays(
        pa.array([0, 1, 3], pa.int32()),
        pa.DictionaryArray.from_arrays(
            pa.array([1, None, 0], pa.int8()), pa.array(["a", "b" * 20], pa.string_view())
        ),
    ),
    "arrays of enums": pa.FixedSizeListArray.from_arrays(enums(), 5),
}


def send(raw: Raw, operation: str, sent: Iterable[bytes], schema: pa.Schema) -> Answer:
    headers = (("airport-operation", operation), ("return-chunks", "1"))
    return read_answer(
        raw.both_ways("DoExchange", [opening(("s", "layouts"), schema), *sent], *headers)
    )


def rows(batch: pa.RecordBatch) -> list[bytes]:
    return messages(batch, NO_OPTIONS)[1:]


def stored(client: Client, raw: Raw, array: pa.Array, target: pa.DataType) -> list[Any]:
    """INSERT the array, UPDATE all rows with it, and return what is stored after each is equal."""
    client.create_table("s", "layouts", pa.schema([("c", target)]))
    try:
        sent = pa.record_batch({"c": array})
        answer = send(raw, "insert", rows(sent), sent.schema).rows
        values = [row["c"] for row in answer]
        assert client.read("s", "layouts").column("c").to_pylist() == values
        ids = pa.array([row["rowid"] for row in answer], pa.int64())
        both = pa.record_batch({"c": array, "rowid": ids})
        changed = send(raw, "update", rows(both), both.schema).rows
        assert [row["c"] for row in changed] == values
        assert client.read("s", "layouts").column("c").to_pylist() == values
        return values
    finally:
        client.drop_table("s", "layouts")


@pytest.mark.parametrize("name", ATTACKS)
def test_every_layout_is_stored_as_its_values(server: ServerProcess, raw, name):
    array = ATTACKS[name]
    with connect(server.location, "memory") as client:
        assert stored(client, raw, array, array.type) == array.to_pylist()
        plain = pa.array(array.to_pylist(), plain_type(array.type))
        expected = stored(client, raw, plain, pa.string())
        assert stored(client, raw, array, pa.string()) == expected
        assert len({text for text in expected if text}) > 1 or name == "overlaps"


def storable(seed: int) -> pa.Array:
    """Return an array that the wire and DuckDB accept: no runs within types, no unions."""
    rng = random.Random(seed)
    while True:
        array = anything(rng, rng.choice([1, 3, 40, MANY]), 2)
        text = str(array.type)
        if "run_end" not in text and "union" not in text and "json" not in text:
            return array


@pytest.mark.parametrize("seed", range(40))
def test_random_layouts_are_stored_as_their_values(server: ServerProcess, raw, seed):
    array = storable(seed)
    with connect(server.location, "memory") as client:
        assert stored(client, raw, array, array.type) == array.to_pylist()
        plain = pa.array(array.to_pylist(), plain_type(array.type))
        expected = stored(client, raw, plain, pa.string())
        assert stored(client, raw, array, pa.string()) == expected


@pytest.mark.soak
def test_many_random_layouts_are_stored_as_their_values(server: ServerProcess, raw):
    with connect(server.location, "memory") as client:
        for seed in range(1_000, 4_000):
            array = storable(seed)
            assert stored(client, raw, array, array.type) == array.to_pylist(), seed


# --- time


def in_time(raw: Raw, operation: str, sent: list[bytes], schema: pa.Schema) -> Answer:
    started = time.monotonic()
    answer = send(raw, operation, sent, schema)
    assert time.monotonic() - started < SECONDS
    return answer


@pytest.fixture
def table(server: ServerProcess, raw: Raw) -> Iterator[Client]:
    with connect(server.location, "memory") as client:
        client.create_table("s", "layouts", pa.schema([("c", pa.string())]))
        yield client
        client.drop_table("s", "layouts")


def test_a_dictionary_is_decoded_once_for_many_batches(table, raw):
    values = pa.array(["x" * 1_000] * 12_000)
    one = pa.DictionaryArray.from_arrays(pa.array([5], pa.int32()), values)
    _, dictionary, row = messages(pa.record_batch({"c": one}), COMPRESSED)
    assert len(dictionary) < 200_000
    sent = [dictionary, *[row] * 300]
    answer = in_time(raw, "insert", sent, pa.schema([("c", one.type)]))
    assert [r["c"] for r in answer.rows] == ["x" * 1_000] * 300


def deltas(count: int) -> tuple[pa.Schema, list[bytes]]:
    """Return a stream that extends its dictionary so often, with a row after each 100th."""
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    kind = pa.dictionary(pa.int32(), pa.string())
    words = pa.array([f"w{i}" for i in range(2)])
    both = [
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), words.slice(0, n)) for n in (1, 2)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("c", kind)]), options=options) as writer:
        for array in both:
            writer.write_batch(pa.record_batch({"c": array}))
    data = sink.getvalue().to_pybytes()
    parts = [flight_data(*each) for each in split_stream(memoryview(data))]
    _, first, row, delta, last = parts
    sent = [first, row]
    for number in range(count):
        sent += [delta, last] if number % 100 == 99 else [delta]
    return pa.schema([("c", kind)]), sent


def test_a_dictionary_may_be_extended_often_but_not_without_end(table, raw):
    schema, sent = deltas(4_000)
    answer = in_time(raw, "insert", sent, schema)
    assert [row["c"] for row in answer.rows] == ["w0"] * 41
    schema, sent = deltas(20_000)
    with pytest.raises(grpc.RpcError) as error:
        in_time(raw, "insert", sent, schema)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "extends its dictionaries more than" in said(error)


@pytest.mark.parametrize("compressed", [True, False])
def test_dictionaries_that_are_replaced_are_paid_for(table, raw, compressed):
    """What is sent in full may be replaced as often as you like."""
    texts = ["x" * 1000] * 10_000 if compressed else [f"{n:030}" for n in range(1_000)]
    one = pa.DictionaryArray.from_arrays(pa.array([5], pa.int32()), pa.array(texts))
    options = COMPRESSED if compressed else NO_OPTIONS
    _, dictionary, row = messages(pa.record_batch({"c": one}), options)
    sent = [dictionary, row] * (200 if compressed else 600)
    if not compressed:
        answer = in_time(raw, "insert", sent, pa.schema([("c", one.type)]))
        assert [r["c"] for r in answer.rows] == [texts[5]] * 600
        return
    with pytest.raises(grpc.RpcError) as error:
        in_time(raw, "insert", sent, pa.schema([("c", one.type)]))
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "unpack to far more than is sent" in said(error)


@pytest.mark.parametrize("operation", ["insert", "delete"])
def test_batches_without_rows_cost_little(table, raw, operation):
    schema = pa.schema([("c", pa.string()), ("rowid", pa.int64())])
    if operation == "insert":
        schema = schema.remove(1)
    empty = encode_batch(pa.RecordBatch.from_pylist([], schema))
    answer = in_time(raw, operation, [empty] * 10_000, schema)
    assert len(answer.batches) == 10_000
    assert not answer.rows


# --- behind the wire


def fuzz(first: int, count: int, depth: int) -> None:
    command = [sys.executable, "-m", "tests.security.input.layout_child"]
    command += map(str, (first, count, depth))
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:]


def test_duckdb_reads_random_layouts_as_their_values():
    fuzz(0, 300, 3)


@pytest.mark.soak
def test_duckdb_reads_many_random_layouts_as_their_values():
    for first in range(1_000, 21_000, 2_000):
        fuzz(first, 2_000, 4)
