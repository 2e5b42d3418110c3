"""Statements of SQL Server end with their callers, and are not published afterwards.

Attacked: a load over one connection did not heed Ctrl-C, and where it did, an empty table stayed
although "changed nothing" was said.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.backends.mssql.write.transactions import CommitUnknown
from jetbridge.catalog import CreateTable, DMLOptions, Scan
from jetbridge.errors import Cancelled
from jetbridge.runtime.cancellation import Cancellation, scope
from tests.helpers import mssql_server
from tests.helpers.mssql_orders import stand_in
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.mssql
# How long a statement may go on after it was cancelled; the machine may be busy.
AT_ONCE = 10.0
SLOW = "WAITFOR DELAY '00:00:30'"
SCHEMA = pa.schema({"id": pa.int64(), "s": pa.string()})
ROWS = 5_000_000
BATCH = pa.record_batch({"id": list(range(50_000)), "s": ["x" * 20] * 50_000}, schema=SCHEMA)


@pytest.fixture(scope="module")
def catalog() -> Iterator[MssqlCatalog]:
    stand_in()
    made = mssql_server.new_catalog(mssql_direct_load_rows="1000000000000")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def orders() -> Iterator[None]:
    yield
    stand_in().order(clear=True)


class Running:
    """Run a statement in a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.statement = Cancellation()
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with scope(self.statement):
                self._work()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def cancel(self) -> float:
        """Cancel the statement; return the seconds until it ends."""
        began = time.monotonic()
        self.statement.cancel()
        self._thread.join(30)
        assert not self._thread.is_alive()
        return time.monotonic() - began


def order(**fault: Any) -> None:
    assert stand_in().order(fault=fault) == {"ok": True}


def fired() -> bool:
    return bool(stand_in().order(fired=True)["fired"])


def attentions() -> int:
    found: int = stand_in().order(counts=True)["attentions"]
    return found


def tables(catalog: MssqlCatalog) -> list[str]:
    return [name for (name,) in catalog.database.server.query("SELECT name FROM sys.tables")]


@contextmanager
def table(catalog: MssqlCatalog, name: str) -> Iterator[None]:
    with catalog.database.server.borrow_core() as connection:
        connection.run(f"CREATE TABLE dbo.{name} (id bigint NOT NULL PRIMARY KEY, s nvarchar(50))")
        connection.run(f"INSERT INTO dbo.{name} VALUES (-1, N'old'), (-2, N'old')")
    catalog.database.cache.forget()
    yield
    with catalog.database.server.borrow_core() as connection:
        connection.run(f"DROP TABLE dbo.{name}")


@contextmanager
def locked(catalog: MssqlCatalog, name: str) -> Iterator[None]:
    """Lock a table, so that no one else can read or write it."""
    with catalog.database.server.borrow_core() as other:
        other.run("BEGIN TRANSACTION")
        other.run(f"SELECT COUNT(*) FROM dbo.{name} WITH (TABLOCKX, HOLDLOCK)")
        yield
        other.run("ROLLBACK")


def wait_until_sent(*words: str) -> None:
    """Wait until the last text that the server got contains these words."""

    def is_there() -> bool:
        text = stand_in().order(counts=True)["batches"][-1]
        return all(word in text for word in words)

    wait_until(is_there)


def handle(catalog: MssqlCatalog, name: str) -> Any:
    return catalog.load_schema("dbo").load_table(name)


def create(catalog: MssqlCatalog, name: str, rows: int = ROWS) -> None:
    with catalog.load_schema("dbo").creating(CreateTable(name, SCHEMA)) as write:
        for _ in range(rows // BATCH.num_rows):
            write(BATCH)


def insert(catalog: MssqlCatalog, name: str, rows: int = ROWS) -> None:
    with handle(catalog, name).inserting(DMLOptions()) as write:
        for number in range(rows // BATCH.num_rows):
            ids = pa.array(range(number * BATCH.num_rows, (number + 1) * BATCH.num_rows))
            write(pa.record_batch([ids, BATCH.column(1)], schema=SCHEMA))


def test_a_cancelled_query_sends_an_attention(catalog):
    before = attentions()
    running = Running(lambda: catalog.database.server.query(SLOW))
    wait_until(lambda: SLOW in stand_in().order(counts=True)["batches"])
    assert running.cancel() < AT_ONCE
    assert isinstance(running.error, Cancelled)
    wait_until(lambda: attentions() == before + 1)
    assert catalog.database.server.query("SELECT 1") == [(1,)]


def test_a_connection_without_an_answer_to_the_attention_is_dropped(catalog):
    order(when="statement", pattern="SELECT 42", delay=30.0)
    running = Running(lambda: catalog.database.server.query("SELECT 42"))
    wait_until(fired)
    assert running.cancel() < AT_ONCE + 5
    assert isinstance(running.error, Cancelled)


def test_a_statement_of_the_connection_that_loads_is_cut(catalog):
    def wait() -> None:
        with catalog.database.server.borrow_core() as connection:
            connection.run(SLOW)

    open_before = stand_in().order(counts=True)["open"]
    running = Running(wait)
    wait_until(lambda: stand_in().order(counts=True)["batches"][-1] == SLOW)
    assert running.cancel() < AT_ONCE
    assert isinstance(running.error, Cancelled)
    wait_until(lambda: stand_in().order(counts=True)["open"] <= open_before)


def test_a_scan_ends_while_rows_are_awaited(catalog):
    with table(catalog, "scanned"):
        rows = handle(catalog, "scanned")
        with locked(catalog, "scanned"):
            running = Running(lambda: list(rows.scan(Scan())))
            wait_until_sent("SELECT [id]", "[scanned]")
            assert running.cancel() < AT_ONCE
            assert isinstance(running.error, Cancelled)


def test_a_create_table_as_is_dropped_when_its_load_is_cancelled(catalog):
    running = Running(lambda: create(catalog, "made"))
    before = stand_in().order(bulk_rows=True)["bulk_rows"]
    wait_until(lambda: stand_in().order(bulk_rows=True)["bulk_rows"] > before + 100_000, 60)
    assert running.cancel() < AT_ONCE
    assert isinstance(running.error, Cancelled)
    assert "made" not in tables(catalog)


def test_a_create_table_as_says_what_it_could_not_drop(catalog):
    order(when="statement", pattern="DROP TABLE", number=3726, times=None)
    running = Running(lambda: create(catalog, "kept"))
    before = stand_in().order(bulk_rows=True)["bulk_rows"]
    wait_until(lambda: stand_in().order(bulk_rows=True)["bulk_rows"] > before, 60)
    running.cancel()
    assert "table dbo.kept could not be dropped" in str(running.error)
    assert "kept" in tables(catalog)


def test_an_insert_that_is_cancelled_while_it_loads_leaves_nothing(catalog):
    with table(catalog, "filled"):
        running = Running(lambda: insert(catalog, "filled"))
        before = stand_in().order(bulk_rows=True)["bulk_rows"]
        wait_until(lambda: stand_in().order(bulk_rows=True)["bulk_rows"] > before, 60)
        assert running.cancel() < AT_ONCE
        assert isinstance(running.error, Cancelled)
        assert catalog.database.server.query("SELECT COUNT(*) FROM dbo.filled") == [(2,)]


def test_a_load_that_waits_for_a_lock_ends_at_once(catalog):
    with table(catalog, "locked"):
        with locked(catalog, "locked"):
            running = Running(lambda: insert(catalog, "locked", BATCH.num_rows))
            wait_until_sent("INSERT BULK")
            assert running.cancel() < AT_ONCE
            assert isinstance(running.error, Cancelled)
        assert catalog.database.server.query("SELECT COUNT(*) FROM dbo.locked") == [(2,)]


def change(catalog: MssqlCatalog, name: str, how: str) -> None:
    rows = handle(catalog, name)
    if how == "update":
        with rows.updating(DMLOptions()) as write:
            write(pa.record_batch({"rowid": [-1], "s": ["new"]}))
    else:
        with rows.deleting(DMLOptions()) as write:
            write(pa.record_batch({"rowid": [-1]}))


@pytest.mark.parametrize("how", ["update", "delete"])
def test_a_change_that_is_cancelled_before_its_commit_is_undone(catalog, how):
    with table(catalog, "changed"):
        with locked(catalog, "changed"):
            running = Running(lambda: change(catalog, "changed", how))
            wait_until_sent(how.upper(), "[changed]")
            assert running.cancel() < AT_ONCE
            assert isinstance(running.error, Cancelled)
        found = catalog.database.server.query("SELECT id, s FROM dbo.changed ORDER BY id")
        assert found == [(-2, "old"), (-1, "old")]


def test_what_is_being_committed_is_not_interrupted(catalog):
    with table(catalog, "committed"):
        order(when="committed", delay=1.0)
        running = Running(lambda: change(catalog, "committed", "delete"))
        wait_until(fired)
        running.cancel()
        assert running.error is None
        assert catalog.database.server.query("SELECT id FROM dbo.committed") == [(-2,)]


def test_a_lost_answer_to_commit_is_not_called_cancelled(catalog):
    with table(catalog, "unknown"):
        order(when="committed", delay=1.0, drop="reset")
        running = Running(lambda: change(catalog, "unknown", "delete"))
        wait_until(fired)
        running.cancel()
        assert isinstance(running.error, CommitUnknown)
        assert "check the table before you run the statement again" in str(running.error)


def test_ddl_that_is_cancelled_does_not_happen(catalog):
    with table(catalog, "altered"):
        with locked(catalog, "altered"):
            running = Running(lambda: catalog.load_schema("dbo").drop_table("altered"))
            wait_until_sent("DROP TABLE")
            assert running.cancel() < AT_ONCE
            assert isinstance(running.error, Cancelled)
        assert "altered" in tables(catalog)


def test_connections_that_were_cut_leave_no_descriptors(catalog):
    def wait() -> None:
        with catalog.database.server.borrow_core() as connection:
            connection.run(SLOW)

    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        running = Running(wait)
        wait_until_sent(SLOW)
        running.cancel()
    wait_until(lambda: len(os.listdir("/dev/fd")) <= before + 1)
