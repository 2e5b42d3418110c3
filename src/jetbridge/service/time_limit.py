"""How long one call may take."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from jetbridge.cancellation import Cancellation
from jetbridge.errors import LimitExceeded

_log = logging.getLogger(__name__)

# Calls are looked at this often, and more often where the limit is short.
_LOOK_SECONDS = 1.0
# A call that has not ended this long after its statement was told to is cut: its caller reads
# nothing.
_GRACE_SECONDS = 5.0

Running = tuple[float, Cancellation, grpc.ServicerContext]


class TimeLimit:
    """Ends calls that take longer; one thread looks after all of them, while there are any."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        # In the order in which they began, which is that in which they end.
        self._running: dict[int, Running] = {}
        self._late: dict[int, Running] = {}
        self._looks = False

    @contextmanager
    def of(self, statement: Cancellation, context: grpc.ServicerContext) -> Iterator[None]:
        key = id(statement)
        try:
            with self._lock:
                self._running[key] = (time.monotonic() + self._seconds, statement, context)
                if not self._looks:
                    work = self._look
                    threading.Thread(target=work, name="jetbridge-limit", daemon=True).start()
                    self._looks = True
            yield
        finally:
            with self._lock:
                self._running.pop(key, None)
                self._late.pop(key, None)

    def _look(self) -> None:
        goes_on = True
        while goes_on:
            time.sleep(min(_LOOK_SECONDS, self._seconds / 4))
            with self._lock:
                ended = self._due(self._running, 0)
                self._late.update(ended)
                cut = self._due(self._late, _GRACE_SECONDS)
                goes_on = self._looks = bool(self._running or self._late)
            for _, statement, _ in ended.values():
                with _going_on():
                    statement.cancel(self._error())
            for _, statement, context in cut.values():
                with _going_on():
                    _cut(statement, context)

    def _due(self, calls: dict[int, Running], after: float) -> dict[int, Running]:
        """Those whose time is over; they are taken out."""
        now = time.monotonic() - after
        due = {}
        for key, call in list(calls.items()):
            if call[0] > now:
                break
            due[key] = call
        for key in due:
            calls.pop(key, None)
        return due

    def _error(self) -> LimitExceeded:
        return LimitExceeded(
            f"the statement ran for more than {self._seconds:g} seconds; split it, or raise "
            "limits.statement_seconds"
        )


@contextmanager
def _going_on() -> Iterator[None]:
    """A call that cannot be ended does not keep others from their end."""
    try:
        yield
    except Exception as error:
        _log.warning("a call over limits.statement_seconds goes on", exc_info=error)


def _cut(statement: Cancellation, context: grpc.ServicerContext) -> None:
    if statement.error() is not None:  # else it publishes, and then ends
        _log.info("a call over limits.statement_seconds is cut")
        context.cancel()
