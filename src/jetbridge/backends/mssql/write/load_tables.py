"""Names the tables of a load, locks them while it runs, and sweeps those of loads that crashed."""

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.sql_connection import SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.write.transactions import retry_on_odbc
from jetbridge.dialects.tsql import load
from jetbridge.dialects.tsql.statements import path
from jetbridge.errors import ServerError, Unavailable
from jetbridge.runtime.cancellation import Cancellation, scope, shield

log = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 60.0
_SWEEP_SECONDS = 60.0
# How long a command waits at its end for a sweep.
_STOP_SECONDS = 3.0
_POLL_SECONDS = 0.2

_TABLE_NAME = re.compile(r"(jetbridge_[0-9a-f]{16})_(?:rows|ledger)")


def is_load_table(name: str) -> bool:
    """Return whether a table belongs to a load."""
    return _TABLE_NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class LoadTables:
    """Name the staging table and the ledger of one load, in the schema of its target."""

    name: str
    schema: str

    @property
    def rows(self) -> str:
        return f"{self.name}_rows"

    @property
    def staging(self) -> str:
        return path(self.schema, self.rows)

    @property
    def ledger_name(self) -> str:
        return f"{self.name}_ledger"

    @property
    def ledger(self) -> str:
        return path(self.schema, self.ledger_name)


@contextmanager
def run_load(database: Database, schema: str) -> Iterator[LoadTables]:
    """Hold the lock of a load, by which others see that it runs, and drop its tables at the end."""
    tables = LoadTables(f"jetbridge_{uuid4().hex[:16]}", schema)
    with suppress(_LockLost), database.server.borrow_core() as connection:
        if not _acquire_lock(connection, tables.name):
            raise Unavailable(
                f"could not get the lock of load {tables.name}; run the statement again"
            )
        try:
            with _keep_alive(connection):
                yield tables
        finally:
            with suppress(ServerError), shield():
                retry_on_odbc(database.server, lambda other: _drop(other, tables))
            database.cache.forget()
        try:
            with shield():
                connection.run(load.unlock_run(tables.name))
        except ServerError as error:
            raise _LockLost from error


@contextmanager
def _keep_alive(connection: CoreConnection) -> Iterator[None]:
    """Run a query regularly, because some servers and firewalls close idle connections."""
    ended = threading.Event()

    def query_regularly() -> None:
        while not ended.wait(_KEEP_ALIVE_SECONDS) and connection.answers():
            pass

    thread = threading.Thread(target=query_regularly, name="mssql-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _LockLost(Exception):
    """Report that the load is complete, but its connection must not be used again."""


def _acquire_lock(connection: SqlConnection, load_name: str) -> bool:
    return bool(connection.run(load.lock_run(load_name))[-1][0] >= 0)


def _drop(connection: SqlConnection, tables: LoadTables) -> None:
    names = (tables.rows, tables.ledger_name)
    connection.run("; ".join(load.drop_if_exists(tables.schema, name) for name in names))


def sweep(database: Database) -> list[str]:
    """Drop the tables of loads that no longer run, and return their names.

    Raises the first error of SQL Server, after all tables that can be dropped were dropped.
    """
    database.options.remove_orphans()
    dropped: list[str] = []
    refused: list[ServerError] = []
    for load_name, tables in _find_leftovers(database).items():
        try:
            with database.server.borrow_core() as connection:
                dropped += _drop_dead(connection, load_name, tables)
        except ServerError as error:
            refused.append(error)
    if dropped:
        database.cache.forget()
        log.info("dropped tables of loads that did not end: %s", ", ".join(dropped))
    if refused:
        raise refused[0]
    return dropped


def _find_leftovers(database: Database) -> dict[str, list[tuple[str, str]]]:
    """Return schemas and names of load tables, by load."""
    leftovers: dict[str, list[tuple[str, str]]] = {}
    for schema, name in database.server.query(load.LEFTOVERS):
        match = _TABLE_NAME.fullmatch(name)
        if match:
            leftovers.setdefault(match[1], []).append((schema, name))
    return leftovers


def _drop_dead(
    connection: SqlConnection, load_name: str, tables: Sequence[tuple[str, str]]
) -> list[str]:
    """Drop the tables, unless the load runs or another process sweeps it."""
    if not _acquire_lock(connection, load_name):
        return []
    for schema, name in tables:
        connection.run(load.drop_if_exists(schema, name))
    connection.run(load.unlock_run(load_name))
    return [f"{schema}.{name}" for schema, name in tables]


class LoadTableSweeper:
    """Sweep in the background while a database is used, at most once a minute."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._began: float | None = None
        self._sweep = Cancellation()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start a sweep if one is due, and return at once."""
        with self._lock:
            current_time = time.monotonic()
            if self._began is not None and current_time - self._began < _SWEEP_SECONDS:
                return
            if self._thread is not None and self._thread.is_alive():
                return
            self._began = current_time
            self._thread = threading.Thread(target=self._run, name="mssql-sweep", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Wait briefly for a running sweep, then cancel it."""
        thread = self._thread
        if thread is not None:
            if self._database.server.reached.is_set():
                thread.join(_STOP_SECONDS)
            self._sweep.cancel()
            thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        """Sweep once, and only log errors: the login may lack the right to drop tables."""
        try:
            with scope(self._sweep) as ended:
                # Wait for the first login: with a wrong password, each login counts as failed.
                while not self._database.server.reached.wait(_POLL_SECONDS):
                    ended.check()
                sweep(self._database)
        except Exception as error:  # noqa: BLE001 - the next sweep tries again
            log.info("could not drop the tables of loads that did not end: %s", error)
