"""Servers on one warehouse commit to a table in turn.

Iceberg lets one of several commits at the same moment win, and the others try again. By that alone
a server with many writers leaves another one no moment to commit in. So each takes two locks: first
`next`, then `now`, and gives `next` back when it has `now`. Whoever has committed finds `next` in
the hands of a server that waits.

The locks are for fairness alone: whoever waits for long goes on without, and only the commit itself
decides. They end with their process, and there are none in an object store. On Linux they belong to
the open file, so two lakes of one process take turns as two servers do; elsewhere to the process.
"""

import fcntl
import hashlib
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from jetbridge.backends.lake.files import local_path
from jetbridge.runtime.cancellation import current

FILE = ".jetbridge/servers/turns.lock"
# How long a turn is waited for, and how often it is looked for.
_MOST_SECONDS = 10.0
_LOOK_SECONDS = 0.005
# Each table has two bytes of the file, which need not be there to be locked.
_PLACES = 2**60
# https://man7.org/linux/man-pages/man2/fcntl.2.html, struct flock: type, whence, start, length, and
# a process, which is 0 for locks of an open file.
_FLOCK = struct.Struct("@hhqqi0q")
_random = random.SystemRandom()


class CommitTurns:
    """Of one server; the tables of a warehouse share one file."""

    def __init__(self, warehouse: str) -> None:
        root = local_path(warehouse)
        self._path = None if root is None else Path(root) / FILE
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._held: set[str] = set()

    @contextmanager
    def turn(self, identity: str) -> Iterator[None]:
        """Until the block ends, other servers leave the table to this one.

        For one thread at a time for each table. A turn inside a turn is the same one.
        """
        with ExitStack() as stack:
            if identity not in self._held and self._open():
                self._held.add(identity)
                stack.callback(self._held.discard, identity)
                end = time.monotonic() + _MOST_SECONDS
                place = 2 * (int(hashlib.sha256(identity.encode()).hexdigest(), 16) % _PLACES)
                with ExitStack() as waiting:
                    if self._wait(place, end, waiting):
                        self._wait(place + 1, end, stack)
            yield

    def close(self) -> None:
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)

    def _open(self) -> bool:
        with self._lock:
            if self._descriptor is None and self._path is not None:
                try:
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
                except OSError:  # a full or read-only disk: the commit will say so
                    return False
            return self._descriptor is not None

    def _wait(self, place: int, end: float, stack: ExitStack) -> bool:
        """Whether the lock was had in time; the stack gives it back."""
        while True:
            taken = self._try(place)
            if taken is None:
                return False
            if taken:
                stack.callback(self._release, place)
                return True
            if time.monotonic() >= end:
                return False
            current().wait(_LOOK_SECONDS * (0.5 + _random.random()))

    def _try(self, place: int) -> bool | None:
        """None where there are no locks."""
        # With the lock, so that `close` does not give the number to another file meanwhile.
        with self._lock:
            if self._descriptor is None:
                return None
            try:
                _lock_byte(self._descriptor, place)
            except BlockingIOError:
                return False
            except OSError:
                return None
            return True

    def _release(self, place: int) -> None:
        """Never fails: the commit that the turn was for is made."""
        with self._lock, suppress(OSError, TypeError):
            if self._descriptor is not None:
                _unlock_byte(self._descriptor, place)


def _lock_byte(descriptor: int, place: int) -> None:
    """Raises BlockingIOError if someone has it, another OSError where there are no locks."""
    if sys.platform == "linux":
        lock = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)


def _unlock_byte(descriptor: int, place: int) -> None:
    if sys.platform == "linux":
        lock = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, place, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)


def pauses(first: float, longest: float) -> Iterator[float]:
    """Between tries: up to twice as long each time, and never as long as somebody else's."""
    most = first
    while True:
        yield _random.uniform(0, most)
        most = min(2 * most, longest)
