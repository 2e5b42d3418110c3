"""Statements on a lake end with their callers: in DuckDB, in Spark, and before they are published.

Attacked: a MERGE whose client was killed was published.
"""

import gc
import random
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.service import Server
from tests.helpers import lakes
from tests.helpers.waiting import wait_until
from tests.security.cancelled.running import (
    Caller,
    serving,
    status,
    wait_until_busy,
    wait_until_left,
)

pytestmark = pytest.mark.lake

SLOW = (
    "SELECT a.id + b.id AS id, a.id AS n FROM l.s.many a, l.s.few b "
    "WHERE a.id * b.id % 1000003 = 1000004"
)
ON_SPARK = "SET engine = 'spark'; "
STATEMENTS = {
    "select": SLOW,
    "insert": f"INSERT INTO l.s.t {SLOW}",
    "create": f"CREATE TABLE l.s.made AS {SLOW}",
    "replace": f"CREATE OR REPLACE TABLE l.s.t AS {SLOW}",
    "update": f"UPDATE l.s.t SET n = x.n FROM ({SLOW}) x WHERE x.id = t.id",
    "delete": f"DELETE FROM l.s.t USING ({SLOW}) x WHERE x.id = t.id",
    "merge": f"MERGE INTO l.s.t USING (SELECT count(*) AS id FROM ({SLOW})) x ON x.id = t.id "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (100, 100)",
}
ROWS = 50_000
# Each is published by Spark, since the table has partitions, or by Iceberg's own code.
CHANGES = {
    "insert": (
        "INSERT INTO l.s.{} SELECT i, 3, 'x' FROM range({}) r(i)",
        "count(*) = 2 * {0}",
        "DELETE FROM l.s.{} WHERE n = 3",
    ),
    "update": (
        "UPDATE l.s.{} SET x = 'y' WHERE id < {}",
        "count(*) = {0} AND count(*) FILTER (x = 'y') = {0}",
        "UPDATE l.s.{} SET x = 'x'",
    ),
    "merge": (
        "MERGE INTO l.s.{} AS p USING (SELECT i AS id FROM range({}) r(i)) AS q ON p.id = q.id "
        "WHEN MATCHED THEN UPDATE SET x = 'z'",
        "count(*) = {0} AND count(*) FILTER (x = 'z') = {0}",
        "UPDATE l.s.{} SET x = 'x'",
    ),
}
AS_BEFORE = "SELECT count(*) = {0} AND count(*) FILTER (x = 'x') = {0} FROM l.s.{1}"


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    return lakes.ready_lake()


@pytest.fixture(scope="module")
def server(lake: LakeCatalog) -> Iterator[Server]:
    with serving({"l": lake}, lakes.engine()) as running:
        yield running


@pytest.fixture(scope="module")
def caller(server: Server) -> Iterator[Caller]:
    rows = f"SELECT i AS id, i % 2 AS n, 'x' AS x FROM range({ROWS}) r(i)"
    with Caller(server.location, "l") as made:
        made.run("CREATE SCHEMA l.s")
        made.run("CREATE TABLE l.s.many AS SELECT i AS id FROM range(2000000) r(i)")
        made.run("CREATE TABLE l.s.few AS SELECT id FROM l.s.many WHERE id < 20000")
        made.run("CREATE TABLE l.s.t AS SELECT i AS id, i AS n FROM range(5) r(i)")
        made.run(f"CREATE TABLE l.s.plain AS {rows}")
        made.run("CREATE TABLE l.s.parted (id BIGINT, n BIGINT, x VARCHAR)")
        made.run("ALTER TABLE l.s.parted SET PARTITIONED BY (n)")
        made.run(f"INSERT INTO l.s.parted {rows}")
        yield made


def unchanged(caller: Caller, lake: LakeCatalog) -> None:
    """What was there is there, nothing else is or lies about, and the next statement runs."""
    assert caller.holds("SELECT count(*) = 5 AND sum(id) = 10 AND sum(n) = 10 FROM l.s.t")
    with pytest.raises(grpc.RpcError, match="does not exist"):
        caller.run("SELECT * FROM l.s.made")
    nothing_lies_about(lake)


def nothing_lies_about(lake: LakeCatalog) -> None:
    lake.lake.read.sources.clear()  # files that are kept for the next query
    gc.collect()
    folder = Path(lake.lake.warehouse.staging_folder().removeprefix("file://"))
    assert not folder.is_dir() or list(folder.rglob("*")) == []
    for name in ("t", "plain", "parted"):
        assert set(lake.lake.tables.load("s", name).references) == {"main"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_on_duckdb_ends_at_once(caller, server, lake, name):
    call = caller.start(STATEMENTS[name])
    wait_until_busy(server)
    call.cancel()
    wait_until_left(server)
    unchanged(caller, lake)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["select", "insert", "create", "replace"])
def test_a_statement_on_spark_ends_at_once(caller, server, lake, name):
    call = caller.start(ON_SPARK + STATEMENTS[name])
    wait_until(lakes.engine().running_tasks)
    time.sleep(0.5)  # into the work of the tasks, which nothing reports
    call.cancel()
    wait_until_left(server, 30)  # it waits for its tasks to end, and clears up behind them
    wait_until(lambda: lakes.engine().running_tasks() is None, 10)
    unchanged(caller, lake)


@pytest.mark.full
def test_the_jobs_of_others_go_on(caller, server):
    """They run in the same Spark; one that is cancelled ends alone."""
    other = caller.start(ON_SPARK + "SELECT count(*) FROM l.s.many a, l.s.few b WHERE b.id < 50")
    wait_until(lakes.engine().running_tasks)
    mine = caller.start(ON_SPARK + SLOW)
    wait_until(lambda: server._shutdown._running == 2)
    time.sleep(1.0)  # both go on
    assert server._shutdown._running == 2
    mine.cancel()
    assert status(other) is grpc.StatusCode.OK
    wait_until_left(server)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "table"), [*((name, "parted") for name in CHANGES), ("insert", "plain")]
)
def test_a_change_is_not_published_once_its_caller_is_killed(caller, server, lake, name, table):
    """The caller dies as soon as the change is being made, which takes seconds."""
    process = caller.process(CHANGES[name][0].format(table, ROWS))
    wait_until(lambda: server._shutdown._running)
    process.kill()
    process.communicate()
    wait_until_left(server, 30)
    assert caller.holds(AS_BEFORE.format(ROWS, table))
    nothing_lies_about(lake)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "trials", [pytest.param(2, id="2"), pytest.param(15, id="15", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize(
    ("name", "table"),
    [(name, table) for name in CHANGES for table in ("parted", "plain")],
)
def test_a_change_that_is_cancelled_at_any_moment_is_there_as_a_whole_or_not_at_all(
    caller, server, lake, name, table, trials
):
    text, done, undo = CHANGES[name]
    done = f"SELECT {done.format(ROWS)} FROM l.s.{table}"
    began = time.monotonic()
    caller.run(text.format(table, ROWS))
    longest = time.monotonic() - began
    assert caller.holds(done)
    caller.run(undo.format(table))
    for _ in range(trials):
        call = caller.start(text.format(table, ROWS))
        time.sleep(random.uniform(0, longest))  # at any moment
        call.cancel()
        answered = status(call)
        wait_until_left(server, 30)
        made = caller.holds(done)
        assert made or caller.holds(AS_BEFORE.format(ROWS, table))
        assert made or answered is not grpc.StatusCode.OK
        if made:
            caller.run(undo.format(table))
    nothing_lies_about(lake)


def test_rows_that_were_sent_are_not_published_after_the_cancellation(caller, server, lake):
    rows = pa.table({"rowid": pa.array(range(ROWS)), "x": pa.array(["w"] * ROWS)})
    for pause in (0.0, 0.3, 0.6):
        call = caller.send("update", "parted", rows)
        time.sleep(pause)  # each cancels at another moment
        call.cancel()
        wait_until_left(server, 30)
        made = caller.holds(f"SELECT count(*) FILTER (x = 'w') = {ROWS} FROM l.s.parted")
        assert made or caller.holds(AS_BEFORE.format(ROWS, "parted"))
        assert not made or pause > 0  # a fast machine may have published it before
        if made:
            caller.run("UPDATE l.s.parted SET x = 'x'")
    nothing_lies_about(lake)
