"""What loads put beside their targets: names that tell, a lock that lives as long as they do."""

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from jetbridge.backends.mssql.connect import Loading, Running
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.load import retried_patiently
from jetbridge.backends.mssql.spool import remove_orphans
from jetbridge.cancellation import shielded
from jetbridge.errors import ServerError, Unavailable
from jetbridge.sqltext import tsql_load
from jetbridge.sqltext.tsql import path

log = logging.getLogger(__name__)

_SPEAK_SECONDS = 60.0

_NAMED = re.compile(r"(jetbridge_[0-9a-f]{16})_(?:rows|ledger)")


def is_leftover(name: str) -> bool:
    return _NAMED.fullmatch(name) is not None


@dataclass(frozen=True)
class Run:
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
def running(database: Database, schema: str) -> Iterator[Run]:
    """Others see by its lock that the load lives; what it made is gone at the end."""
    run = Run(f"jetbridge_{uuid4().hex[:16]}", schema)
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
                held.run(tsql_load.unlock_run(run.name))
        except ServerError as error:
            raise _LockLost from error


@contextmanager
def _kept_awake(held: Loading) -> Iterator[None]:
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


def _locked(connection: Loading, run: str) -> bool:
    return bool(connection.run(tsql_load.lock_run(run))[-1][0] >= 0)


def _drop(connection: Running, run: Run) -> None:
    names = (run.rows, run.ledger_name)
    connection.run("; ".join(tsql_load.drop_if_there(run.schema, name) for name in names))


def sweep(database: Database) -> list[str]:
    """Drops the tables of loads that no longer live; answers their names."""
    remove_orphans(database.options)
    found = [
        (schema, name, match[1])
        for schema, name in database.server.ask(tsql_load.LEFTOVERS)
        if (match := _NAMED.fullmatch(name))
    ]
    dropped = []
    with database.server.loading() as connection:
        for run in sorted({run for _, _, run in found}):
            if not _locked(connection, run):
                continue  # it is being loaded
            for schema, name, owner in found:
                if owner == run:
                    connection.run(tsql_load.drop_if_there(schema, name))
                    dropped.append(f"{schema}.{name}")
            connection.run(tsql_load.unlock_run(run))
    if dropped:
        database.known.forget()
        log.info("left by loads that did not end, and dropped: %s", ", ".join(dropped))
    return dropped


def sweep_quietly(database: Database) -> None:
    """A login that may only read sees nothing to sweep, or may not; that is no error."""
    remove_orphans(database.options)
    try:
        if any(is_leftover(name) for _, name in database.server.ask(tsql_load.LEFTOVERS)):
            sweep(database)
    except ServerError as error:
        log.debug("nothing was swept: %s", error)
