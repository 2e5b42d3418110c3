"""How many calls may run at once, and of one token; and that none begins once the server stops.

An UPDATE holds a DoExchange while its own scan runs. Calls beyond a limit are refused, never
queued, and there are threads for all that is admitted: so no call waits for a thread that another
one holds.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jetbridge.errors import LimitExceeded, Unavailable


class ConcurrencyLimit:
    """`share`: how many of them one token may have, so that it never takes those of others."""

    def __init__(self, what: str, at_most: int, share: int | None = None) -> None:
        self._what, self._at_most, self._share = what, at_most, share
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        self._running = 0
        self._of: Counter[str] = Counter()

    @contextmanager
    def entered(self, owner: str = "") -> Iterator[None]:
        with self._lock:
            self._refuse_if_full(owner)
            self._running += 1
            self._of[owner] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._of[owner] -= 1
                if not self._of[owner]:
                    del self._of[owner]

    def refuse_if_full(self, owner: str) -> None:
        with self._lock:
            self._refuse_if_full(owner)

    def _refuse_if_full(self, owner: str) -> None:
        if self._share is not None and self._of[owner] >= self._share:
            raise LimitExceeded(
                f"{self._share} {self._what} of token {owner!r} are running, the most one token "
                f"may have; try again, or raise limits.{self._what}_per_token"
            )
        if self._running >= self._at_most:
            raise LimitExceeded(
                f"{self._at_most} {self._what} are running, the most this server takes; "
                "try again, or raise the limit in its configuration"
            )


class StagedBytes:
    """What the statements of each token that run have sent, together."""

    def __init__(self, at_most: int | None) -> None:
        self._at_most = at_most
        self._lock = threading.RLock()
        self._of: Counter[str] = Counter()

    @contextmanager
    def counted(self, owner: str) -> Iterator[Callable[[int], None]]:
        """Call it with the number of further bytes; they count until the statement ends."""
        sent = 0

        def add(more: int) -> None:
            nonlocal sent
            with self._lock:
                if self._at_most is not None and self._of[owner] + more > self._at_most:
                    raise LimitExceeded(
                        f"the statements of token {owner!r} sent more than {self._at_most} bytes, "
                        "the most one token may stage; run fewer at once, or raise "
                        "limits.staged_bytes_per_token"
                    )
                self._of[owner] += more
                sent += more

        try:
            yield add
        finally:
            with self._lock:
                self._of[owner] -= sent
                if not self._of[owner]:
                    del self._of[owner]


class ShutdownGate:
    """All calls go through it. Closed, it lets those inside finish and nobody in.

    gRPC's own way to stop can leave a call of that very moment without any answer.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        with self._changed:
            if self._closed:
                raise Unavailable("the server is stopping; try again when it is back")
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Returns when all have left, or after this time."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._inside, seconds)
