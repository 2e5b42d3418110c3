"""Many rows at once, which Spark loads: into tables where the server fills in columns, and beside
them for UPDATE, DELETE and MERGE."""

from collections.abc import Iterator

import pytest

from jetbridge.pipeline.query import run_on_spark
from tests.helpers import mssql_server
from tests.pipeline.targets import Bench, bench

pytestmark = [pytest.mark.mssql, pytest.mark.lake]


@pytest.fixture(scope="module")
def server() -> Iterator[Bench]:
    with bench("mssql") as made:
        made.sql("SET mssql_direct_load_rows = 1000; SET mssql_copy_flush_rows = 2000")
        yield made


@pytest.fixture
def people(server: Bench) -> Bench:
    with server.catalog.database.server.borrow_core() as connection:
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
    monkeypatch.setattr(run_on_spark, "_POLL_SECONDS", 0.01)
    people.steps.clear()
    people.sql("INSERT INTO t.dbo.people (v) SELECT i FROM range(100000) r(i)")
    told = [step for step in people.steps if step.unit == "tasks"]
    assert {step.phase for step in told} == {"load"}
    assert all(step.total is not None and 0 <= step.done <= step.total for step in told)


def test_many_rows_are_changed_and_deleted(people):
    people.sql("INSERT INTO t.dbo.people (id, v) SELECT i, i FROM range(9000) r(i)")
    people.sql("UPDATE t.dbo.people SET v = -v WHERE id < 5000")
    found = people.rows("SELECT count(*), sum(v)::BIGINT, count(made) FROM t.dbo.people")
    assert found == [(9000, 15_500_500, 9000)]
    people.sql("DELETE FROM t.dbo.people WHERE id >= 2000")
    found = people.rows("SELECT count(*), sum(v)::BIGINT, min(id) FROM t.dbo.people")
    assert found == [(2000, -1_999_000, 0)]


def test_many_rows_are_merged(people):
    people.sql("INSERT INTO t.dbo.people (id, v) SELECT i, i FROM range(3000) r(i)")
    people.sql(
        "MERGE INTO t.dbo.people AS t USING (SELECT i FROM range(1000, 6000) r(i)) s ON t.id = s.i "
        "WHEN MATCHED AND s.i < 1500 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 7 "
        "WHEN NOT MATCHED THEN INSERT (id, v, kind) VALUES (s.i, 1, 'merged')"
    )
    found = people.rows(
        "SELECT coalesce(kind, '-'), v = 7, count(*), sum(id)::BIGINT FROM t.dbo.people "
        "GROUP BY ALL ORDER BY ALL"
    )
    new = sum(range(3000, 6000))
    assert found == [
        ("merged", False, 3000, new),
        ("new", False, 999, sum(range(1000)) - 7),
        ("new", True, 1501, sum(range(1500, 3000)) + 7),
    ]


def test_a_change_of_many_rows_waits_for_as_long_as_it_takes(people, core_texts):
    """Wait, where the driver's core would give up: it does not send what publishes."""
    core_texts.clear()
    people.sql("INSERT INTO t.dbo.people (id, v) SELECT i, i FROM range(5000) r(i)")
    people.sql("UPDATE t.dbo.people SET v = 1")
    assert not [sql for sql in core_texts if "[people]" in sql]
    assert people.rows("SELECT count(*), min(v), max(v) FROM t.dbo.people") == [(5000, 1, 1)]


def test_texts_that_bulk_copy_writes_wrongly_by_several_writers(server):
    if mssql_server.is_babelfish():
        pytest.skip("has no columns of other code pages")
    with server.catalog.database.server.borrow_core() as connection:
        connection.run(
            "CREATE TABLE dbo.utf (id bigint NOT NULL PRIMARY KEY, "
            "name varchar(50) COLLATE Latin1_General_100_CI_AS_SC_UTF8)"
        )
    rows = "SELECT i AS id, if(i % 7 = 0, '日本 ' || i, 'row ' || i) AS name FROM range(6000) r(i)"
    server.sql(f"INSERT INTO t.dbo.utf {rows}")
    assert server.rows(f"({rows}) EXCEPT ALL FROM t.dbo.utf") == []
    assert server.rows(f"FROM t.dbo.utf EXCEPT ALL ({rows})") == []
