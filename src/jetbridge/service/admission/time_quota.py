"""How much time the statements of one token may take together within an hour.

A statement that runs beside another one counts as well: two that run for a minute take two. What
was used is forgotten a minute at a time, an hour later.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jetbridge.errors import LimitExceeded

_WINDOW_SECONDS = 3600.0
_SLICES = 60
_MINUTE = 60.0


@dataclass
class _Usage:
    """Of one token: how many statements run, and the seconds used in each slice of the window."""

    counted_until: float
    running: int = 0
    seconds: float = 0.0
    slices: deque[tuple[int, float]] = field(default_factory=deque)

    def count(self, now: float) -> None:
        seconds = self.running * (now - self.counted_until)
        self.counted_until = now
        self.seconds += seconds
        current = _slice(now)
        if seconds:
            last = self.slices.pop()[1] if self.slices and self.slices[-1][0] == current else 0.0
            self.slices.append((current, last + seconds))
        while self.slices and self.slices[0][0] <= current - _SLICES:
            self.seconds -= self.slices.popleft()[1]

    def wait(self, now: float, at_most: float) -> float:
        """Seconds until less than `at_most` is used, if nothing runs meanwhile."""
        used = self.seconds
        for number, seconds in self.slices:
            used -= seconds
            if used < at_most:
                return (number + _SLICES) * _WINDOW_SECONDS / _SLICES - now
        return 0.0


def _slice(now: float) -> int:
    return int(now * _SLICES / _WINDOW_SECONDS)


class TimeQuota:
    def __init__(self, seconds: float | None) -> None:
        """None: as much as there is."""
        self.seconds = seconds
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        self._of: dict[str, _Usage] = {}

    @contextmanager
    def counted(self, owner: str) -> Iterator[None]:
        """The time of the block; raises LimitExceeded at once if none is left."""
        if self.seconds is None:
            yield
            return
        with self._lock:
            self.refuse_if_used_up(owner)
            self._usage(owner).running += 1
        try:
            yield
        finally:
            with self._lock:
                self._usage(owner).running -= 1

    def refuse_if_used_up(self, owner: str) -> None:
        error = self.error(owner)
        if error is not None:
            raise error

    def error(self, owner: str) -> LimitExceeded | None:
        """What statements of the token end with, if it has no time left."""
        if self.seconds is None:
            return None
        with self._lock:
            usage = self._usage(owner)
            if usage.seconds < self.seconds:
                return None
            wait = max(1.0, usage.wait(usage.counted_until, self.seconds))
        return LimitExceeded(
            f"the statements of token {owner!r} took {self.seconds:g} seconds within an hour, the "
            f"most one token may have; try again in {_shown(wait)}, or raise "
            "limits.statement_seconds_per_token"
        )

    def _usage(self, owner: str) -> _Usage:
        """Up to now."""
        now = time.monotonic()
        usage = self._of.setdefault(owner, _Usage(now))
        usage.count(now)
        return usage


def _shown(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < _MINUTE else f"{seconds / _MINUTE:.0f} min"
