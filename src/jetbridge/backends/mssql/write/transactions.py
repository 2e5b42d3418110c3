"""Retries transactions after lost connections and deadlocks, and checks for lost commits."""

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
    """Run `work` on a core connection; again if the connection is lost, and after a deadlock.

    `work` must have the same effect if it runs twice. There is no retry if the server cannot be
    reached at the first try.
    """
    return _retry(server.borrow_core, work)


def retry_on_odbc(server: ConnectionPool, work: Callable[[SqlConnection], _T]) -> _T:
    """Run `work` as `retry_on_core` does, for statements that may take longer than 30 seconds."""
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
    """Report that the driver's core abandoned a statement, which was rolled back."""


class CommitUnknown(ServerError):
    """Report that the connection was lost during COMMIT, whose outcome is unknown."""


def _statement_timeout(title: str) -> StatementTimeout:
    return StatementTimeout(
        f"a statement on {title} took longer than the 30 seconds that the driver of SQL Server "
        "waits, perhaps for locks of another session; run it again, or write fewer rows at once"
    )


def commit_unknown(title: str) -> CommitUnknown:
    """Return the error for a COMMIT whose outcome is unknown."""
    return CommitUnknown(
        f"the connection was lost while changes of {title} were being committed: all of them "
        "are stored, or none; check the table before you run the statement again"
    )


class Commit:
    """Track whether the answer to a COMMIT was lost, over all tries of a transaction."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self.is_lost = False

    def begin(self) -> None:
        """Record that COMMIT is about to be sent."""
        self._begun = True

    def resolve(self) -> None:
        """Record that the outcome of the lost COMMIT is known."""
        self.is_lost = False

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Record whether a try lost the answer to its COMMIT. Wrap each try in it."""
        self._begun = False
        try:
            yield
        except Unavailable:
            self.is_lost = self.is_lost or self._begun
            raise

    @contextmanager
    def unknown_if_lost(self) -> Iterator[None]:
        """Raise CommitUnknown for any error after a lost COMMIT. Wrap all tries in it."""
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

    If the answer to COMMIT was lost, `happened` returns whether it happened, or None if that is
    unknown. Raises StatementTimeout for a statement that the core abandons.
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
