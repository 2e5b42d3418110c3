"""Interrupts statements that run too long, with one thread for all of them.

The thread is woken only for a deadline earlier than the one it waits for. As most limits are
the same, a statement costs two entries in a dictionary, not a wake-up, let alone a thread.
"""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb


class Watchdog:
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._running: dict[int, tuple[float, duckdb.DuckDBPyConnection]] = {}
        self._next = math.inf
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, cursor: duckdb.DuckDBPyConnection, seconds: float | None) -> Iterator[None]:
        """What runs on the cursor meanwhile raises `duckdb.InterruptException` in the end.

        DuckDB looks up between two vectors of rows, so one call of a slow function ends first.
        """
        if seconds is None:
            yield
            return
        deadline = time.monotonic() + seconds
        with self._condition:
            self._running[id(cursor)] = (deadline, cursor)
            if deadline < self._next:
                self._wake(deadline)
        try:
            yield
        finally:
            # Under the lock of the interrupt, which therefore never meets a closed cursor.
            with self._condition:
                self._running.pop(id(cursor), None)

    def _wake(self, deadline: float) -> None:
        self._next = deadline
        if self._thread is None or not self._thread.is_alive():  # none survives a fork
            self._thread = threading.Thread(
                target=self._watch, name="jetbridge-watchdog", daemon=True
            )
            self._thread.start()
        self._condition.notify()

    def _watch(self) -> None:
        with self._condition:
            while True:
                self._interrupt(time.monotonic())
                self._next = min((d for d, _ in self._running.values()), default=math.inf)
                wait = None if math.isinf(self._next) else self._next - time.monotonic()
                self._condition.wait(wait)

    def _interrupt(self, now: float) -> None:
        late = [key for key, (deadline, _) in self._running.items() if deadline <= now]
        for key in late:
            self._running.pop(key)[1].interrupt()
