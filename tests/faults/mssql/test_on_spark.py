"""Queries on Spark whose rows go from Spark's workers to SQL Server, with faults."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from jetbridge.errors import BadRequest, LimitExceeded, ServerError
from tests.faults.mssql.scene import LARGE, PUBLISHES, SMALL, TABLE, Scene, Work, opened
from tests.faults.mssql.test_workers import kill_workers
from tests.helpers import lakes, mssql_server

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.xdist_group("failing-loads"),
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
LOG_FULL = 9002
DEADLOCK = 1205
BEGINS = {"new": "CREATE TABLE", "replace": "CREATE OR REPLACE TABLE"}


# As the other loads have it.
COLUMNS = "id, concat('row ', id) AS name, (id * 7919) % 1000003 AS v"
DUCKDB = "SET dialect = 'duckdb'"


@dataclass(frozen=True)
class OnSpark(Work):
    """Run the statement in Spark's dialect, and later statements in DuckDB's."""

    columns: str = COLUMNS

    @property
    def creation(self) -> str:
        return f"{BEGINS[self.kind]} {TABLE} AS SELECT {self.columns} FROM range({self.rows})"

    @property
    def statement(self) -> str:
        return f"SET dialect = 'spark'; {self.creation}; {DUCKDB}"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(lakes.engine(), tmp_path_factory.mktemp("spools"), **SMALL) as there:
        yield there


@pytest.fixture(params=list(BEGINS))
def work(request: pytest.FixtureRequest, scene: Scene) -> OnSpark:
    made = OnSpark(request.param, LARGE)
    scene.prepare(made)
    return made


def attempted(scene: Scene, work: Work) -> ServerError | None:
    try:
        return scene.attempt(work)
    finally:
        scene.bench.sql(DUCKDB)


def check_failed(scene: Scene, work: Work, error: ServerError | None, kind: type) -> None:
    assert isinstance(error, kind)
    assert scene.is_as_before(work), scene.told(work, error)
    assert scene.left() == []


@pytest.mark.sampled(2)
def test_without_faults_all_rows_are_loaded(scene, work):
    report = scene.bench.report(f"SET dialect = 'spark'; {work.creation}")
    scene.bench.sql(DUCKDB)
    assert (report["engine"], report["rows_written"]) == ("spark", LARGE)
    scene.check(work, None)
    assert scene.left() == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_connection_lost_costs_no_row_and_doubles_none(scene, work, share):
    scene.order(when="bulk row", at=int(LARGE * share), drop="reset")
    assert attempted(scene, work) is None
    scene.check(work, None)
    assert scene.left() == []


@pytest.mark.sampled(2)
def test_a_log_that_fills_up_leaves_the_table_as_it_was(scene, work):
    scene.order(when="bulk row", at=LARGE // 2, number=LOG_FULL, times=None)
    check_failed(scene, work, attempted(scene, work), LimitExceeded)


@pytest.mark.sampled(2)
def test_a_deadlock_while_publishing_is_tried_again(scene, work):
    scene.order(when="statement", pattern=PUBLISHES[work.kind], number=DEADLOCK)
    scene.bench.sql(work.statement)
    assert scene.fired() == 1
    scene.check(work, None)


@pytest.mark.full
def test_python_workers_killed_cost_no_row_and_double_none(scene):
    kill_workers(scene, OnSpark("replace", LARGE), 0.5)


def test_a_query_that_fails_late_leaves_the_table_as_it_was(scene):
    late = f"id, CAST(if(id = {LARGE - 1}, 'x', '1') AS INT) AS v"
    work = OnSpark("replace", LARGE, late)
    scene.prepare(work)
    check_failed(scene, work, attempted(scene, work), BadRequest)


def test_a_value_that_does_not_fit_leaves_the_table_as_it_was(scene):
    """Spark has computed all rows by then, and some are loaded."""
    late = f"id, CAST(if(id = {LARGE - 1}, -1, 1) AS TINYINT) AS v"
    work = OnSpark("replace", LARGE, late)
    scene.prepare(work)
    error = attempted(scene, work)
    check_failed(scene, work, error, BadRequest)
    assert "column 'v'" in str(error)
    assert "does not fit tinyint" in str(error)
