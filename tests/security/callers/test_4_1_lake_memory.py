"""Many small commits into one lake table do not fill the server's memory.

Attacked: one-row INSERTs, one after the other. The server kept the metadata of every version, each
with all snapshots before it: 3.4 GB after 1,700.
"""

import functools
import gc
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import text

from jetbridge.backends.lake.metadata.pointers import MetadataPointer, SqlPointers
from jetbridge.backends.lake.metadata.state_cache import StateCache
from jetbridge.backends.lake.metadata.structs import Snapshot
from jetbridge.backends.lake.metadata.table_state import TableState, read_state
from jetbridge.backends.lake.read.context import ColumnCache, ColumnChunkKey
from jetbridge.catalog import AsOf, AtUnit, CreateTable, SchemaInfo
from jetbridge.client import Client, connect
from jetbridge.service import Server
from tests.conformance.harness import insert, rows
from tests.helpers.lakes import new_lake, ready_lake
from tests.helpers.peers import ServerProcess

MEGABYTE = 1024 * 1024
COLUMNS = pa.schema({"id": pa.int64()})
SUMMARY = {f"total-of-something-{number}": str(number) for number in range(20)}
VERSIONS = 200


def ids(client: Client) -> list[int]:
    with client.scan("s", "t", ["id"]) as batches:
        return sorted(value for batch in batches for value in batch.column(0).to_pylist())


@contextmanager
def measured() -> Iterator[list[int]]:
    """Afterwards the only item is the memory that Python took in the block and has kept."""
    found: list[int] = []
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        yield found
        gc.collect()
        found.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()


@pytest.mark.lake
def test_forty_inserts_take_no_memory() -> None:
    with Server({"c": ready_lake()}, port=0) as server:
        server.start()
        with connect(server.location, "c") as client:
            client.create_schema("s")
            client.create_table("s", "t", COLUMNS)

            def insert(first: int, end: int) -> None:
                for number in range(first, end):
                    client.insert("s", "t", pa.table({"id": [number]}, schema=COLUMNS))

            insert(0, 10)
            with measured() as grown:
                insert(10, 50)
            assert grown[0] < 1.5 * MEGABYTE
            assert ids(client) == list(range(50))


@functools.cache
def snapshot(number: int) -> dict[str, object]:
    return {
        "snapshot-id": 10_000 + number,
        "sequence-number": number,
        "timestamp-ms": 1_790_000_000_000 + number,
        "parent-snapshot-id": 9_999 + number,
        "summary": {**SUMMARY, "total-records": str(number)},
        "manifest-list": f"/lake/s/t/metadata/snap-{number:032}.avro",
        "schema-id": 0,
    }


def decoded(number: int) -> Snapshot:
    return msgspec.convert(snapshot(number), Snapshot)


@functools.cache
def as_text(number: int) -> str:
    return json.dumps(snapshot(number))


def metadata(first: int, last: int, table: str = "t") -> tuple[MetadataPointer, bytes]:
    """A version of a table with these snapshots."""
    fields = [{"id": n, "name": f"c{n}", "type": "int", "required": False} for n in range(1, 30)]
    described = {
        "format-version": 3,
        "table-uuid": table,
        "location": f"/lake/s/{table}",
        "last-column-id": 29,
        "last-updated-ms": 1_790_000_000_000 + last,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "properties": {"jetbridge.created-ms": "1790000000000"},
        "current-snapshot-id": 10_000 + last,
        "snapshots": "all of them",
        "snapshot-log": [{"snapshot-id": n, "timestamp-ms": n} for n in range(first, last + 1)],
        "metadata-log": [{"metadata-file": f"/{n:050}", "timestamp-ms": n} for n in range(100)],
    }
    location = f"/lake/s/{table}/metadata/{first}-{last}.json"
    snapshots = ", ".join(as_text(number) for number in range(first, last + 1))
    written = json.dumps(described).replace('"all of them"', f"[{snapshots}]")
    return MetadataPointer("s", table, location), written.encode()


def read_into(cache: StateCache, pointer: MetadataPointer, data: bytes) -> TableState:
    state = read_state(pointer, data)
    cache.put(state)
    _ = state.definition, state.codec
    return state


def test_versions_of_a_table_take_little_more_than_the_last_one() -> None:
    files = [metadata(1, last) for last in range(1, VERSIONS + 1)]
    with measured() as grown:
        cache = StateCache(1_000 * MEGABYTE)
        for file in files:
            read_into(cache, *file)
    assert len(cache) == VERSIONS
    # Each has its logs and one snapshot; the text of all snapshots is there once.
    assert grown[0] < len(files[-1][1]) + VERSIONS * 30_000
    assert grown[0] < 1.2 * cache.bytes


def test_what_is_kept_is_bounded_in_bytes() -> None:
    cache = StateCache(MEGABYTE)
    for number in range(300):
        read_into(cache, *metadata(1, 1 + number % 7, f"table{number}"))
        assert cache.bytes <= MEGABYTE
    assert 10 < len(cache) < 300


def test_the_newest_version_of_a_table_outlives_the_versions_before_it() -> None:
    cache = StateCache(MEGABYTE)
    idle = read_into(cache, *metadata(1, 1, "idle"))
    for last in range(1, 200):
        newest = read_into(cache, *metadata(1, last))
    first, _ = metadata(1, 1)
    assert [cache.get(each) for each in (idle.pointer, newest.pointer, first)] == [
        idle,
        newest,
        None,
    ]


def test_a_table_larger_than_all_room_is_kept_alone() -> None:
    cache = StateCache(1_000)
    read_into(cache, *metadata(1, 1, "small"))
    large = read_into(cache, *metadata(1, 50))
    assert cache.get(large.pointer) is large
    assert len(cache) == 1


def test_every_version_says_its_own_snapshots() -> None:
    """In whatever order they are read, and after some have expired."""
    rng = np.random.default_rng(4)
    spans = [(1, last) for last in range(1, 40)] + [(20, last) for last in range(20, 60)]
    for _ in range(5):
        cache = StateCache(1_000 * MEGABYTE)
        shuffled = [spans[index] for index in rng.permutation(len(spans))]
        states = {span: read_into(cache, *metadata(*span)) for span in shuffled}
        for (first, last), state in states.items():
            assert state.snapshots() == [decoded(number) for number in range(first, last + 1)]
            assert state.snapshot == decoded(last)
            assert cache.get(state.pointer) is state


@pytest.mark.lake
def test_old_versions_read_as_they_were_with_little_room() -> None:
    lake = new_lake()
    lake.lake.tables.states = StateCache(1)
    table = lake.create_schema(SchemaInfo("s")).create_table(CreateTable("t", COLUMNS))
    pinned = [lake.snapshot()]
    for number in range(5):
        insert(lake.load_schema("s").load_table("t"), {"id": [number]})
        pinned.append(lake.snapshot())
    for count, version in enumerate(pinned):
        past = table.at(AsOf(AtUnit.VERSION, str(count)))
        for handle in (version.load_schema("s").load_table("t"), past):
            assert rows(handle) == [(number,) for number in range(count)]


def test_listings_that_transactions_hold_share_what_did_not_change(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}")
    add = "INSERT INTO iceberg_tables VALUES ('c', 's', :name, :place, NULL, 'TABLE')"
    move = text("UPDATE iceberg_tables SET metadata_location = :place WHERE table_name = 't0'")
    with catalog.engine.begin() as connection:
        for number in range(500):
            values = {"name": f"t{number}", "place": f"/lake/s/t{number:080}"}
            connection.execute(text(add), values)
    pointers = SqlPointers(catalog)
    held = [pointers.listing()]
    with measured() as grown:
        for number in range(50):
            with catalog.engine.begin() as connection:
                connection.execute(move, {"place": f"/lake/s/new{number:080}"})
            held.append(pointers.listing())
    catalog.close()
    assert grown[0] < 50 * 500 * 120
    places = [listing.tables["s", "t0"].location for listing in held[1:]]
    assert places == [f"/lake/s/new{number:080}" for number in range(50)]
    assert all(len(listing.tables) == 500 for listing in held)
    assert {listing.tables["s", "t7"].location for listing in held} == {f"/lake/s/t{7:080}"}


def test_columns_of_tiny_files_count_for_what_they_take() -> None:
    with measured() as grown:
        hot = ColumnCache(MEGABYTE)
        for number in range(5_000):
            hot.put(
                ColumnChunkKey(f"/lake/s/t/data/{number:060}.parquet", 0, b"1"),
                pa.chunked_array([[1]]),
            )
    assert grown[0] < MEGABYTE


@pytest.mark.soak
@pytest.mark.lake
def test_five_thousand_inserts_take_less_than_100_mib(tmp_path: Path) -> None:
    config = f"[catalogs.c]\ntype = 'lake'\nwarehouse = '{tmp_path / 'lake'}'\n"
    with ServerProcess(tmp_path, config) as server, connect(server.location, "c") as client:
        client.create_schema("s")
        client.create_table("s", "t", COLUMNS)
        for number in range(5_000):
            client.insert("s", "t", pa.table({"id": [number]}, schema=COLUMNS))
            if number == 100:
                before = server.rss
        assert server.rss - before < 100 * MEGABYTE
        assert ids(client) == list(range(5_000))
