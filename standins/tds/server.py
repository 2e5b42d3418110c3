"""The listening server: a thread for each connection, and one more that reads for it.

Where the wire is known to differ from SQL Server's: sessions are not recovered (the feature is not
acknowledged, a lost connection stays lost); no MARS, no federated logins, no TDS 8; one collation;
rows are never sent with a bitmap of NULLs; an ERROR is always of line 1; times have six digits.
"""

import contextlib
import itertools
import socket
import threading
from types import TracebackType
from typing import Self

from standins.tds.counters import Counters
from standins.tds.faults import Faults
from standins.tds.values import Engine
from standins.tds.wire.connection import Connection
from standins.tds.wire.link import Link
from standins.tds.wire.prelogin import Encryption

_FIRST_SPID = 51  # the lower ones are SQL Server's own
_BACKLOG = 128


class Server:
    """On 127.0.0.1; started and stopped by `with`, or by hand."""

    def __init__(
        self, engine: Engine, port: int = 0, encryption: Encryption = Encryption.LOGIN
    ) -> None:
        self.faults, self.counters = Faults(), Counters()
        self._engine, self._port, self._encryption = engine, port, encryption
        self._socket: socket.socket | None = None
        self._accepting: threading.Thread | None = None
        self._lock = threading.Lock()
        self._open: dict[Connection, threading.Thread] = {}
        self._spids = itertools.count(_FIRST_SPID)

    @property
    def port(self) -> int:
        return self._port

    @property
    def connections(self) -> int:
        """Those that are open now."""
        with self._lock:
            return len(self._open)

    def start(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", self._port), backlog=_BACKLOG)
        self._port = self._socket.getsockname()[1]
        listening = self._socket
        run = threading.Thread(
            target=self._accept, args=(listening,), name="tds-accept", daemon=True
        )
        self._accepting = run
        run.start()
        return self

    def stop(self) -> None:
        """Every connection ends, and what it had not committed is undone."""
        if self._socket is None or self._accepting is None:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._socket.close()
        self._socket = None
        with self._lock:
            running = dict(self._open)
        for connection in running:
            connection.stop()
        for thread in running.values():
            thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            self.counters.add(connections=1)
            link = Link(sock)
            spid = next(self._spids)
            connection = Connection(
                link, self._engine, self._encryption, self.faults, self.counters, spid
            )
            run = threading.Thread(
                target=self._serve, args=(connection,), name=f"tds-{spid}", daemon=True
            )
            with self._lock:
                self._open[connection] = run
            run.start()

    def _serve(self, connection: Connection) -> None:
        try:
            connection.run()
        finally:
            with self._lock:
                self._open.pop(connection, None)
