"""The sockets of the driver's connections, to be cut where the driver has no way to interrupt.

The driver tells nobody which socket a connection has. So each asks for keep-alive probes after
another time, and by that its socket is found among all of the process.
"""

import os
import socket
import stat
import threading
import weakref
from collections import deque
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

Place = tuple[str, int]
# The addresses of both.
_Ends = tuple[Any, Any]
# Seconds until the first probe; the driver's own are 30. Firewalls forget what is silent for 240.
# Other clients of the process use round numbers. No lock: the garbage collector appends, too.
_free = deque(seconds for seconds in range(31, 231) if seconds % 10 and seconds % 15)
_IDLE = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", 0))
_OPEN_FILES = "/dev/fd"


class DriverSocket:
    """Made before the connection, whose options have its mark. Safe to use from several threads.

    `place`: host and port of the server, where they are known.
    """

    def __init__(self, place: Place | None = None) -> None:
        self._place = place
        self._seconds: int | None = None
        with suppress(IndexError):
            self._seconds = _free.popleft()
        # A copy of the descriptor: the number of the driver's may soon be another socket's.
        self._copies: list[socket.socket] = []
        self._lock = threading.Lock()
        self._release = weakref.finalize(self, _release, self._seconds, self._copies)
        self.was_cut = False

    def for_odbc(self) -> str:
        return "" if self._seconds is None else f";KeepAlive={self._seconds}"

    def for_core(self) -> dict[str, Any]:
        return {} if self._seconds is None else {"keep_alive": 1000 * self._seconds}

    def find(self, *, connected: bool = True) -> None:
        """As soon as the driver connects; without it there is nothing to cut.

        `connected`: the driver has its socket. It may lead elsewhere, where the server says so;
        until then a socket with the same mark may be anybody's, unless it leads to the server.
        """
        with self._lock:
            if self._copies or self._seconds is None or not self._release.alive:
                return
            found = _marked(self._seconds)
            likely = list(found)
            if not connected or len(likely) > 1:
                likely = [ends for ends in found if self._leads_there(ends[1])]
            for ends, copy in found.items():
                if likely == [ends]:
                    self._copies.append(copy)
                else:
                    copy.close()

    def _leads_there(self, peer: Any) -> bool:
        if self._place is None:
            return True
        host, port = self._place
        return bool(peer[1] == port) and _may_be(peer[0], host)

    def cut(self) -> None:
        """What waits for the server fails at once, and the server undoes it."""
        with self._lock:
            self.was_cut = True
            for copy in self._copies:
                with suppress(OSError):  # it has ended by itself
                    copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """The server sees the end of the connection when the driver has closed it, too."""
        with self._lock:
            self._release()


def _release(seconds: int | None, copies: list[socket.socket]) -> None:
    while copies:
        copies.pop().close()
    if seconds is not None:
        _free.append(seconds)


def _marked(seconds: int) -> dict[_Ends, socket.socket]:
    """Copies of the connected ones that probe after so many seconds, one for each connection.

    What is checked is the copy: the number may be another socket's a moment later.
    """
    found: dict[_Ends, socket.socket] = {}
    for file in _open_files():
        copy = _copied(file)
        if copy is None:
            continue
        ends = _ends(copy) if _keeps_alive(copy) == seconds else None
        if ends is None or ends in found:
            copy.close()
        else:
            found[ends] = copy
    return found


def _open_files() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_OPEN_FILES) if name.isdecimal()]
    except OSError:
        return []


def _copied(file: int) -> socket.socket | None:
    """None for what is no socket."""
    try:
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            return None
        copy = os.dup(file)
    except OSError:
        return None
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None


def _keeps_alive(copy: socket.socket) -> int | None:
    """After how many seconds it probes; None for what does not."""
    try:
        if not copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
            return None
        return copy.getsockopt(socket.IPPROTO_TCP, _IDLE)
    except OSError:
        return None


def _ends(copy: socket.socket) -> _Ends | None:
    """None for what is not connected."""
    try:
        return copy.getsockname(), copy.getpeername()
    except OSError:
        return None


def _may_be(host: str, name: str) -> bool:
    """Whether a socket to this address may lead to the server; only a name may be any address."""
    try:
        wanted = ip_address(name)
    except ValueError:
        return True
    given = ip_address(host.partition("%")[0])
    return wanted in (given, getattr(given, "ipv4_mapped", None))
