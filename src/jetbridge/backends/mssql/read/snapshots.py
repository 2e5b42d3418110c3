"""Reads at one moment: a connection in a transaction of SNAPSHOT isolation.

A connection answers one question at a time. Whoever asks the next one while rows of the last are
still on their way reads those first, into memory or to disk, so nobody waits for anybody.
"""

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import ConnectionPool, OdbcConnection
from jetbridge.backends.tables.staging import Staging
from jetbridge.dialects.tsql import statements
from jetbridge.errors import Conflict, ServerError
from jetbridge.runtime.cancellation import shielded

_MOST_OPEN = 64
_IDLE_SECONDS = 60.0
_SPILL_BYTES = 64 * 1024 * 1024
_STAGED_BYTES = 64 * 1024**3


class SnapshotReaders:
    """Those that are open; the ones that may lapse, and are left alone, give their connection back.

    As long as one is open the server keeps old versions of all rows.
    """

    def __init__(self, server: ConnectionPool) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._open: list[_IdleTransaction] = []
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def new(self) -> "SnapshotReader":
        held = _IdleTransaction(self._server)
        moment = SnapshotReader(held)
        weakref.finalize(moment, held.end)
        self._end_left_alone()
        with self._lock:
            extra = self._open[: max(0, len(self._open) - _MOST_OPEN + 1)]
            self._open.append(held)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="moments", daemon=True)
                self._watcher.start()
        for each in extra:
            each.end_if_left_alone(0)
        return moment

    def _end_left_alone(self) -> None:
        with self._lock:
            found = list(self._open)
        for each in found:
            each.end_if_left_alone(_IDLE_SECONDS)
        with self._lock:
            self._open = [each for each in self._open if not each.ended]

    def _watch(self) -> None:
        while not self._closed.wait(_IDLE_SECONDS / 2):
            self._end_left_alone()
            with self._lock:
                if not self._open:
                    self._watcher = None
                    return

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            found, self._open = self._open, []
        for each in found:
            each.end()


class SnapshotReader:
    """What is read through it is as it was when it was first used."""

    def __init__(self, held: "_IdleTransaction") -> None:
        self._held = held

    def may_lapse(self) -> None:
        """Nobody will say that it is no longer needed."""
        self._held.lapses = True

    def stream(self, sql: str, parameters: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Begins at the first row; the moment lives as long as somebody reads."""
        rows = self._held.asked(sql, parameters)
        try:
            while (batch := rows.next()) is not None:
                yield batch
        finally:
            rows.close()
            self._held.used = time.monotonic()


class _IdleTransaction:
    """The connection, from the first question on."""

    def __init__(self, server: ConnectionPool) -> None:
        self._server = server
        self._stack = ExitStack()
        self._connection: OdbcConnection | None = None
        self._current: _BufferedRows | None = None
        self._lock = threading.RLock()
        self.used = time.monotonic()
        self.ended = self.lapses = False

    def asked(self, sql: str, parameters: Sequence[Any]) -> "_BufferedRows":
        with self._lock:
            if self.ended:
                raise Conflict(
                    "the moment that this transaction reads was left alone for too long; begin anew"
                )
            if self._current is not None:
                self._current.read_rest()
            if self._connection is None:
                self._connection = self._begun()
            self._current = _BufferedRows(self._connection.stream(sql, parameters), self._lock)
            return self._current

    def _begun(self) -> OdbcConnection:
        """A connection whose transaction has begun; one that failed to begin it is closed."""
        with ExitStack() as stack:
            connection = stack.enter_context(self._server.asking())
            connection.rows(statements.BEGIN_SNAPSHOT)
            self._stack = stack.pop_all()
        return connection

    def is_read(self) -> bool:
        """Whether somebody is still reading rows."""
        current = self._current
        return current is not None and not current.closed

    def end_if_left_alone(self, seconds: float) -> None:
        """If it may lapse, and nobody has read anything for so long."""
        if not self.lapses or not self._lock.acquire(blocking=False):
            return
        try:
            unread = self._connection is not None and not self.is_read()
            if unread and time.monotonic() - self.used > seconds:
                self.end()
        finally:
            self._lock.release()

    def end(self) -> None:
        """Gives the connection back; who reads rows is told that they are cut."""
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
                with shielded():
                    connection.rows(statements.END_SNAPSHOT)
            except ServerError as error:
                self._stack.__exit__(type(error), error, None)
            else:
                self._stack.close()


class _BufferedRows:
    """The answer to one question; the rest of it may be read before anybody wants it."""

    def __init__(self, batches: Iterator[pa.RecordBatch], lock: threading.RLock) -> None:
        self._batches, self._lock = batches, lock
        self._rest: Iterator[pa.RecordBatch] | None = None
        self._staging: Staging | None = None
        self.closed = False

    def next(self) -> pa.RecordBatch | None:
        with self._lock:
            return next(self._rest if self._rest is not None else self._batches, None)

    def read_rest(self) -> None:
        """What goes wrong is for the one who reads these rows, not for the next to ask."""
        if self._rest is not None or self.closed:
            return
        self._staging = Staging(_SPILL_BYTES, _STAGED_BYTES)
        failed: Exception | None = None
        try:
            for batch in self._batches:
                self._staging.add(batch)
        except Exception as error:  # noqa: BLE001 - raised where the rows are read
            failed = error
        self._rest = _then(self._staging.batches(), failed)

    def cut(self) -> None:
        self._stop()
        self._rest = _then(iter(()), Conflict("the rows of this transaction were cut; begin anew"))

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._stop()
            self._rest = iter(())
            if self._staging is not None:
                self._staging.close()

    def _stop(self) -> None:
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()


def _then(batches: Iterator[pa.RecordBatch], failed: Exception | None) -> Iterator[pa.RecordBatch]:
    yield from batches
    if failed is not None:
        raise failed
