"""Reads all tables of a transaction from one snapshot, by SNAPSHOT isolation.

A connection runs one query at a time. If a query begins while rows of the previous one still
arrive, these are first buffered in memory or on disk, so no scan waits for another.
"""

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from jetbridge.backends.mssql.connection.odbc import OdbcConnection
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.tables.staging import Staging
from jetbridge.catalog.settings import STAGED_BYTES
from jetbridge.dialects.tsql import statements
from jetbridge.errors import Conflict, ServerError
from jetbridge.runtime.cancellation import Closable, shield

_MAX_OPEN = 64
_IDLE_SECONDS = 60.0
_SPILL_BYTES = 64 * 1024 * 1024


class SnapshotReaders:
    """Open the snapshots of a database, and end those that may expire and are idle.

    As long as a snapshot is open, the server keeps old versions of all rows.
    """

    def __init__(self, server: ConnectionPool, staged_bytes: int = STAGED_BYTES) -> None:
        """Set how many bytes of one query are buffered if a second one begins."""
        self._server, self._staged_bytes = server, staged_bytes
        self._lock = threading.Lock()
        self._open: list[_IdleTransaction] = []
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def open(self) -> "SnapshotReader":
        """Return a new snapshot; end the oldest idle one if there are too many."""
        transaction = _IdleTransaction(self._server, self._staged_bytes)
        reader = SnapshotReader(transaction)
        weakref.finalize(reader, transaction.end)
        self._end_idle()
        with self._lock:
            excess = self._open[: max(0, len(self._open) - _MAX_OPEN + 1)]
            self._open.append(transaction)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="snapshots", daemon=True)
                self._watcher.start()
        for old in excess:
            old.end_if_idle(0)
        return reader

    def _end_idle(self) -> None:
        with self._lock:
            transactions = list(self._open)
        for transaction in transactions:
            transaction.end_if_idle(_IDLE_SECONDS)
        with self._lock:
            self._open = [transaction for transaction in self._open if not transaction.ended]

    def _watch(self) -> None:
        while not self._closed.wait(_IDLE_SECONDS / 2):
            self._end_idle()
            with self._lock:
                if not self._open:
                    self._watcher = None
                    return

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            transactions, self._open = self._open, []
        for transaction in transactions:
            transaction.end()


class SnapshotReader:
    """Read tables as they were when it was first used."""

    def __init__(self, transaction: "_IdleTransaction") -> None:
        self._transaction = transaction

    def may_lapse(self) -> None:
        """Let the snapshot end when it is idle, because no caller will end it."""
        self._transaction.lapses = True

    def stream(self, sql: str, parameters: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield batches of a query. The snapshot does not end before the last one is read."""
        rows = self._transaction.start_query(sql, parameters)
        try:
            while (batch := rows.next()) is not None:
                yield batch
        finally:
            rows.close()
            self._transaction.last_used = time.monotonic()


class _IdleTransaction:
    """Hold the transaction of a snapshot, which begins with its first query."""

    def __init__(self, server: ConnectionPool, staged_bytes: int) -> None:
        self._server, self._staged_bytes = server, staged_bytes
        self._stack = ExitStack()
        self._connection: OdbcConnection | None = None
        self._current: _BufferedRows | None = None
        self._lock = threading.RLock()
        self.last_used = time.monotonic()
        self.ended = self.lapses = False

    def start_query(self, sql: str, parameters: Sequence[Any]) -> "_BufferedRows":
        with self._lock:
            if self.ended:
                raise Conflict(
                    "the snapshot of this transaction expired because it was idle; start a new "
                    "transaction"
                )
            if self._current is not None:
                self._current.read_rest()
            if self._connection is None:
                self._connection = self._begin()
            rows = self._connection.stream(sql, parameters)
            self._current = _BufferedRows(rows, self._lock, self._staged_bytes)
            return self._current

    def _begin(self) -> OdbcConnection:
        """Return a connection whose transaction has begun, or close it if that fails."""
        with ExitStack() as stack:
            connection = stack.enter_context(self._server.borrow_odbc())
            connection.rows(statements.BEGIN_SNAPSHOT)
            self._stack = stack.pop_all()
        return connection

    def is_read(self) -> bool:
        """Return whether rows of the current query are still being read."""
        current = self._current
        return current is not None and not current.closed

    def end_if_idle(self, seconds: float) -> None:
        """End it if it may expire and nothing was read for this time."""
        if not self.lapses or not self._lock.acquire(blocking=False):
            return
        try:
            unread = self._connection is not None and not self.is_read()
            if unread and time.monotonic() - self.last_used > seconds:
                self.end()
        finally:
            self._lock.release()

    def end(self) -> None:
        """Return the connection to the pool. A scan that still reads rows gets Conflict."""
        with self._lock:
            if self.ended:
                return
            self.ended = True
            if self._current is not None and not self._current.closed:
                self._current.cut()
            connection, self._connection = self._connection, None
            if connection is None:
                return
            try:
                with shield():
                    connection.rows(statements.END_SNAPSHOT)
            except ServerError as error:
                self._stack.__exit__(type(error), error, None)
            else:
                self._stack.close()


class _BufferedRows:
    """Hold the rows of one query, and buffer them if another query begins."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], lock: threading.RLock, staged_bytes: int
    ) -> None:
        self._batches, self._lock, self._staged_bytes = batches, lock, staged_bytes
        self._rest: Iterator[pa.RecordBatch] | None = None
        self._staging: Staging | None = None
        self.closed = False

    def next(self) -> pa.RecordBatch | None:
        with self._lock:
            return next(self._rest if self._rest is not None else self._batches, None)

    def read_rest(self) -> None:
        """Buffer the remaining rows. An error is raised later, by their reader."""
        if self._rest is not None or self.closed:
            return
        self._staging = Staging(_SPILL_BYTES, self._staged_bytes)
        failure: Exception | None = None
        try:
            for batch in self._batches:
                self._staging.add(batch)
        except Exception as error:  # noqa: BLE001 - raised by the reader of the rows
            failure = error
        self._rest = _end_with(self._staging.batches(), failure)

    def cut(self) -> None:
        self._stop()
        error = Conflict(
            "the snapshot of this transaction ended while rows were read; start a new transaction"
        )
        self._rest = _end_with(iter(()), error)

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._stop()
            self._rest = iter(())
            if self._staging is not None:
                self._staging.close()

    def _stop(self) -> None:
        if isinstance(self._batches, Closable):
            self._batches.close()


def _end_with(
    batches: Iterator[pa.RecordBatch], failure: Exception | None
) -> Iterator[pa.RecordBatch]:
    yield from batches
    if failure is not None:
        raise failure
