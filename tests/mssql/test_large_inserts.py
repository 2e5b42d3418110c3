"""INSERT of many rows, which Spark loads, into tables where the server fills in columns."""

from collections.abc import Iterator

import pytest

from jetbridge.pipeline import on_spark
from tests.pipeline.targets import Bench, bench

pytestmark = [pytest.mark.mssql, pytest.mark.lake]


@pytest.fixture(scope="module")
def server() -> Iterator[Bench]:
    with bench("mssql") as made:
        made.sql("SET mssql_direct_load_rows = 1000; SET mssql_copy_flush_rows = 2000")
        yield made


@pytest.fixture
def people(server: Bench) -> Bench:
    with server.catalog.database.server.loading() as connection:
        connection.run(
            "IF OBJECT_ID(N'dbo.people') IS NOT NULL DROP TABLE dbo.people; "
            "CREATE TABLE dbo.people (id int IDENTITY PRIMARY KEY, v int, "
            "made datetime2 NOT NULL DEFAULT SYSUTCDATETIME(), kind nvarchar(10) DEFAULT N'new')"
        )
    return server


def test_identity_and_defaults_are_filled_in(people):
    people.sql("INSERT INTO t.dbo.people (v) SELECT i FROM range(5000) r(i)")
    found = people.rows(
        "SELECT count(*), count(DISTINCT id), count(DISTINCT v), sum(v)::BIGINT, count(made), "
        "min(kind), max(kind) FROM t.dbo.people"
    )
    assert found == [(5000, 5000, 5000, 12_497_500, 5000, "new", "new")]


def test_identity_values_that_are_given_are_kept(people):
    people.sql("INSERT INTO t.dbo.people (id, v) SELECT i * 10, i FROM range(5000) r(i)")
    found = people.rows("SELECT count(*), sum(id)::BIGINT, sum(v)::BIGINT FROM t.dbo.people")
    assert found == [(5000, 124_975_000, 12_497_500)]
    assert people.rows("SELECT count(*) FROM t.dbo.people WHERE id <> v * 10") == [(0,)]


def test_the_load_is_told_in_tasks(people, monkeypatch):
    monkeypatch.setattr(on_spark, "_PERIOD", 0.01)
    people.steps.clear()
    people.sql("INSERT INTO t.dbo.people (v) SELECT i FROM range(100000) r(i)")
    told = [step for step in people.steps if step.unit == "tasks"]
    assert {step.phase for step in told} == {"load"}
    assert all(step.total is not None and 0 <= step.done <= step.total for step in told)
