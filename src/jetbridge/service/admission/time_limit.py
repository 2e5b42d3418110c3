"""How long one call may take, and all calls of one token."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import grpc

from jetbridge.errors import LimitExceeded
from jetbridge.runtime.cancellation import Cancellation
from jetbridge.service.admission.time_quota import TimeQuota

_log = logging.getLogger(__name__)

# Calls are looked at this often, and more often where the limit is short.
_LOOK_SECONDS = 1.0
# A call that has not ended this long after its statement was told to is cut: its caller reads
# nothing.
_GRACE_SECONDS = 5.0


class Running(NamedTuple):
    """`owner` is None for a call without a token, which has no quota."""

    ends: float
    statement: Cancellation
    context: grpc.ServicerContext
    owner: str | None


class TimeLimit:
    """Ends calls that take longer; one thread looks after all of them, while there are any."""

    def __init__(self, seconds: float, quota: TimeQuota | None = None) -> None:
        self._seconds = seconds
        self._quota = quota or TimeQuota(None)
        self._pause = min(_LOOK_SECONDS, seconds / 4, (self._quota.seconds or seconds) / 4)
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        # In the order in which they began, which is that in which they end.
        self._running: dict[int, Running] = {}
        self._late: dict[int, Running] = {}
        self._looks = False

    def refuse_if_used_up(self, owner: str) -> None:
        self._quota.refuse_if_used_up(owner)

    @contextmanager
    def of(
        self, statement: Cancellation, context: grpc.ServicerContext, owner: str | None = None
    ) -> Iterator[None]:
        """Raises LimitExceeded if the token has no time left."""
        counted = nullcontext() if owner is None else self._quota.counted(owner)
        call = Running(time.monotonic() + self._seconds, statement, context, owner)
        with counted, self._ended_in_time(call):
            yield

    @contextmanager
    def _ended_in_time(self, call: Running) -> Iterator[None]:
        key = id(call.statement)
        try:
            with self._lock:
                self._running[key] = call
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
            time.sleep(self._pause)
            # Without the lock: whoever has that of the quota may wait for this one.
            errors = self._over_quota()
            with self._lock:
                ended = [*self._take_due(), *self._take(errors)]
                cut = self._due(self._late, _GRACE_SECONDS)
                goes_on = self._looks = bool(self._running or self._late)
            for call, error in ended:
                with _going_on():
                    call.statement.cancel(error)
            for call in cut.values():
                with _going_on():
                    _cut(call.statement, call.context)

    def _over_quota(self) -> dict[str, LimitExceeded]:
        """The errors of the tokens that have no time left."""
        with self._lock:
            owners = {call.owner for call in self._running.values() if call.owner is not None}
        errors = {owner: self._quota.error(owner) for owner in owners}
        return {owner: error for owner, error in errors.items() if error is not None}

    def _take_due(self) -> list[tuple[Running, LimitExceeded]]:
        ended = self._due(self._running, 0)
        self._late.update(ended)
        return [(call, self._error()) for call in ended.values()]

    def _take(self, errors: dict[str, LimitExceeded]) -> list[tuple[Running, LimitExceeded]]:
        """All calls of these tokens."""
        now = time.monotonic()
        keys = [key for key, call in self._running.items() if call.owner in errors]
        ended = {key: self._running.pop(key)._replace(ends=now) for key in keys}
        self._late.update(ended)
        return [(call, errors[call.owner or ""]) for call in ended.values()]

    def _due(self, calls: dict[int, Running], after: float) -> dict[int, Running]:
        """Those whose time is over; they are taken out."""
        now = time.monotonic() - after
        due = {}
        for key, call in list(calls.items()):
            if call.ends > now:
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
        _log.warning("a call over its time limit goes on", exc_info=error)


def _cut(statement: Cancellation, context: grpc.ServicerContext) -> None:
    if statement.error() is not None:  # else it publishes, and then ends
        _log.info("a call over its time limit is cut")
        context.cancel()
