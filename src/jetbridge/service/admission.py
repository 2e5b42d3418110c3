"""How many long calls may run at once, and that none begins once the server stops.

An UPDATE holds a DoExchange while its own scan runs. Calls beyond a limit are refused, never
queued, and there are threads for all that is admitted: so no call waits for a thread that another
one holds.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jetbridge.errors import LimitExceeded, Unavailable


class Gate:
    def __init__(self, what: str, at_most: int) -> None:
        self._what, self._at_most = what, at_most
        self._free = threading.BoundedSemaphore(at_most)

    @contextmanager
    def entered(self) -> Iterator[None]:
        if not self._free.acquire(blocking=False):
            raise LimitExceeded(
                f"{self._at_most} {self._what} are running, the most this server takes; "
                "try again, or raise the limit in its configuration"
            )
        try:
            yield
        finally:
            self._free.release()


class Door:
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
