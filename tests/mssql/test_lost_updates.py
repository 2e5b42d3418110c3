"""Statements that change the same rows at once: none overwrites what it has not read."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.client import Client, connect
from jetbridge.errors import Conflict, ConstraintViolation
from jetbridge.pipeline.run import run as execute
from jetbridge.pipeline.session import Session
from jetbridge.service import Server
from tests.helpers import mssql_server

pytestmark = pytest.mark.mssql
THREADS, TRIES = 3, 5


@pytest.fixture(scope="module", params=["true", "false"], ids=["snapshots", "no snapshots"])
def catalog(request: pytest.FixtureRequest) -> Iterator[MssqlCatalog]:
    catalog = mssql_server.new_catalog(mssql_snapshot_reads=request.param)
    yield catalog
    catalog.close()


@pytest.fixture(scope="module")
def client(catalog: MssqlCatalog) -> Iterator[Client]:
    with Server({"m": catalog}, port=0) as server:
        server.start()
        with connect(server.location, "m") as connected:
            yield connected


@pytest.fixture(params=["int", "nvarchar(20)"])
def table(request: pytest.FixtureRequest, catalog: MssqlCatalog) -> Iterator[str]:
    """Create a table whose row ids are numbers, or texts."""
    with catalog.database.server.borrow_core() as connection:
        connection.run(f"CREATE TABLE dbo.counters (id {request.param} PRIMARY KEY, v int)")
        connection.run("INSERT INTO dbo.counters VALUES ('1', 0), ('2', 0)")
    yield "counters"
    catalog.load_schema("dbo").drop_table("counters")


def values(catalog: MssqlCatalog) -> list[int]:
    rows = catalog.database.server.query("SELECT v FROM dbo.counters ORDER BY id")
    return [value for (value,) in rows]


def acknowledged(statement: Callable[[], object]) -> int:
    """Run a statement in several threads at once, and return how often it succeeds."""
    start, successes, failures = threading.Barrier(THREADS), list[int](), list[Exception]()

    def work() -> None:
        try:
            for _ in range(TRIES):
                start.wait(timeout=60)
                with suppress(Conflict):
                    statement()
                    successes.append(1)
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)
            start.abort()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return len(successes)


def increments(rows: pa.Table) -> pa.Table:
    new = pa.array([value + 1 for value in rows["v"].to_pylist()], pa.int32())
    return rows.set_column(rows.schema.get_field_index("v"), "v", new)


def test_no_acknowledged_update_of_a_client_is_lost(catalog, client, table):
    def increment() -> None:
        with client.transaction() as transaction:
            rows = transaction.read("dbo", table, columns=["v", "rowid"])
            transaction.update("dbo", table, increments(rows))

    count = acknowledged(increment)
    assert count >= TRIES
    assert values(catalog) == [count, count]


STATEMENTS = {
    "update": "UPDATE m.dbo.counters SET v = v + 1",
    "merge": "MERGE INTO m.dbo.counters t USING (SELECT * FROM m.dbo.counters) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = t.v + 1",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_acknowledged_statement_of_the_server_is_lost(catalog, table, statement):
    def run() -> None:
        with closing(Session({"m": catalog})) as session:
            list(execute(session, STATEMENTS[statement]))

    count = acknowledged(run)
    assert count >= TRIES
    assert values(catalog) == [count, count]


def test_rows_that_nobody_else_changed_do_not_conflict(catalog, client, table):
    with client.transaction() as first, client.transaction() as second:
        one, other = (
            increments(transaction.read("dbo", table, columns=["v", "rowid"]).slice(index, 1))
            for index, transaction in enumerate((first, second))
        )
        first.update("dbo", table, one)
        second.update("dbo", table, other)
        assert values(catalog) == [1, 1]
        again = first.read("dbo", table, columns=["v", "rowid"]).slice(0, 1)
        first.update("dbo", table, increments(again))
    assert sorted(values(catalog)) == [1, 2]


def test_a_statement_that_was_refused_can_be_corrected_in_its_transaction(catalog, client, table):
    with catalog.database.server.borrow_core() as connection:
        connection.run("ALTER TABLE dbo.counters ADD CHECK (v < 2)")
    with client.transaction() as transaction:
        rows = transaction.read("dbo", table, columns=["v", "rowid"])
        with pytest.raises(ConstraintViolation):
            transaction.update("dbo", table, increments(increments(rows)))
        transaction.update("dbo", table, increments(rows))
    assert values(catalog) == [1, 1]


def test_a_row_that_was_changed_after_the_scan_is_not_deleted(catalog, client, table):
    with client.transaction() as late:
        rows = late.read("dbo", table, columns=["v", "rowid"])
        client.update("dbo", table, increments(rows.slice(0, 1)))
        with pytest.raises(Conflict, match=r"dbo\.counters were changed by another statement"):
            late.delete("dbo", table, rows["rowid"])
    assert sorted(values(catalog)) == [0, 1]
