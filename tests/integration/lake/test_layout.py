"""Tables that are partitioned or sorted: written by Spark, so that the layout holds."""

import json
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge import catalog
from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.metadata.history import read_history
from jetbridge.backends.lake.write import spark_writes
from jetbridge.catalog import CreateTable, RemoveColumn, SchemaInfo, UniqueKey
from jetbridge.client import connect
from jetbridge.errors import (
    BadRequest,
    Conflict,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
)
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session
from jetbridge.service import Server
from tests.conformance.harness import RETURNING, delete, insert, read, rowids, rows, update
from tests.helpers.lakes import new_lake
from tests.helpers.raw import Raw

pytestmark = pytest.mark.lake

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("Region", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("ts", pa.timestamp("us")),
        pa.field("inner", pa.struct([("city", pa.string())])),
    ]
)
START = datetime(2024, 1, 31, 12)


def data(start: int, stop: int) -> dict[str, pa.Array]:
    numbers = range(start, stop)
    return {
        "id": pa.array(numbers, pa.int64()),
        "Region": pa.array([("north", "south", None)[n % 3] for n in numbers]),
        "amount": pa.array([n / 4 for n in numbers]),
        "ts": pa.array([START + timedelta(hours=n) for n in numbers], pa.timestamp("us")),
        "inner": pa.array([{"city": f"c{n % 2}"} for n in numbers]),
    }


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    made = new_lake()
    made.create_schema(SchemaInfo("s"))
    return made


class Laid:
    """Hold a table with a layout, and ask Spark about it."""

    def __init__(self, lake: LakeCatalog, name: str, **options: Any) -> None:
        self.lake, self.name = lake, name
        lake.load_schema("s").create_table(CreateTable(name, COLUMNS, **options))

    def load(self) -> Any:
        return self.lake.load_schema("s").load_table(self.name)

    def state(self) -> Any:
        return self.lake.lake.tables.load("s", self.name)

    def lay_out(self, partition_by: str | None = None, sort_by: str | None = None) -> Any:
        return self.load().lay_out(partition_by, sort_by)

    def ask(self, what: str) -> list[tuple[Any, ...]]:
        """Return rows of Spark; `{}` stands for the table."""
        with self.lake.lake.warehouse.engine.session() as session:
            name = f"`{self.lake.lake.name}`.s.`{self.name}`"
            return [tuple(row) for row in session.sql(what.format(name)).collect()]

    def files(self) -> list[tuple[Any, ...]]:
        return self.ask("SELECT file_path FROM {}.files WHERE content = 0")

    def refs(self) -> list[str]:
        return list(self.state().references)


LAYOUTS = {
    "partitioned": ("region, bucket(2, id)", None),
    "sorted": (None, "amount DESC, id"),
    "both": ("day(ts)", '"Region" NULLS FIRST'),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_statements_on_a_table_with_a_layout(lake, layout):
    table = Laid(lake, f"dml_{layout}")
    table.lay_out(*LAYOUTS[layout])
    insert(table.load(), data(0, 60))
    insert(table.load(), data(60, 90))
    seen = table.load()
    ids = rowids(seen, "Region", "north")
    new = {"Region": ["west"] * len(ids), "rowid": ids}
    returned = update(seen, new, RETURNING)
    assert returned.returning_data.to_pydict() == new
    gone = rowids(table.load(), "id", 7)
    answer = delete(table.load(), gone, RETURNING).returning_data.to_pylist()
    assert [(row["id"], row["amount"], row["rowid"]) for row in answer] == [(7, 1.75, gone[0])]

    expected = {
        n: ("west" if n % 3 == 0 else ("north", "south", None)[n % 3]) for n in range(90) if n != 7
    }
    now = table.load()
    assert dict(rows(now, "id", "Region")) == expected
    assert sorted(rowids(now, "Region", "west")) == sorted(ids)
    assert now.count_rows() == 89
    assert table.refs() == ["main"]
    spark = table.ask("SELECT count(*), count(DISTINCT id), sum(amount) FROM {}")
    assert spark == [(89, 89, sum(n / 4 for n in range(90)) - 1.75)]
    # Neither statement has touched rows that it did not name.
    with pytest.raises(Conflict):
        update(seen, {"amount": [0.0], "rowid": [ids[0]]})
    assert table.refs() == ["main"]


def test_partitions_are_really_used(lake):
    table = Laid(lake, "partitions")
    table.lay_out('truncate(1, region), "INNER"."City"')
    insert(table.load(), data(0, 12))
    found = table.ask("SELECT partition, record_count FROM {}.partitions")
    parts = {tuple(partition): count for partition, count in found}
    assert parts == {(r, c): 2 for r in ("n", "s", None) for c in ("c0", "c1")}
    folders = {path.split("/data/")[1].rpartition("/")[0] for (path,) in table.files()}
    assert "Region_trunc_1=n/inner.city=c0" in folders


def test_files_of_a_sorted_table_are_in_order(lake):
    table = Laid(lake, "ordered")
    table.lay_out(None, "id DESC")
    insert(table.load(), {**data(0, 500), "id": pa.array([n * 7 % 500 for n in range(500)])})
    for (path,) in table.files():
        ids = pq.read_table(path).column("id").to_pylist()
        assert ids == sorted(ids, reverse=True)


def test_keys_and_checks_hold_on_a_partitioned_table(lake):
    keys = (UniqueKey(("id",), primary=True),)
    table = Laid(lake, "keys", keys=keys, checks=("amount >= 0",))
    table.lay_out("bucket(3, id)")
    insert(table.load(), data(0, 10))
    with pytest.raises(DuplicateKey, match="id"):
        insert(table.load(), data(9, 12))
    with pytest.raises(ConstraintViolation, match="amount"):
        insert(table.load(), {**data(20, 21), "amount": pa.array([-1.0])})
    five = rowids(table.load(), "id", 5)
    with pytest.raises(DuplicateKey):
        update(table.load(), {"id": [6], "rowid": five})
    with pytest.raises(ConstraintViolation):
        update(table.load(), {"amount": [-5.0], "rowid": five})
    with pytest.raises(ConstraintViolation):
        update(table.load(), {"id": pa.array([None], pa.int64()), "rowid": five})
    update(table.load(), {"id": [50], "rowid": five})
    assert sorted(rows(table.load(), "id")) == [(n,) for n in (0, 1, 2, 3, 4, 6, 7, 8, 9, 50)]
    assert table.refs() == ["main"]


def test_a_failed_job_leaves_nothing_behind(lake):
    table = Laid(lake, "clean", keys=(UniqueKey(("id",), primary=True),))
    table.lay_out("region")
    with pytest.raises(DuplicateKey):
        insert(table.load(), {**data(0, 2), "id": pa.array([1, 1])})
    assert rows(table.load()) == []
    assert table.refs() == []
    assert table.state().snapshots() == []


def test_a_job_that_another_engine_outruns_runs_again(lake, monkeypatch):
    table = Laid(lake, "outrun")
    table.lay_out("region")
    insert(table.load(), data(0, 3))
    moves: list[str] = []
    original = spark_writes._move_main

    def late(moved: Any, branch: str) -> None:
        if not moves:
            table.ask("INSERT INTO {0} SELECT 100, 'east', 1.0, ts, inner FROM {0} LIMIT 1")
        moves.append(branch)
        original(moved, branch)

    monkeypatch.setattr(spark_writes, "_move_main", late)
    insert(table.load(), data(3, 6))
    assert sorted(r[0] for r in rows(table.load(), "id")) == [0, 1, 2, 3, 4, 5, 100]
    assert len(moves) == 2
    assert table.refs() == ["main"]
    snapshots = table.state().snapshots()
    assert len(snapshots) == len(read_history(table.state()))


def test_a_layout_can_be_changed_and_taken_away(lake):
    table = Laid(lake, "changing")
    insert(table.load(), data(0, 6))
    table.lay_out("region, day(ts)", "id")
    before = table.state().location
    assert table.lay_out("day(ts), REGION", "id ASC NULLS LAST").info().name == "changing"
    assert table.state().location == before, "the same layout is no change"
    insert(table.load(), data(6, 9))
    table.lay_out("day(ts)")
    table.lay_out("", "")
    insert(table.load(), data(9, 12))
    ids = rowids(table.load(), "Region", "south")
    update(table.load(), {"amount": [9.5] * len(ids), "rowid": ids})
    assert rows(table.load(), "id", "amount") == sorted(
        ((n, 9.5 if n % 3 == 1 else n / 4) for n in range(12)), key=repr
    )
    specs = table.ask("SELECT DISTINCT spec_id FROM {}.files ORDER BY 1")
    assert len(specs) > 1


def test_a_statement_that_saw_a_plain_table_meets_its_partitions(lake):
    table = Laid(lake, "meanwhile")
    insert(table.load(), data(0, 6))
    seen = table.load()
    with seen.inserting(catalog.DMLOptions()) as write:
        write(pa.record_batch(data(6, 9)))
        table.lay_out("region")
    insert(table.load(), data(9, 12))
    assert sorted(r[0] for r in rows(table.load(), "id")) == list(range(12))
    ids = rowids(table.load(), "id", 8)
    delete(table.load(), ids)
    assert read(table.load()).num_rows == 11


REFUSED = {
    "nothing": "no column 'nothing'",
    "inner": "struct",
    "inner.town": "no column 'inner.town'",
    "day(region)": "stored as string",
    "bucket(id)": "bucket needs a number",
    "bucket(0, id)": "bucket needs a number",
    "truncate(3, amount)": "stored as double",
    "week(ts)": "'week' is not one of",
    "region region": "comma",
    "region, region": "duplicate column",
    "region,": "column is missing",
    "day(ts": "')' is missing",
    "id; DROP": "not understood",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_with_a_layout_is_named(lake, text):
    request = CreateTable("refused", COLUMNS, catalog.OnConflict.IGNORE)
    table = lake.load_schema("s").create_table(request)
    with pytest.raises(BadRequest, match="partition_by") as caught:
        table.lay_out(text, None)
    assert REFUSED[text] in str(caught.value)
    with pytest.raises(BadRequest, match="sort_by"):
        table.lay_out(None, f"{text} DESC DESC")


def test_uuids_go_through_spark(lake):
    ids = [UUID(int=n) for n in (7, 8, 2**127)]
    fields = [("n", pa.int64()), ("u", pa.uuid()), ("l", pa.list_(pa.uuid()))]
    made = lake.load_schema("s").create_table(CreateTable("uuids", pa.schema(fields)))
    table = made.lay_out("bucket(2, u)", None)

    def sent(first: UUID) -> dict[str, Any]:
        values = pa.array([first.bytes, ids[1].bytes], pa.uuid())
        nested = pa.ListArray.from_arrays([0, 1, 1], pa.array([ids[2].bytes], pa.uuid()))
        return {"n": [1, 2], "u": values, "l": nested}

    insert(table, sent(ids[0]))
    table = lake.load_schema("s").load_table("uuids")
    update(table, {"u": pa.array([ids[2].bytes], pa.uuid()), "rowid": rowids(table, "n", 1)})
    found = read(lake.load_schema("s").load_table("uuids"), ("n", "u", "l")).sort_by("n")
    assert found.to_pydict() == {"n": [1, 2], "u": [ids[2], ids[1]], "l": [[ids[2]], []]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [1, 2])
def test_a_partitioned_table_of_another_engine_takes_rows(lake, version):
    name = f"`{lake.lake.name}`.s.foreign{version}"
    properties = f"TBLPROPERTIES ('format-version' = '{version}')"
    with lake.lake.warehouse.engine.session() as session:
        session.sql(
            f"CREATE TABLE {name} (id BIGINT, region STRING) USING iceberg "
            f"PARTITIONED BY (region) {properties}"
        )
    load = lambda: lake.load_schema("s").load_table(f"foreign{version}")  # noqa: E731
    insert(load(), {"id": [1, 2], "region": ["n", "s"]})
    insert(load(), {"id": [3], "region": ["n"]})
    with lake.lake.warehouse.engine.session() as session:
        found = session.sql(f"SELECT partition.region, record_count FROM {name}.partitions")
        assert {tuple(row) for row in found.collect()} == {("n", 2), ("s", 1)}
    load().lay_out("", "")
    insert(load(), {"id": [4], "region": ["w"]})
    assert rows(load()) == [(1, "n"), (2, "s"), (3, "n"), (4, "w")]


def test_the_action_takes_msgpack_and_json(lake):
    Laid(lake, "wired")
    named = {"catalog": "lake", "schema": "S", "name": "WIRED"}
    with Server({"lake": lake}, port=0) as server:
        server.start()
        with connect(server.location, "lake") as client, Raw(server.location) as raw:
            assert client.set_layout("s", "wired", partition_by="region").name == "wired"
            assert lake.lake.tables.load("s", "wired").partitioned_specs()
            raw.action("set_layout", json.dumps({**named, "sort_by": "id"}).encode())
            with pytest.raises(BadRequest, match="no column 'nothing'"):
                client.set_layout("s", "wired", partition_by="nothing")
    assert lake.lake.tables.load("s", "wired").sort_order_id


def test_a_column_of_the_layout_cannot_be_removed(lake):
    table = Laid(lake, "kept")
    table.lay_out("region", "ts")
    remedies = {"Region": "RESET PARTITIONED BY", "ts": "RESET SORTED BY"}
    with closing(Session({"lake": lake})) as session:
        for column, remedy in remedies.items():
            with pytest.raises(FailedPrecondition, match=column) as refused:
                table.load().alter(RemoveColumn(column))
            assert str(refused.value).endswith(f"; run ALTER TABLE s.kept {remedy} first")
        table.load().alter(RemoveColumn("amount"))
        for column, remedy in remedies.items():
            list(run(session, f"USE lake.s; ALTER TABLE s.kept {remedy}"))
            if column == "ts":
                table.load().alter(RemoveColumn(column))
    insert(table.load(), {"id": [1]})
    assert rows(table.load(), "id") == [(1,)]
