"""Defines what the connections of both halves of the driver have in common, and cuts their sockets.

The driver can neither interrupt a statement nor expose the socket of a connection. So each
connection requests keep-alive probes after another number of seconds, which identifies its socket
among those of this process.
"""

import os
import socket
import stat
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any

from jetbridge.errors import ServerError
from jetbridge.runtime.cancellation import current, shield

HostAndPort = tuple[str, int]
# The local and the remote address.
_Ends = tuple[Any, Any]
# Seconds until the first probe. The driver's default is 30, firewalls drop connections that are
# silent for 240, and other clients of the process use round numbers. The garbage collector appends,
# too, so this is a deque, which needs no lock.
_free = deque(seconds for seconds in range(31, 231) if seconds % 10 and seconds % 15)
_IDLE = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", 0))
_OPEN_FILES = "/dev/fd"


class DriverSocket:
    """Find and cut the socket of one connection. Several threads may use it at once.

    It is created before the connection. `server` is the server's host and port, if known.
    """

    def __init__(self, server: HostAndPort | None = None) -> None:
        self._server = server
        self._seconds: int | None = None
        with suppress(IndexError):
            self._seconds = _free.popleft()
        # A copy of the descriptor: the driver's number may soon belong to another socket.
        self._copies: list[socket.socket] = []
        self._lock = threading.Lock()
        self._release = weakref.finalize(self, _release, self._seconds, self._copies)
        self.was_cut = False

    def for_odbc(self) -> str:
        return "" if self._seconds is None else f";KeepAlive={self._seconds}"

    def for_core(self) -> dict[str, Any]:
        return {} if self._seconds is None else {"keep_alive": 1000 * self._seconds}

    def find(self, *, connected: bool = True) -> None:
        """Find the socket, which `cut` needs.

        Before the driver has `connected`, only a socket to the server itself is certain. Afterwards
        the socket may lead to another host, to which the server has redirected the driver.
        """
        with self._lock:
            if self._copies or self._seconds is None or not self._release.alive:
                return
            marked = _find_marked_sockets(self._seconds)
            likely = list(marked)
            if not connected or len(likely) > 1:
                likely = [ends for ends in marked if self._leads_to_server(ends[1])]
            for ends, copy in marked.items():
                if likely == [ends]:
                    self._copies.append(copy)
                else:
                    copy.close()

    def _leads_to_server(self, peer: Any) -> bool:
        if self._server is None:
            return True
        host, port = self._server
        return bool(peer[1] == port) and _may_be(peer[0], host)

    def cut(self) -> None:
        """End all waits for the server at once; the server rolls back."""
        with self._lock:
            self.was_cut = True
            for copy in self._copies:
                with suppress(OSError):  # already closed
                    copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the copy. The server sees the end when the driver has closed its own, too."""
        with self._lock:
            self._release()


def _release(seconds: int | None, copies: list[socket.socket]) -> None:
    while copies:
        copies.pop().close()
    if seconds is not None:
        _free.append(seconds)


def _find_marked_sockets(seconds: int) -> dict[_Ends, socket.socket]:
    """Return copies of the connected sockets that probe after `seconds`.

    The copy is checked, because the descriptor may belong to another socket a moment later.
    """
    marked: dict[_Ends, socket.socket] = {}
    for file in _open_files():
        copy = _copy_socket(file)
        if copy is None:
            continue
        ends = _ends(copy) if _keeps_alive(copy) == seconds else None
        if ends is None or ends in marked:
            copy.close()
        else:
            marked[ends] = copy
    return marked


def _open_files() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_OPEN_FILES) if name.isdecimal()]
    except OSError:
        return []


def _copy_socket(file: int) -> socket.socket | None:
    """Return a copy of a file descriptor as a socket; None if it is not a socket."""
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
    """Return the seconds until the first probe; None if the socket does not probe."""
    try:
        if not copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
            return None
        return copy.getsockopt(socket.IPPROTO_TCP, _IDLE)
    except OSError:
        return None


def _ends(copy: socket.socket) -> _Ends | None:
    """Return both addresses; None if the socket is not connected."""
    try:
        return copy.getsockname(), copy.getpeername()
    except OSError:
        return None


def _may_be(host: str, name: str) -> bool:
    """Return whether a socket to `host` may lead to the server, whose name may be any address."""
    try:
        expected = ip_address(name)
    except ValueError:
        return True
    address = ip_address(host.partition("%")[0])
    return expected in (address, getattr(address, "ipv4_mapped", None))


class SqlConnection(ABC):
    """Run SQL text on one connection. `last_used` is the time at which the pool got it back."""

    _socket: DriverSocket
    last_used = 0.0

    def was_cut(self) -> bool:
        """Return whether a cancellation has cut the connection."""
        return self._socket.was_cut

    @abstractmethod
    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the first result that has columns."""

    @abstractmethod
    def close(self) -> None: ...

    def answers(self) -> bool:
        """Return whether the server still answers a query."""
        try:
            self.run("SELECT 1")
        except ServerError:
            return False
        return True

    @contextmanager
    def transaction(self, committing: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Run the block in a transaction: all of it or nothing.

        `committing` is called when nothing can prevent COMMIT any more, not even a cancellation.
        BEGIN and COMMIT are SQL text, because the core's own commit() and rollback() send nothing.
        """
        self.run("SET XACT_ABORT ON; BEGIN TRANSACTION")
        try:
            yield
            current().check()
        except BaseException:
            with suppress(ServerError), shield():
                self.run("IF @@TRANCOUNT > 0 ROLLBACK")
            raise
        with current().publishing():
            committing()
            self.run("COMMIT")
