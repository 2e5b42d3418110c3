"""Processes that are killed with their Spark, and what the sweeper of the next one does."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.maintenance.sweeper import Grace
from jetbridge.backends.lake.warehouse import server_locks
from jetbridge.catalog import (
    CreateTable,
    DMLOptions,
    OnConflict,
    RenameTable,
    Scan,
    SchemaInfo,
)
from jetbridge.errors import Unavailable
from jetbridge.spark.engine import SparkConnection
from tests.conformance.harness import insert, rows
from tests.helpers.lakes import new_lake
from tests.helpers.waiting import wait_until
from tests.integration.lake.victim import STATEMENTS

pytestmark = pytest.mark.lake

ROOT = Path(__file__).resolve().parents[3]
AT_ONCE = Grace(files=0, dropped=0)
COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.float64())])
SECONDS = 120
MANY = 200_000


@pytest.fixture
def lake() -> LakeCatalog:
    """Return a lake with tables of two rows: `laid` has partitions, `many` two files."""
    made = new_lake()
    schema = made.create_schema(SchemaInfo("s"))
    for name in ("plain", "laid"):
        insert(schema.create_table(CreateTable(name, COLUMNS)), {"id": [1, 2], "v": [0.5, 1.5]})
    many = schema.create_table(CreateTable("many", COLUMNS))
    for number in (1, 2):
        insert(many, {"id": [number], "v": [0.5]})
    schema.load_table("laid").lay_out("bucket(4, id)", None)
    return made


def warehouse(lake: LakeCatalog) -> Path:
    return Path(lake.lake.warehouse.folder)


def files(lake: LakeCatalog) -> set[Path]:
    """Return all but the catalog, and what tells that this server lives."""
    mine = (lake.lake.warehouse.server, "catalog.db")
    return {p for p in warehouse(lake).rglob("*") if p.is_file() and not p.name.startswith(mine)}


def kill_in(lake: LakeCatalog, what: str) -> None:
    module = "tests.integration.lake.victim"
    command = [sys.executable, "-m", module, lake.lake.name, str(warehouse(lake)), what]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()


def contents(lake: LakeCatalog) -> dict[str, Any]:
    return {t.info().name: rows(t) for t in lake.load_schema("s").list_tables()}


@pytest.mark.full
@pytest.mark.parametrize(
    "what",
    [
        # tests/faults kills servers in all of them, too.
        pytest.param(each, marks=() if each == "commit" else pytest.mark.soak)
        for each in STATEMENTS
    ],
)
def test_after_a_kill_nothing_is_left_of_the_statement(lake, what):
    before, there = files(lake), contents(lake)
    kill_in(lake, what)
    left = files(lake) - before
    assert left
    wait_until(lambda: lake.sweep(AT_ONCE).servers, SECONDS, step=0.2)  # when its Spark has ended
    made = {name for name in contents(lake) if name not in there}
    if what == "create":
        assert made <= {"half"}  # the table was made, nobody was told
        lake.load_schema("s").drop_table("half")
        lake.sweep(AT_ONCE)
    assert contents(lake) == there
    referred = {path for path in files(lake) - before if "metadata" not in path.parts}
    assert referred == set()
    for name in ("plain", "laid"):
        state = lake.lake.tables.load("s", name)
        assert set(state.references) == {"main"}
        assert len(state.snapshots()) == 1
    insert(lake.load_schema("s").load_table("laid"), {"id": [3], "v": [2.5]})
    assert not lake.sweep(AT_ONCE)


def test_spark_holds_a_lock_of_its_own(lake):
    folder = lake.lake.warehouse.lock.folder
    assert server_locks._java_holds(folder, lake.lake.warehouse.server)
    assert lake.lake.warehouse.server in server_locks.live_servers(folder)


def test_a_dropped_table_is_read_to_the_end_and_then_goes(lake):
    schema = lake.load_schema("s")
    table = schema.load_table("plain")
    place = Path(lake.lake.tables.load("s", "plain").folder)
    batches = iter(table.scan(Scan(("id",))))
    schema.drop_table("plain")
    insert(schema.create_table(CreateTable("plain", COLUMNS)), {"id": [9], "v": [9.0]})
    assert not lake.sweep()
    assert sum(batch.num_rows for batch in batches) == 2
    assert lake.sweep(AT_ONCE).tables == ["s.plain"]
    assert not place.exists()
    assert rows(schema.load_table("plain")) == [(9, 9.0)]


def test_a_table_never_gets_the_folder_of_another(lake):
    schema = lake.load_schema("s")
    schema.load_table("plain").alter(RenameTable("moved"))
    insert(schema.create_table(CreateTable("plain", COLUMNS)), {"id": [9], "v": [9.0]})
    places = {lake.lake.tables.load("s", name).folder for name in ("plain", "moved", "laid")}
    assert len(places) == 3
    schema.create_table(CreateTable("plain", COLUMNS, OnConflict.REPLACE))
    assert lake.lake.tables.load("s", "plain").folder in places, "its past is still there"
    schema.drop_table("plain")
    lake.sweep(AT_ONCE)
    assert rows(schema.load_table("moved")) == [(1, 0.5), (2, 1.5)]
    assert not lake.lake.warehouse.dropped.all()


def notes(lake: LakeCatalog) -> list[Path]:
    return list((warehouse(lake) / server_locks.FOLDER).rglob("*.json"))


def test_rows_of_a_statement_that_still_runs_stay(lake):
    """Keep them, whatever another statement has left in the same time."""
    table, state = lake.load_schema("s").load_table("plain"), lake.lake.tables.load("s", "plain")
    before = files(lake)
    with table.inserting(DMLOptions()) as write:
        write(pa.record_batch([range(10, MANY), [0.5] * (MANY - 10)], schema=COLUMNS))
        wait_until(lambda: files(lake) - before, SECONDS)
        left = Path(state.folder) / f"data/{lake.lake.warehouse.file_prefix()}-left.parquet"
        left.write_bytes(b"left behind")
        lake.lake.publisher.discard(state, [str(left)], Unavailable("nobody knows"))
        assert lake.sweep(AT_ONCE).files == [str(left)]
    assert len(rows(lake.load_schema("s").load_table("plain"))) == MANY - 8
    assert not notes(lake)


@pytest.mark.parametrize("outdated_go", [True, False])
def test_metadata_that_a_killed_commit_did_not_get_to_remove_goes(lake, outdated_go):
    if not outdated_go:
        name = "write.metadata.delete-after-commit.enabled"
        with lake.lake.warehouse.session("s.plain") as session:
            session.sql(f"ALTER TABLE {lake.lake.name}.s.plain UNSET TBLPROPERTIES ('{name}')")
    state = lake.lake.tables.load("s", "plain")
    old = Path(state.folder) / "metadata/00000-aa.metadata.json"
    old.write_text("{}")
    os.utime(old, (0, 0))
    lake.lake.warehouse.lock.doubt(state.identity, "s.plain", time.time())
    lake.sweep(AT_ONCE)
    assert old.exists() is not outdated_go
    assert contents(lake)["plain"] == [(1, 0.5), (2, 1.5)]


def test_a_job_that_lost_a_task_is_swept_after(lake, monkeypatch):
    """Sweep what the lost task wrote; the job succeeds, as Spark has run the task again."""
    laid = lake.load_schema("s").load_table("laid")
    stray = Path(lake.lake.tables.load("s", "laid").folder) / "data/00000-1-aa.parquet"
    lost = iter([frozenset(), frozenset({"0 0 True"})])
    monkeypatch.setattr(SparkConnection, "executor_failures", lambda _: next(lost))
    stray.write_bytes(b"left behind")
    insert(laid, {"id": [3], "v": [2.5]})
    assert lake.sweep(AT_ONCE).files == [str(stray)]
    assert not notes(lake)
    assert len(rows(lake.load_schema("s").load_table("laid"))) == 3


def test_spark_tells_which_tasks_failed(lake):
    with lake.lake.warehouse.session("a job") as session:
        before = session.executor_failures()
        session.sql("SELECT 1").collect()
        assert session.executor_failures() == before
        with pytest.raises(Exception, match="on purpose"):
            session.sql("SELECT raise_error('on purpose') FROM range(1)").collect()
        assert session.executor_failures() - before
