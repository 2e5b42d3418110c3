"""Statements on a lake end with their callers: in DuckDB, in Spark, and before they are published.

Attacked: a MERGE whose client was killed was published.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from jetbridge.backends.lake import LakeCatalog
from tests import lakes
from tests.faults.peers import wait_until
from tests.security.callers.running import AT_ONCE, Caller, serving, wait_until_idle

pytestmark = pytest.mark.lake

SLOW = (
    "SELECT a.id + b.id AS id, a.id AS n FROM l.s.many a, l.s.many b "
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


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    return lakes.ready_lake()


@pytest.fixture(scope="module")
def caller(lake: LakeCatalog) -> Iterator[Caller]:
    with serving({"l": lake}, lakes.engine()) as server, Caller(server.location, "l") as made:
        made.run("CREATE SCHEMA l.s")
        made.run("CREATE TABLE l.s.many AS SELECT i AS id FROM range(400000) r(i)")
        made.run("CREATE TABLE l.s.t AS SELECT i AS id, i AS n FROM range(5) r(i)")
        yield made


def unchanged(caller: Caller) -> None:
    """What was there is there, nothing else is, and the next statement runs."""
    caller.run(
        "SELECT CASE WHEN count(*) = 5 AND sum(id) = 10 AND sum(n) = 10 THEN 1 "
        "ELSE error('it is not so') END FROM l.s.t"
    )
    with pytest.raises(grpc.RpcError, match="does not exist"):
        caller.run("SELECT * FROM l.s.made")
    caller.run("INSERT INTO l.s.t VALUES (7, 7)")
    caller.run("DELETE FROM l.s.t WHERE id = 7")


def staged(lake: LakeCatalog) -> list[Path]:
    folder = Path(lake.lake.staging_folder().removeprefix("file://"))
    return sorted(folder.glob("*")) if folder.is_dir() else []


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_on_duckdb_ends_at_once(caller, lake, name):
    call = caller.start(STATEMENTS[name])
    time.sleep(1.0)
    began = time.monotonic()
    call.cancel()
    wait_until_idle()
    assert time.monotonic() - began < AT_ONCE
    unchanged(caller)
    assert staged(lake) == []


@pytest.mark.parametrize("name", ["select", "insert", "create", "replace"])
def test_a_statement_on_spark_ends_at_once(caller, lake, name):
    engine = lakes.engine()
    call = caller.start(ON_SPARK + STATEMENTS[name])
    wait_until(engine.running_tasks)
    time.sleep(0.5)
    began = time.monotonic()
    call.cancel()
    wait_until(lambda: engine.running_tasks() is None)
    assert time.monotonic() - began < AT_ONCE
    unchanged(caller)
    wait_until(lambda: staged(lake) == [])
