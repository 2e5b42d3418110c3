"""Retries transactions after lost connections and deadlocks, and finds out about lost commits."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.connection.sql_connection import SqlConnection
from jetbridge.backends.mssql.errors import (
    DEADLOCK,
    DriverTimeout,
    server_number,
    was_connecting,
)
from jetbridge.errors import Conflict, LimitExceeded, ServerError, Unavailable
from jetbridge.runtime.cancellation import current

_TRIES = 6
_FIRST_PAUSE = 0.2
_T = TypeVar("_T")
_C = TypeVar("_C")


def retry_on_core(server: ConnectionPool, work: Callable[[CoreConnection], _T]) -> _T:
    """Run `work` on a core connection, again if the connection is lost or after a deadlock.

    Running it twice must have the effect of once. A server that cannot be reached at the first
    try is not retried.
    """
    return _retry(server.borrow_core, work)


def retry_on_odbc(server: ConnectionPool, work: Callable[[SqlConnection], _T]) -> _T:
    """Do the same on an ODBC connection, for statements that may take longer than 30 seconds."""
    return _retry(server.borrow_odbc, work)


def _retry(borrow: Callable[[], AbstractContextManager[_C]], work: Callable[[_C], _T]) -> _T:
    pause = _FIRST_PAUSE
    for left in reversed(range(_TRIES)):
        try:
            with borrow() as connection:
                return work(connection)
        except (Unavailable, Conflict) as error:
            unreachable = left == _TRIES - 1 and was_connecting(error)
            temporary = isinstance(error, Unavailable) or server_number(error) == DEADLOCK
            if not left or not temporary or unreachable:
                raise
            current().wait(pause)
        pause *= 2
    raise AssertionError  # the last try raises


class StatementTimeout(LimitExceeded):
    """The driver's core abandoned a statement, which was rolled back."""


class CommitUnknown(ServerError):
    """The connection was lost during COMMIT, and it is unknown whether it happened."""


def _statement_timeout(title: str) -> StatementTimeout:
    return StatementTimeout(
        f"a statement on {title} took longer than the 30 seconds that the driver of SQL Server "
        "waits, perhaps for locks of another session; run it again, or write fewer rows at once"
    )


def commit_unknown(title: str) -> CommitUnknown:
    return CommitUnknown(
        f"the connection was lost while changes of {title} were being committed: all of them "
        "are stored, or none; check the table before you run the statement again"
    )


class Commit:
    """Tracks whether the answer to a COMMIT was lost, over all tries of a transaction."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self.is_lost = False

    def begin(self) -> None:
        self._begun = True

    def resolve(self) -> None:
        """Note that the outcome of the lost COMMIT is known now."""
        self.is_lost = False

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Wrap each try."""
        self._begun = False
        try:
            yield
        except Unavailable:
            self.is_lost = self.is_lost or self._begun
            raise

    @contextmanager
    def unknown_if_lost(self) -> Iterator[None]:
        """Wrap all tries: raise CommitUnknown for any error after a lost COMMIT."""
        try:
            yield
        except ServerError as error:
            if self.is_lost:
                raise commit_unknown(self._title) from error
            raise


def run_in_transaction(
    server: ConnectionPool,
    title: str,
    work: Callable[[CoreConnection], object],
    happened: Callable[[CoreConnection], bool | None] | None = None,
) -> None:
    """Run `work` in a transaction, with the retries of `retry_on_core`.

    If the answer to COMMIT was lost, `happened` finds out whether it happened; None is unknown.
    Raises StatementTimeout for a statement that the core abandons.
    """
    commit = Commit(title)

    def once(connection: CoreConnection) -> None:
        with commit.trying(), connection.transaction(commit.begin):
            if commit.is_lost:
                done = happened(connection) if happened else None
                if done is None:
                    raise commit_unknown(title)
                commit.resolve()
                if done:
                    return
            try:
                work(connection)
            except DriverTimeout as error:
                raise _statement_timeout(title) from error

    with commit.unknown_if_lost():
        retry_on_core(server, once)
