"""Limits the time of one call, and the time of all statements of one token within an hour.

Statements that run at the same time each count: two that run for a minute use two minutes. Used
time is forgotten after an hour, in steps of a minute.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

import grpc

from jetbridge.errors import LimitExceeded
from jetbridge.runtime.cancellation import Cancellation

_log = logging.getLogger(__name__)

# Calls are checked at this interval, or a shorter one if the limit is short.
_CHECK_SECONDS = 1.0
# A call that has not ended this long after its statement was cancelled is cut off: its caller
# does not read.
_GRACE_SECONDS = 5.0

_WINDOW_SECONDS = 3600.0
_SLICES = 60
_MINUTE = 60.0


@dataclass
class _Usage:
    """Count the running statements of one token, and their seconds in each slice of the window."""

    counted_until: float
    running: int = 0
    seconds: float = 0.0
    slices: deque[tuple[int, float]] = field(default_factory=deque)

    def count(self, time: float) -> None:
        """Add the time since the last count, and forget slices that have left the window."""
        seconds = self.running * (time - self.counted_until)
        self.counted_until = time
        self.seconds += seconds
        last_slice = _slice(time)
        if seconds:
            last = self.slices.pop()[1] if self.slices and self.slices[-1][0] == last_slice else 0.0
            self.slices.append((last_slice, last + seconds))
        while self.slices and self.slices[0][0] <= last_slice - _SLICES:
            self.seconds -= self.slices.popleft()[1]

    def wait(self, time: float, at_most: float) -> float:
        """Return the seconds until less than `at_most` is used, if no statement runs."""
        used = self.seconds
        for number, seconds in self.slices:
            used -= seconds
            if used < at_most:
                return (number + _SLICES) * _WINDOW_SECONDS / _SLICES - time
        return 0.0


class TimeQuota:
    """Limit the seconds that the statements of one token take within the window.

    `seconds` is None if there is no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        self._usage_by_owner: dict[str, _Usage] = {}

    @contextmanager
    def measure(self, owner: str) -> Iterator[None]:
        """Count the time of the block. Raises LimitExceeded if no time is left at its start."""
        if self.seconds is None:
            yield
            return
        with self._lock:
            self.refuse_if_used_up(owner)
            self._current_usage(owner).running += 1
        try:
            yield
        finally:
            with self._lock:
                self._current_usage(owner).running -= 1

    def refuse_if_used_up(self, owner: str) -> None:
        """Raise LimitExceeded if the token has no time left."""
        error = self.error(owner)
        if error is not None:
            raise error

    def error(self, owner: str) -> LimitExceeded | None:
        """Return the error for statements of a token without time left, or None."""
        if self.seconds is None:
            return None
        with self._lock:
            usage = self._current_usage(owner)
            if usage.seconds < self.seconds:
                return None
            wait = max(1.0, usage.wait(usage.counted_until, self.seconds))
        return LimitExceeded(
            f"the statements of token {owner!r} took {self.seconds:g} seconds within an hour, the "
            f"limit of one token; try again in {_format_seconds(wait)}, or raise "
            "limits.statement_seconds_per_token"
        )

    def _current_usage(self, owner: str) -> _Usage:
        current_time = time.monotonic()
        usage = self._usage_by_owner.setdefault(owner, _Usage(current_time))
        usage.count(current_time)
        return usage


class RunningCall(NamedTuple):
    """Describe a running call. `owner` is None for a call without a token: it has no quota."""

    ends: float
    statement: Cancellation
    context: grpc.ServicerContext
    owner: str | None


class TimeLimit:
    """End calls that take too long. One thread checks all calls, as long as there are any."""

    def __init__(self, seconds: float, quota: TimeQuota | None = None) -> None:
        self._seconds = seconds
        self._quota = quota or TimeQuota(None)
        self._pause = min(_CHECK_SECONDS, seconds / 4, (self._quota.seconds or seconds) / 4)
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        # In the order in which the calls began, which is the order in which their time ends.
        self._running: dict[int, RunningCall] = {}
        self._late: dict[int, RunningCall] = {}
        self._is_checking = False

    def refuse_if_used_up(self, owner: str) -> None:
        """Raise LimitExceeded if the token has no time left."""
        self._quota.refuse_if_used_up(owner)

    @contextmanager
    def apply(
        self, statement: Cancellation, context: grpc.ServicerContext, owner: str | None = None
    ) -> Iterator[None]:
        """Cancel the statement if the block takes too long.

        Raises LimitExceeded if the token has no time left at the start.
        """
        counted = nullcontext() if owner is None else self._quota.measure(owner)
        call = RunningCall(time.monotonic() + self._seconds, statement, context, owner)
        with counted, self._watch(call):
            yield

    @contextmanager
    def _watch(self, call: RunningCall) -> Iterator[None]:
        key = id(call.statement)
        try:
            with self._lock:
                self._running[key] = call
                if not self._is_checking:
                    name = "jetbridge-limit"
                    threading.Thread(target=self._check_calls, name=name, daemon=True).start()
                    self._is_checking = True
            yield
        finally:
            with self._lock:
                self._running.pop(key, None)
                self._late.pop(key, None)

    def _check_calls(self) -> None:
        goes_on = True
        while goes_on:
            time.sleep(self._pause)
            # Not under the lock: a thread that holds the lock of the quota may wait for this one.
            errors = self._quota_errors()
            with self._lock:
                ended = [*self._take_late(), *self._take_over_quota(errors)]
                cut_off = self._take_due(self._late, _GRACE_SECONDS)
                goes_on = self._is_checking = bool(self._running or self._late)
            for call, error in ended:
                with _log_errors():
                    call.statement.cancel(error)
            for call in cut_off.values():
                with _log_errors():
                    _cut_off(call.statement, call.context)

    def _quota_errors(self) -> dict[str, LimitExceeded]:
        """Return the errors for the tokens that have no time left."""
        with self._lock:
            owners = {call.owner for call in self._running.values() if call.owner is not None}
        errors = {owner: self._quota.error(owner) for owner in owners}
        return {owner: error for owner, error in errors.items() if error is not None}

    def _take_late(self) -> list[tuple[RunningCall, LimitExceeded]]:
        """Move the calls over the time limit to the late ones, and return them."""
        late = self._take_due(self._running, 0)
        self._late.update(late)
        return [(call, self._error()) for call in late.values()]

    def _take_over_quota(
        self, errors: dict[str, LimitExceeded]
    ) -> list[tuple[RunningCall, LimitExceeded]]:
        """Move all calls of these tokens to the late ones, and return them."""
        current_time = time.monotonic()
        keys = [key for key, call in self._running.items() if call.owner in errors]
        late = {key: self._running.pop(key)._replace(ends=current_time) for key in keys}
        self._late.update(late)
        return [(call, errors[call.owner or ""]) for call in late.values()]

    def _take_due(self, calls: dict[int, RunningCall], after: float) -> dict[int, RunningCall]:
        """Remove the calls whose time ended `after` seconds ago, and return them."""
        latest = time.monotonic() - after
        due = {}
        for key, call in list(calls.items()):
            if call.ends > latest:
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
def _log_errors() -> Iterator[None]:
    """Log an error of the block, so that one call cannot keep others from their end."""
    try:
        yield
    except Exception as error:
        _log.warning("could not end a call that is over its time limit", exc_info=error)


def _cut_off(statement: Cancellation, context: grpc.ServicerContext) -> None:
    if statement.error() is not None:  # without an error it is publishing, and ends soon
        _log.info("cut off a call that is over its time limit")
        context.cancel()


def _slice(time: float) -> int:
    return int(time * _SLICES / _WINDOW_SECONDS)


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < _MINUTE else f"{seconds / _MINUTE:.0f} min"
