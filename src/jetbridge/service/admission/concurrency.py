"""Limits how many calls run at once, in total and per token, and closes the server to new ones.

An UPDATE holds a DoExchange while its own scan runs. Calls above a limit are refused, never
queued, and the server has a thread for every admitted call. So no call waits for a thread that
another one holds.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jetbridge.errors import LimitExceeded, Unavailable


class ConcurrencyLimit:
    """Refuse calls above a limit, and above the share of one token.

    `plural` is the name of the calls in messages and in the keys of the configuration.
    """

    def __init__(self, plural: str, at_most: int, share: int | None = None) -> None:
        self._plural, self._at_most, self._share = plural, at_most, share
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        self._running = 0
        self._running_by_owner: Counter[str] = Counter()

    @contextmanager
    def enter(self, owner: str = "") -> Iterator[None]:
        """Count a call of this owner while the block runs. Raises LimitExceeded."""
        with self._lock:
            self._refuse_if_full(owner)
            self._running += 1
            self._running_by_owner[owner] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._running_by_owner[owner] -= 1
                if not self._running_by_owner[owner]:
                    del self._running_by_owner[owner]

    def refuse_if_full(self, owner: str) -> None:
        """Raise LimitExceeded if another call of this owner would be refused now."""
        with self._lock:
            self._refuse_if_full(owner)

    def _refuse_if_full(self, owner: str) -> None:
        if self._share is not None and self._running_by_owner[owner] >= self._share:
            raise LimitExceeded(
                f"{self._share} {self._plural} of token {owner!r} are running, the limit of a "
                f"token; try again, or raise limits.{self._plural}_per_token"
            )
        if self._running >= self._at_most:
            raise LimitExceeded(
                f"{self._at_most} {self._plural} are running, the limit of this server; "
                "try again, or raise the limit in its configuration"
            )


class StagedBytes:
    """Limit the bytes that the running statements of one token have sent, taken together."""

    def __init__(self, at_most: int | None) -> None:
        self._at_most = at_most
        self._lock = threading.RLock()
        self._bytes_by_owner: Counter[str] = Counter()

    @contextmanager
    def count(self, owner: str) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts further bytes until the statement ends.

        The function raises LimitExceeded if the token then has more than its limit.
        """
        sent = 0

        def add(more: int) -> None:
            nonlocal sent
            with self._lock:
                total = self._bytes_by_owner[owner] + more
                if self._at_most is not None and total > self._at_most:
                    raise LimitExceeded(
                        f"the statements of token {owner!r} sent more than {self._at_most} bytes, "
                        "the most one token may stage; run fewer at once, or raise "
                        "limits.staged_bytes_per_token"
                    )
                self._bytes_by_owner[owner] = total
                sent += more

        try:
            yield add
        finally:
            with self._lock:
                self._bytes_by_owner[owner] -= sent
                if not self._bytes_by_owner[owner]:
                    del self._bytes_by_owner[owner]


class ShutdownGate:
    """Refuse new calls once the server stops, and wait for the running ones.

    gRPC's own stop can leave a call without any answer if it arrives at that moment.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._closed = False

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Count a call while the block runs. Raises Unavailable once the gate is closed."""
        with self._changed:
            if self._closed:
                raise Unavailable("the server is stopping; try again after its restart")
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Refuse new calls, and return when all running ones have ended or the time is over."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._running, seconds)
