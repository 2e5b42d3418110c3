"""How many long calls may run at once.

An UPDATE holds a DoExchange while its own scan runs. Calls beyond a limit are refused, never
queued, and there are threads for all that is admitted: so no call waits for a thread that another
one holds.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jetbridge.errors import LimitExceeded


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
