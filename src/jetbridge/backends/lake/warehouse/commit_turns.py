"""Lets the servers on one warehouse commit to a table in turn.

Of several commits at the same moment Iceberg lets one win, and the others try again. With that
alone, a server with many writers leaves no moment for another one. So each server takes two locks:
first `next`, then `now`, and releases `next` when it has `now`. A server that has committed finds
`next` held by a server that waits.

The locks are for fairness only: a server that waits too long goes on without them, and the commit
itself decides. They end with their process, and an object store has none. On Linux they belong to
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
# How long a server waits for its turn, and how often it tries the lock.
_MOST_SECONDS = 10.0
_POLL_SECONDS = 0.005
# Each table has two bytes of the file; a byte beyond its end can be locked, too.
_TABLES = 2**60
# https://man7.org/linux/man-pages/man2/fcntl.2.html, struct flock: type, whence, start, length, and
# a process, which is 0 for locks of an open file.
_FLOCK = struct.Struct("@hhqqi0q")
_random = random.SystemRandom()


class CommitTurns:
    """Take turns for one server; the tables of a warehouse share one file."""

    def __init__(self, warehouse: str) -> None:
        root = local_path(warehouse)
        self._path = None if root is None else Path(root) / FILE
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._held: set[str] = set()

    @contextmanager
    def turn(self, identity: str) -> Iterator[None]:
        """Keep other servers from committing to the table until the block ends.

        One thread at a time may do so for each table. A turn inside a turn is the same one.
        """
        with ExitStack() as stack:
            if identity not in self._held and self._open():
                self._held.add(identity)
                stack.callback(self._held.discard, identity)
                end = time.monotonic() + _MOST_SECONDS
                byte = 2 * (int(hashlib.sha256(identity.encode()).hexdigest(), 16) % _TABLES)
                with ExitStack() as waiting:
                    if self._wait(byte, end, waiting):
                        self._wait(byte + 1, end, stack)
            yield

    def close(self) -> None:
        """Close the file, which releases the locks."""
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

    def _wait(self, byte: int, end: float, stack: ExitStack) -> bool:
        """Return whether the lock was taken in time; the stack releases it."""
        while True:
            is_taken = self._try(byte)
            if is_taken is None:
                return False
            if is_taken:
                stack.callback(self._release, byte)
                return True
            if time.monotonic() >= end:
                return False
            current().wait(_POLL_SECONDS * (0.5 + _random.random()))

    def _try(self, byte: int) -> bool | None:
        """Return whether the lock was taken; None where there are no locks."""
        # With the lock, so that `close` does not give the number to another file meanwhile.
        with self._lock:
            if self._descriptor is None:
                return None
            try:
                _lock_byte(self._descriptor, byte)
            except BlockingIOError:
                return False
            except OSError:
                return None
            return True

    def _release(self, byte: int) -> None:
        """Release the lock; never fails, because the commit of this turn is made."""
        with self._lock, suppress(OSError, TypeError):
            if self._descriptor is not None:
                _unlock_byte(self._descriptor, byte)


def _lock_byte(descriptor: int, byte: int) -> None:
    """Raise BlockingIOError if another one has the lock, another OSError where there are none."""
    if sys.platform == "linux":
        lock = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)


def _unlock_byte(descriptor: int, byte: int) -> None:
    if sys.platform == "linux":
        lock = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, byte, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, byte)


def pauses(first: float, longest: float) -> Iterator[float]:
    """Yield random pauses between attempts, on average twice as long each time."""
    most = first
    while True:
        yield _random.uniform(0, most)
        most = min(2 * most, longest)
