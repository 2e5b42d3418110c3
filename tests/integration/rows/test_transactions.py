"""What a scan sees: one version under one id, the past by AT, all parts, only what is asked for."""

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import grpc
import msgpack
import numpy as np
import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.client import Client, connect
from jetbridge.errors import BadRequest, NotFound
from jetbridge.service import Limits, Server
from jetbridge.wire.flight_pb2 import Action
from tests.helpers.raw import Raw, said
from tests.helpers.waiting import wait_until

VECTORS = Path(__file__).parents[2] / "vectors" / "airport"
MEMORY = ("airport-catalog", "memory")
NUMBER = pa.schema([("n", pa.int64())])
ROWID_INDEX = 2**64 - 1


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def read(client: Client, table: str, at: AsOf | None = None) -> list[int]:
    found: list[int] = client.read("s", table, at=at).column("n").to_pylist()
    return sorted(found)


def seen(raw: Raw, transaction: str, table: str = "a") -> list[int]:
    answers = raw.scan(("s", table), ("airport-transaction-id", transaction))
    return sorted(row["n"] for answer in answers for row in answer.rows)


def begin(raw: Raw) -> str:
    identifier: str = raw.answer("create_transaction", {"catalog_name": "memory"})["identifier"]
    return identifier


@pytest.fixture
def tables(client: Client) -> Client:
    client.create_schema("s")
    for name in ("a", "b"):
        client.create_table("s", name, NUMBER)
        client.insert("s", name, numbers(1))
    return client


@pytest.fixture
def raw(server) -> Iterator[Raw]:
    with Raw(server.location, MEMORY) as caller:
        yield caller


# --- ids


def test_all_scans_under_one_id_see_one_version_of_every_table(tables):
    with tables.transaction() as first:
        assert read(first, "a") == [1]
        tables.insert("s", "b", numbers(2))
        tables.insert("s", "a", numbers(2))
        with tables.transaction() as second:
            assert (read(first, "a"), read(first, "b")) == ([1], [1])
            assert (read(second, "a"), read(second, "b")) == ([1, 2], [1, 2])
            tables.delete("s", "b", [0])
            assert (read(first, "b"), read(second, "b")) == ([1], [1, 2])
    assert (read(tables, "a"), read(tables, "b")) == ([1, 2], [2])


def test_table_made_after_the_transaction_began_is_seen_in_it(tables):
    with tables.transaction() as early:
        assert read(early, "a") == [1]
        tables.create_table("s", "c", NUMBER)
        tables.insert("s", "c", numbers(7))
        assert read(early, "c") == [7]


def test_tickets_planned_under_an_id_read_that_version_later(tables, raw):
    header = ("airport-transaction-id", begin(raw))
    (end,) = raw.endpoints(("s", "a"), header)
    tables.insert("s", "a", numbers(2, 3))
    assert [row["n"] for row in raw.get(end.ticket, header).rows] == [1]
    assert [row["n"] for row in raw.get(end.ticket).rows] == [1]


def test_unknown_id_starts_afresh_and_then_keeps_its_version(tables, raw):
    assert seen(raw, "never-given") == [1]
    tables.insert("s", "a", numbers(2))
    assert seen(raw, "never-given") == [1]
    assert seen(raw, "another") == [1, 2]


def test_ids_of_one_catalog_are_nothing_to_another(tables, catalog, raw):
    identifier = begin(raw)
    assert seen(raw, identifier) == [1]
    with Server({"memory": catalog, "other": catalog}, port=0) as both:
        both.start()
        with Raw(both.location) as caller:
            header = ("airport-transaction-id", "same")
            caller.scan(("s", "a"), header, ("airport-catalog", "other"))
            tables.insert("s", "a", numbers(2))
            (pinned,) = caller.scan(("s", "a"), header, ("airport-catalog", "other"))
            (fresh,) = caller.scan(("s", "a"), header, MEMORY)
    assert [row["n"] for row in pinned.rows] == [1]
    assert [row["n"] for row in fresh.rows] == [1, 2]


def test_id_that_was_not_used_for_long_expires_and_starts_afresh(tables, catalog):
    with Server({"memory": catalog}, port=0, transaction_seconds=2) as server:
        server.start()
        with Raw(server.location, MEMORY) as caller:
            used, unused = begin(caller), begin(caller)
            assert seen(caller, used) == seen(caller, unused) == [1]
            tables.insert("s", "a", numbers(2))
            wait_until(lambda: seen(caller, used) == [1] and len(server.transactions) == 1)
            assert seen(caller, used) == [1]
            assert seen(caller, unused) == [1, 2]
            assert len(server.transactions) == 2


def test_over_the_limit_the_id_unused_for_longest_goes(tables, catalog):
    limits = Limits(transactions=2)
    with Server({"memory": catalog}, port=0, limits=limits) as server:
        server.start()
        with Raw(server.location, MEMORY) as caller:
            first, second = begin(caller), begin(caller)
            assert seen(caller, second) == seen(caller, first) == [1]
            tables.insert("s", "a", numbers(2))
            third = begin(caller)
            assert len(server.transactions) == 2
            assert seen(caller, first) == [1]
            assert seen(caller, third) == [1, 2]
            assert seen(caller, second) == [1, 2]


def test_header_of_any_length_is_an_id(tables, raw):
    assert seen(raw, "x" * 4000) == [1]


# --- AT


def test_every_version_can_be_read_again_by_its_number(tables):
    tables.insert("s", "a", numbers(2))
    tables.delete("s", "a", [0])
    found = [read(tables, "a", AsOf(AtUnit.VERSION, str(n))) for n in (0, 1, 2, 3)]
    assert found == [[], [1], [1, 2], [2]]
    with pytest.raises(NotFound, match="versions 0 to 3 are kept"):
        read(tables, "a", AsOf(AtUnit.VERSION, "4"))


def test_point_in_time_is_read_as_it_was_then():
    ticks = iter(range(1000))

    def clock() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + next(ticks) * timedelta(days=1)

    catalog = MemoryCatalog(clock=clock)
    with Server({"memory": catalog}, port=0) as server:
        server.start()
        with connect(server.location, "memory") as client:
            client.create_schema("s")
            client.create_table("s", "a", NUMBER)
            for n in (1, 2, 3):
                client.insert("s", "a", numbers(n))
            expected = {
                "2026-01-01 00:00:00": [],
                "2026-01-02 12:00:00": [1],
                "2026-02-01 00:00:00": [1, 2, 3],
                # Without a zone it is UTC; one with an offset, as of a TIMESTAMPTZ, means that.
                "2026-01-01 23:59:59": [],
                "2026-01-02 00:00:00": [1],
                "2026-01-02 00:00:00+02": [],
                "2026-01-01 22:00:00-02": [1],
                "2026-01-02 01:00:00 Europe/Berlin": [1],
            }
            for text, rows in expected.items():
                assert (text, read(client, "a", AsOf(AtUnit.TIMESTAMP, text))) == (text, rows)
            with pytest.raises(NotFound, match="2025-12-31"):
                read(client, "a", AsOf(AtUnit.TIMESTAMP, "2025-12-31 23:59:59"))


def test_dropped_column_is_there_in_the_past(tables):
    tables.add_column("s", "a", pa.field("word", pa.string()))
    row = pa.table({"n": pa.array([2], pa.int64()), "word": ["two"]})
    tables.insert("s", "a", row)
    tables.remove_column("s", "a", "word")
    tables.rename_column("s", "a", "n", "m")
    then = AsOf(AtUnit.VERSION, "3")
    assert tables.flight_info("s", "a", then).schema.names == ["n", "word"]
    assert tables.read("s", "a", at=then).to_pylist() == [
        {"n": 1, "word": None},
        {"n": 2, "word": "two"},
    ]
    assert tables.flight_info("s", "a", AsOf(AtUnit.VERSION, "1")).schema.names == ["n"]
    assert tables.read("s", "a").to_pylist() == [{"m": 1}, {"m": 2}]


@pytest.mark.parametrize(("unit", "value"), [("VERSION", "one"), ("TIMESTAMP", "yesterday-ish")])
def test_point_that_cannot_be_read_is_refused(tables, unit, value):
    with pytest.raises(BadRequest, match=value):
        read(tables, "a", AsOf(AtUnit(unit), value))


# --- parts, projection and progress

MILLION = 1_000_000


@pytest.fixture(scope="module")
def large() -> Iterator[Raw]:
    catalog = MemoryCatalog()
    with Server({"memory": catalog}, port=0, limits=Limits(batch_rows_out=10_000)) as server:
        server.start()
        with connect(server.location, "memory") as client, Raw(server.location, MEMORY) as caller:
            client.create_schema("s")
            values = np.arange(MILLION)
            rows = pa.table({"n": values, "half": values / 2})
            client.create_table("s", "large", rows.schema)
            client.insert("s", "large", rows, batch_rows=100_000)
            client.create_table("s", "middle", rows.schema)
            client.insert("s", "middle", rows.slice(0, 55_555))
            yield caller


def test_endpoints_of_a_large_table_hold_every_row_once(large):
    answers = large.scan(("s", "large"))
    assert len(answers) > 1
    parts = [pa.Table.from_batches(answer.batches) for answer in answers]
    assert all(part.num_rows for part in parts)
    whole = pa.concat_tables(parts).sort_by("n")
    expected = np.arange(MILLION)
    assert np.array_equal(whole.column("n").to_numpy(), expected)
    assert np.array_equal(whole.column("half").to_numpy(), expected / 2)
    assert np.array_equal(whole.column("rowid").to_numpy(), expected)


@pytest.mark.parametrize(
    ("column_ids", "needed"),
    [
        ([0], {"n"}),
        ([1, 1, 0], {"n", "half"}),
        ([ROWID_INDEX], {"rowid"}),
        ([0, ROWID_INDEX], {"n", "rowid"}),
        ([], {"n", "half", "rowid"}),
    ],
)
def test_columns_that_are_not_needed_come_as_nulls_in_their_place(large, column_ids, needed):
    (answer,) = large.scan(("s", "middle"), column_ids=column_ids)
    table = pa.Table.from_batches(answer.batches)
    assert table.column_names == ["n", "half", "rowid"]
    assert {name for name in table.column_names if table[name].null_count == 0} == needed
    assert {n for n in table.column_names if table[n].null_count == 55_555} == (
        {"n", "half", "rowid"} - needed
    )
    for name in needed:
        assert np.array_equal(table[name].to_numpy() * (2 if name == "half" else 1), range(55_555))


def test_progress_rises_to_one(large):
    (answer,) = large.scan(("s", "middle"))
    progress = [metadata.pop("progress") for metadata in answer.metadata]
    assert answer.metadata == [{}] * len(answer.batches)
    assert progress == sorted(progress)
    assert len(set(progress)) == len(answer.batches) > 1
    assert (0 < progress[0] < 1, progress[-1]) == (True, 1.0)


def test_progress_of_each_part_stays_between_zero_and_one(large):
    for answer in large.scan(("s", "large")):
        progress = [metadata["progress"] for metadata in answer.metadata]
        assert progress == sorted(progress)
        assert 0 < progress[0] <= progress[-1] <= 1.0


# --- recorded filters


def recorded() -> list[dict[str, Any]]:
    name = "duckdb-1.5.0-airport-f52b27c.jsonl"
    lines = [json.loads(line) for line in (VECTORS / name).read_text().splitlines()]
    return sorted(lines, key=lambda line: line["n"])


def filters() -> Iterator[Any]:
    """Yield the statement and the parameters of every recorded scan that has a filter."""
    sql = ""
    for line in recorded():
        sql = line.get("sql", sql)
        if line.get("method") != "DoAction":
            continue
        action = Action.FromString(base64.b64decode(line["request"][0]))
        if action.type == "endpoints" and b'"filters":[{' in action.body:
            request = msgpack.unpackb(action.body, unicode_errors="surrogateescape")
            yield pytest.param(sql, request["parameters"], id=sql[:70])


@pytest.fixture(scope="module")
def replayed() -> Iterator[Raw]:
    """Provide the recorded tables with all the rows that were ever inserted into them."""
    with Server({"cat": MemoryCatalog()}, port=0) as server:
        server.start()
        with Raw(server.location, ("airport-catalog", "cat")) as caller:
            for line in recorded():
                replay(caller, line)
            yield caller


def replay(caller: Raw, line: dict[str, Any]) -> None:
    """Run CREATE and INSERT again; what failed when it was recorded may fail again."""
    if line.get("method") == "DoAction" and line["status"] == "OK":
        action = Action.FromString(base64.b64decode(line["request"][0]))
        if action.type == "create_table" or (action.type == "create_schema" and line["n"] != 9):
            caller.action(action.type, action.body)
    if line.get("method") == "DoExchange" and line["status"] == "OK":
        headers = dict(line["headers"])
        if headers["airport-operation"] == "insert":
            client = [data for side, data in line["messages"] if side == "client"]
            sent = [base64.b64decode(data) for data in client if data != "half-close"]
            wanted = ("airport-operation", "return-chunks")
            list(caller.both_ways("DoExchange", sent, *((k, headers[k]) for k in wanted)))


def again(sql: str, rows: pa.Table) -> list[str]:
    """Return the recorded statement over these rows, as the client filters them again."""
    where = re.sub(r" (RETURNING|ORDER BY) .*", "", sql.partition(" WHERE ")[2])
    wanted = sql.removeprefix("SELECT ").partition(" FROM ")[0]
    columns = wanted if sql.startswith("SELECT") else "id, rowid"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", rows)
        found = connection.sql(f"SELECT {columns} FROM t WHERE {where}").to_arrow_table()
        return sorted(map(str, found.to_pylist()))


@pytest.mark.parametrize(("sql", "parameters"), list(filters()))
def test_recorded_filter_loses_no_row_that_the_client_would_keep(replayed, sql, parameters):
    found = re.search(r"a\.(\w+)\.(\w+)", sql)
    assert found
    whole = table_of(replayed, found.groups(), {**parameters, "json_filters": ""})
    some = table_of(replayed, found.groups(), parameters)
    assert some.num_rows <= whole.num_rows
    kept = again(sql, whole)
    assert kept or sql.endswith("id = -1")
    assert again(sql, some) == kept


def table_of(raw: Raw, path: Any, parameters: dict[str, Any]) -> pa.Table:
    answers = raw.scan(tuple(path), **parameters)
    batches = [batch for answer in answers for batch in answer.batches]
    return pa.Table.from_batches(batches, answers[0].schema)


def test_filter_of_one_value_is_really_applied(replayed):
    by_id = next(p.values for p in filters() if p.values[0].endswith("orders WHERE id = 2"))
    rows = table_of(replayed, ("sales", "orders"), by_id[1]).to_pylist()
    assert [row["id"] for row in rows] == [2]


def test_ticket_of_another_server_is_refused(replayed, large):
    (end,) = large.endpoints(("s", "middle"))
    with pytest.raises(grpc.RpcError) as refused:
        replayed.get(end.ticket)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "ask for endpoints again" in said(refused)
