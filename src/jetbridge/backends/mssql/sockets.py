"""The sockets of the driver's connections, to be cut where the driver has no way to interrupt.

The driver tells nobody which socket a connection has. So each asks for keep-alive probes after
another time, and by that its socket is found among all of the process.
"""

import os
import socket
import stat
import threading
import weakref
from contextlib import suppress
from typing import Any

# Seconds until the first probe; the driver's own are 30. Firewalls forget what is silent for 240.
_free = list(range(31, 231))
_lock = threading.Lock()
_IDLE = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", 0))
_OPEN_FILES = "/dev/fd"


class DriverSocket:
    """Made before the connection, whose options have its mark. Safe to use from several threads."""

    def __init__(self) -> None:
        with _lock:
            self._seconds = _free.pop(0) if _free else None
        # A copy of the descriptor: the number of the driver's may soon be another socket's.
        self._copies: list[int] = []
        self._lock = threading.Lock()
        self._release = weakref.finalize(self, _release, self._seconds, self._copies)

    def for_odbc(self) -> str:
        return "" if self._seconds is None else f";KeepAlive={self._seconds}"

    def for_core(self) -> dict[str, Any]:
        return {} if self._seconds is None else {"keep_alive": 1000 * self._seconds}

    def find(self) -> None:
        """As soon as the driver connects; without it there is nothing to cut."""
        with self._lock:
            if self._copies or self._seconds is None or not self._release.alive:
                return
            files = [file for file in _open_files() if _keeps_alive(file) == self._seconds]
            if len(files) == 1:
                with suppress(OSError):
                    self._copies.append(os.dup(files[0]))

    def cut(self) -> None:
        """What waits for the server fails at once, and the server undoes it."""
        with self._lock:
            for file in self._copies:
                with _copied(file) as copy:
                    copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """The server sees the end of the connection when the driver has closed it, too."""
        with self._lock:
            self._release()


def _release(seconds: int | None, copies: list[int]) -> None:
    while copies:
        os.close(copies.pop())
    if seconds is not None:
        with _lock:
            _free.append(seconds)


def _open_files() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_OPEN_FILES) if name.isdecimal()]
    except OSError:
        return []


def _copied(file: int) -> socket.socket:
    copy = os.dup(file)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _keeps_alive(file: int) -> int | None:
    """After how many seconds it probes; None for what is no such socket."""
    try:
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            return None
        with _copied(file) as copy:
            if not copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
                return None
            return copy.getsockopt(socket.IPPROTO_TCP, _IDLE)
    except OSError:
        return None
