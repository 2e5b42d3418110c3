"""Starts and ends the processes in which statements of clients run."""

import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from jetbridge.errors import Unavailable

log = logging.getLogger(__name__)

_MODULE = "jetbridge.duckdb_engine.child.fork_server"
_MESSAGE_BYTES = 64
# A killed process gives back its memory first.
_END_SECONDS = 10.0
# It imports DuckDB first.
_START_SECONDS = 60.0
# Nothing else of the server's environment, which may hold passwords.
_KEPT = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"),
)
# For object stores, unless they hold a password.
_PROXIES = frozenset(["http_proxy", "https_proxy", "no_proxy"])
# One thread until it forks: others do not survive a fork.
_SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class ChildProcess:
    """Hold one process and the channel to it. `kill` may come from any thread."""

    def __init__(self, handle: int, channel: socket.socket) -> None:
        self.channel = channel
        self._handle = handle
        self._lock = threading.Lock()

    def kill(self) -> None:
        """End the process at once; does nothing if it has ended."""
        with self._lock, suppress(ProcessLookupError):
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        """End the process, and return when the system has freed what it had."""
        self.kill()
        self.channel.close()
        with self._lock:
            handle, self._handle = self._handle, -1
        if handle < 0:
            return
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        if not ended.poll(_END_SECONDS * 1000):
            log.warning("a killed process of run has not ended after %s s", _END_SECONDS)
        os.close(handle)


class StatementProcesses:
    """Start a process for each session of a client.

    They are forks of one process that has imported DuckDB, which starts with the first one or with
    `start`. All of them end when the server ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def start(self) -> None:
        """Start the process that forks, so that the first session need not wait for it."""
        with self._lock, suppress(OSError, Unavailable):  # the first session raises it
            self._connected()

    def open(self, memory_bytes: int) -> ChildProcess:
        """Start a process that may take so much memory; raise Unavailable if it cannot start."""
        ours, theirs = socket.socketpair()
        try:
            with self._lock, theirs:
                handle = self._fork(memory_bytes, theirs)
        except BaseException:
            ours.close()
            raise
        return ChildProcess(handle, ours)

    def __enter__(self) -> "StatementProcesses":
        """Return the processes; the end of the block closes them."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        self.close()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            self._end()

    def _fork(self, memory_bytes: int, channel: socket.socket) -> int:
        """Return a handle of a new process; if the one that forks has ended, start another."""
        reason = ""
        for _ in range(2):
            try:
                control = self._connected()
                socket.send_fds(control, [b"%d" % memory_bytes], [channel.fileno()])
                answer, files, _, _ = socket.recv_fds(
                    control, _MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC
                )
            except OSError as error:
                answer, files, reason = b"", [], error.strerror or str(error)
            if files:
                return files[0]
            if answer:
                reason = answer.decode(errors="replace")
                break
            self._end()
        raise Unavailable(
            f"the process of the statement cannot be started ({reason or 'it has ended'}); try "
            "again later, or read the log of the server"
        )

    def _connected(self) -> socket.socket:
        if self._closed:
            raise Unavailable("the server stops and runs no statements; try again later")
        if self._control is None:
            control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            control.settimeout(_START_SECONDS)
            with theirs:
                self._server = _start(theirs)
            self._control = control
        return self._control

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None


def _start(control: socket.socket) -> "subprocess.Popen[bytes]":
    # The code and the variables are the server's own.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-s", "-P", "-m", _MODULE],
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        env=_environment(os.environ),
        cwd="/",
        start_new_session=True,
        umask=0o077,
    )


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: environment[name] for name in _KEPT if name in environment}
    for name, value in environment.items():
        if name.lower() in _PROXIES and "@" not in value:
            kept[name] = value
    paths = [os.path.abspath(path) for path in sys.path if path]
    return {**kept, **_SINGLE_THREADED, "PYTHONPATH": os.pathsep.join(paths)}
