"""Rows into one table on one connection: by bulk copy, or by INSERT statements."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.mssql.connection.pool import ConnectionPool, CoreConnection, SqlConnection
from jetbridge.backends.mssql.errors import (
    DEADLOCK,
    UNKNOWN_COLUMN,
    DriverTimeout,
    server_number,
    was_connecting,
)
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.code_pages import CodePages
from jetbridge.backends.mssql.write.driver_batches import BulkColumn, wire_schema
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.dialects.tsql.values import constants
from jetbridge.duckdb_engine.sandbox import DATA, query
from jetbridge.errors import BadRequest, Conflict, LimitExceeded, ServerError, Unavailable
from jetbridge.runtime.cancellation import current

_TRIES = 6
_FIRST_PAUSE = 0.2
_T = TypeVar("_T")
_C = TypeVar("_C")


@dataclass(frozen=True)
class LoadTarget:
    """Where rows go: the quoted name of the table, and its columns that are given values."""

    table: str
    columns: tuple[BulkColumn, ...]
    lock: bool = False
    identity: bool = False


Batches = Callable[[], Iterable[pa.RecordBatch]]


class _Parted:
    """Rows that the driver sends rightly, and those that it does not; whether any was read."""

    def __init__(self, connection: CoreConnection, goal: LoadTarget, batches: Batches) -> None:
        self._pages = CodePages(connection.run, goal.columns)
        self._names = [each.name for each in goal.columns]
        self._batches = batches
        self.read = self.are_left = False

    def may_lock(self, goal: LoadTarget) -> bool:
        """Bulk loads share the lock of a table with each other, and not with INSERT statements."""
        return goal.lock and self._pages.are_sent_rightly()

    def sent(self) -> Iterator[pa.RecordBatch]:
        for batch, unsent in self._parts():
            self.read = True
            if unsent is None:
                yield batch
            else:
                self.are_left = True
                yield batch.filter(pc.invert(unsent))

    def left(self) -> Iterator[pa.RecordBatch]:
        for batch, unsent in self._parts():
            if unsent is not None:
                yield batch.filter(unsent)

    def all(self) -> Iterator[pa.RecordBatch]:
        for batch, _ in self._parts():
            yield batch

    def _parts(self) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
        first_row = 0
        for whole in self._batches():
            batch = whole.select(self._names)
            yield batch, self._pages.unsent(batch, first_row)
            first_row += batch.num_rows


def load(
    connection: CoreConnection, goal: LoadTarget, batches: Batches, settings: MssqlSettings
) -> int:
    """Within a transaction that the caller has begun; the number of rows.

    Of the batches it takes the columns that it needs, and it may read them twice: what bulk copy
    would write wrongly goes by INSERT statements.
    """
    source = _Parted(connection, goal, batches)
    if settings.ctas_use_bcp:
        try:
            done = _by_bulk_copy(
                connection, replace(goal, lock=source.may_lock(goal)), source.sent()
            )
        except ServerError as error:
            if source.read or not _is_possible_otherwise(connection, error):
                raise
        else:
            rest = _by_inserts(connection, goal, source.left(), settings) if source.are_left else 0
            return done + rest
    return _by_inserts(connection, goal, source.all(), settings)


def _by_bulk_copy(
    connection: CoreConnection, goal: LoadTarget, batches: Iterable[pa.RecordBatch]
) -> int:
    rows = pa.RecordBatchReader.from_batches(wire_schema(goal.columns), batches)
    names = [each.name for each in goal.columns]
    return connection.load(goal.table, rows, names, lock=goal.lock, identity=goal.identity)


def _is_possible_otherwise(connection: CoreConnection, error: ServerError) -> bool:
    """For a server that does not understand the driver's questions about the table.

    Without the transaction, what follows would stay whatever becomes of the rest.
    """
    unknown = server_number(error) == UNKNOWN_COLUMN
    return unknown and connection.run(tsql_load.OPEN_TRANSACTIONS) == [(1,)]


def _by_inserts(
    connection: CoreConnection,
    goal: LoadTarget,
    batches: Iterable[pa.RecordBatch],
    settings: MssqlSettings,
) -> int:
    if goal.identity:
        connection.run(tsql_load.identity_insert(goal.table, on=True))
    done = 0
    for batch in batches:
        for text in _texts(goal, batch, settings):
            connection.run(text)
        done += batch.num_rows
    if goal.identity:
        connection.run(tsql_load.identity_insert(goal.table, on=False))
    return done


def _texts(goal: LoadTarget, batch: pa.RecordBatch, settings: MssqlSettings) -> Iterator[str]:
    """One for each round trip: `insert_batch_size` rows in statements as large as allowed."""
    columns = [(each.name, each.kind) for each in goal.columns]
    written = query(constants(DATA, columns), pa.Table.from_batches([batch])).column(0)
    rows = written.combine_chunks()
    sizes = pc.binary_length(rows).to_numpy(zero_copy_only=False)
    head = tsql_load.insert_head(goal.table, [each.name for each in goal.columns])
    for start in range(0, len(rows), settings.insert_batch_size):
        end = min(len(rows), start + settings.insert_batch_size)
        statements = [
            head + ", ".join(rows[a:b].to_pylist())
            for a, b in _cuts(sizes, start, end, len(head.encode()), settings)
        ]
        yield "; ".join(statements)


def _cuts(
    sizes: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    start: int,
    end: int,
    head: int,
    settings: MssqlSettings,
) -> Iterator[tuple[int, int]]:
    most_rows, most_bytes = settings.insert_max_rows_per_statement, settings.insert_max_sql_bytes
    total = np.cumsum(sizes[start:end] + 2)
    at = 0
    while at < end - start:
        before = total[at - 1] if at else 0
        fits = int(np.searchsorted(total, before + most_bytes - head, side="right"))
        upto = min(at + most_rows, fits)
        if upto <= at:
            raise BadRequest(
                f"a row needs {int(sizes[start + at]) + head} bytes of SQL; raise "
                f"mssql_insert_max_sql_bytes, which is {most_bytes}"
            )
        yield start + at, start + upto
        at = upto


def retried(server: ConnectionPool, work: Callable[[CoreConnection], _T]) -> _T:
    """Again with a new connection when one is lost, or when the server chose us to break a
    deadlock; `work` must do nothing twice. A server that was not there to begin with is not
    waited for."""
    return _retried(server.loading, work)


def retried_patiently(server: ConnectionPool, work: Callable[[SqlConnection], _T]) -> _T:
    """The same for statements that may take long, and need no bulk load."""
    return _retried(server.asking, work)


def _retried(borrow: Callable[[], AbstractContextManager[_C]], work: Callable[[_C], _T]) -> _T:
    pause = _FIRST_PAUSE
    for left in reversed(range(_TRIES)):
        try:
            with borrow() as connection:
                return work(connection)
        except (Unavailable, Conflict) as error:
            absent = left == _TRIES - 1 and was_connecting(error)
            again = isinstance(error, Unavailable) or server_number(error) == DEADLOCK
            if not left or not again or absent:
                raise
            current().wait(pause)
        pause *= 2
    raise AssertionError  # the last try raises


class StatementTimeout(LimitExceeded):
    """The driver's core waited no longer; nothing has happened."""


class CommitUnknown(ServerError):
    """The connection was lost while a COMMIT was answered, and nobody can tell what came of it."""


def _too_slow(title: str) -> StatementTimeout:
    return StatementTimeout(
        f"a statement on {title} took SQL Server longer than the 30 seconds that its driver waits, "
        "perhaps for somebody else's locks: run it again, or write fewer rows at once"
    )


def commit_unknown(title: str) -> CommitUnknown:
    return CommitUnknown(
        f"the connection was lost while changes of {title} were being committed: all of them "
        "are there, or none; look before you run the statement again"
    )


class Commit:
    """Of work that may be tried again: whether the answer to a COMMIT was lost."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self.is_lost = False

    def begin(self) -> None:
        self._begun = True

    def found(self) -> None:
        """The server has told what came of the one whose answer was lost."""
        self.is_lost = False

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Around each try."""
        self._begun = False
        try:
            yield
        except Unavailable:
            self.is_lost = self.is_lost or self._begun
            raise

    @contextmanager
    def unknown_if_lost(self) -> Iterator[None]:
        """Around all tries: whatever the last one fails with, the lost COMMIT may have happened."""
        try:
            yield
        except ServerError as error:
            if self.is_lost:
                raise commit_unknown(self._title) from error
            raise


def in_one_transaction(
    server: ConnectionPool,
    title: str,
    work: Callable[[CoreConnection], object],
    happened: Callable[[CoreConnection], bool | None] | None = None,
) -> None:
    """All of `work` or nothing, tried again as `retried` says.

    When the answer to COMMIT was lost, `happened` tells whether it has; None: nobody knows.
    Raises TooSlow for a statement that the core does not wait for.
    """
    commit = Commit(title)

    def once(connection: CoreConnection) -> None:
        with commit.trying(), connection.transaction(commit.begin):
            if commit.is_lost:
                done = happened(connection) if happened else None
                if done is None:
                    raise commit_unknown(title)
                commit.found()
                if done:
                    return
            try:
                work(connection)
            except DriverTimeout as error:
                raise _too_slow(title) from error

    with commit.unknown_if_lost():
        retried(server, once)
