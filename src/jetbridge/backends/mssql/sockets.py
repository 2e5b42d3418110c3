"""The sockets of the driver's core, which has no way to interrupt a statement: they are cut.

The driver tells nobody which socket a connection has. So each asks for keep-alive probes after
another time, and by that its socket is found among all of the process.
"""

import contextlib
import os
import socket
import stat
import threading
import weakref

# Seconds until the first probe; the driver's own are 30. Firewalls forget what is silent for 240.
_free = list(range(31, 231))
_lock = threading.Lock()
_IDLE = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))
_OPEN_FILES = "/dev/fd"


class CoreSocket:
    """Made before the connection, which is given `options`; then `find` looks for it."""

    def __init__(self) -> None:
        with _lock:
            self._seconds = _free.pop(0) if _free else None
        self._file: int | None = None
        self._end = weakref.finalize(self, _release, self._seconds, None)

    def options(self) -> dict[str, int]:
        return {} if self._seconds is None else {"keep_alive": 1000 * self._seconds}

    def find(self) -> None:
        """A copy of the descriptor: its number may soon be another socket's."""
        if self._seconds is None or _IDLE is None:
            return
        files = [file for file in _open_files() if _keeps_alive(file) == self._seconds]
        if len(files) == 1:
            with contextlib.suppress(OSError):
                self._file = os.dup(files[0])
        self._end.detach()
        self._end = weakref.finalize(self, _release, self._seconds, self._file)

    def cut(self) -> None:
        """From another thread: the statement fails at once, and the server undoes it."""
        if self._file is not None:
            with _copied(self._file) as copy:
                copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """The server sees the end of the connection when the driver has closed it, too."""
        self._file = None
        self._end()


def _release(seconds: int | None, file: int | None) -> None:
    if file is not None:
        os.close(file)
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
            return copy.getsockopt(socket.IPPROTO_TCP, _IDLE or 0)
    except OSError:
        return None
