"""What loads put beside their targets: names that tell, a lock that lives as long as they do."""

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from jetbridge.backends.mssql.connection.pool import CoreConnection, SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.write.bulk_load import retried_patiently
from jetbridge.backends.mssql.write.spool import remove_orphans
from jetbridge.dialects.tsql import load
from jetbridge.dialects.tsql.statements import path
from jetbridge.errors import ServerError, Unavailable
from jetbridge.runtime.cancellation import Cancellation, scope, shielded

log = logging.getLogger(__name__)

_SPEAK_SECONDS = 60.0
_SWEEP_SECONDS = 60.0
# A command waits so long at its end for a sweep that has begun.
_STOP_SECONDS = 3.0
_LOOK_UP_SECONDS = 0.2

_NAMED = re.compile(r"(jetbridge_[0-9a-f]{16})_(?:rows|ledger)")


def is_leftover(name: str) -> bool:
    return _NAMED.fullmatch(name) is not None


@dataclass(frozen=True)
class LoadTables:
    """The tables of one load, in the schema of its target."""

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
def running(database: Database, schema: str) -> Iterator[LoadTables]:
    """Others see by its lock that the load lives; what it made is gone at the end."""
    run = LoadTables(f"jetbridge_{uuid4().hex[:16]}", schema)
    with suppress(_LockLost), database.server.loading() as held:
        if not _locked(held, run.name):
            raise Unavailable(f"the lock of the load {run.name} could not be had")
        try:
            with _kept_awake(held):
                yield run
        finally:
            with suppress(ServerError), shielded():
                retried_patiently(database.server, lambda connection: _drop(connection, run))
            database.known.forget()
        try:
            with shielded():
                held.run(load.unlock_run(run.name))
        except ServerError as error:
            raise _LockLost from error


@contextmanager
def _kept_awake(held: CoreConnection) -> Iterator[None]:
    """Some servers and firewalls close a connection that says nothing for long."""
    ended = threading.Event()

    def speak() -> None:
        while not ended.wait(_SPEAK_SECONDS) and held.answers():
            pass

    speaker = threading.Thread(target=speak, name="mssql-lock", daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()


class _LockLost(Exception):
    """The load is done all the same, but nobody may use that connection again."""


def _locked(connection: SqlConnection, run: str) -> bool:
    return bool(connection.run(load.lock_run(run))[-1][0] >= 0)


def _drop(connection: SqlConnection, run: LoadTables) -> None:
    names = (run.rows, run.ledger_name)
    connection.run("; ".join(load.drop_if_there(run.schema, name) for name in names))


def sweep(database: Database) -> list[str]:
    """Drops the tables of loads that no longer live; answers their names.

    Raises what SQL Server says of the first that it refuses to drop, after all others.
    """
    remove_orphans(database.options)
    dropped: list[str] = []
    refused: list[ServerError] = []
    for run, tables in _leftovers(database).items():
        try:
            with database.server.loading() as connection:
                dropped += _drop_dead(connection, run, tables)
        except ServerError as error:
            refused.append(error)
    if dropped:
        database.known.forget()
        log.info("left by loads that did not end, and dropped: %s", ", ".join(dropped))
    if refused:
        raise refused[0]
    return dropped


def _leftovers(database: Database) -> dict[str, list[tuple[str, str]]]:
    """Schemas and names of tables, by their loads."""
    found: dict[str, list[tuple[str, str]]] = {}
    for schema, name in database.server.ask(load.LEFTOVERS):
        match = _NAMED.fullmatch(name)
        if match:
            found.setdefault(match[1], []).append((schema, name))
    return found


def _drop_dead(connection: SqlConnection, run: str, tables: Sequence[tuple[str, str]]) -> list[str]:
    """Nothing if the load lives, or if somebody else is sweeping it."""
    if not _locked(connection, run):
        return []
    for schema, name in tables:
        connection.run(load.drop_if_there(schema, name))
    connection.run(load.unlock_run(run))
    return [f"{schema}.{name}" for schema, name in tables]


class Sweeper:
    """Sweeps in the background, when a database is used and was not swept for a minute."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._began: float | None = None
        self._sweep = Cancellation()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Returns at once."""
        with self._lock:
            now = time.monotonic()
            if self._began is not None and now - self._began < _SWEEP_SECONDS:
                return
            if self._thread is not None and self._thread.is_alive():
                return
            self._began = now
            self._thread = threading.Thread(target=self._run, name="mssql-sweep", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Waits for the sweep, which a command that ends soon has only just begun."""
        thread = self._thread
        if thread is not None:
            if self._database.server.reached.is_set():
                thread.join(_STOP_SECONDS)
            self._sweep.cancel()
            thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        """A login that may only read sees nothing to sweep, or may not; that is no error."""
        try:
            with scope(self._sweep) as ended:
                # Its own login would count, too, where the password is wrong.
                while not self._database.server.reached.wait(_LOOK_UP_SECONDS):
                    ended.check()
                sweep(self._database)
        except Exception as error:  # noqa: BLE001 - nobody waits for it, and the next one tries again
            log.info("what loads have left could not be dropped: %s", error)
