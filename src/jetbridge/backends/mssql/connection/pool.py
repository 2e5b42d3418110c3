"""Keeps connections to one database: those of the driver's ODBC half, and those of its core.

Statements with parameters, streams, and statements that may take longer than 30 seconds run on an
ODBC connection; bulk loads run on a core connection. Both are kept and reused, because opening one
may take a second.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import mssql_python

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.odbc import OdbcConnection
from jetbridge.backends.mssql.connection.opening import check_listening, connect_in_thread
from jetbridge.backends.mssql.connection.sql_connection import DriverSocket
from jetbridge.backends.mssql.errors import was_connecting
from jetbridge.dialects.tsql import statements
from jetbridge.errors import Unavailable
from jetbridge.runtime.cancellation import current

_MAX_IDLE = 8
# A connection that was idle for longer is checked by a query before it is used again.
_FRESH_SECONDS = 5.0
_Connection = TypeVar("_Connection", OdbcConnection, CoreConnection)
_T = TypeVar("_T")


class ConnectionPool:
    """Lend connections to one database.

    Several threads may use a pool at once; a borrowed connection belongs to one thread.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        # The driver's own pool sends an additional batch to reset each connection.
        mssql_python.pooling(enabled=False)
        self._odbc: list[OdbcConnection] = []
        self._core: list[CoreConnection] = []
        self._lock = threading.Lock()
        self._babelfish: bool | None = None
        # Set when the first connection is open.
        self.reached = threading.Event()

    def is_babelfish(self) -> bool:
        """Return whether the server is Babelfish, which lacks some T-SQL. Queries it only once."""
        if self._babelfish is None:
            self._babelfish = self.query(statements.BABELFISH) == [(1,)]
        return self._babelfish

    @contextmanager
    def borrow_odbc(self) -> Iterator[OdbcConnection]:
        """Lend an ODBC connection to the block."""
        with self._borrow(self._odbc, OdbcConnection) as connection:
            yield connection

    @contextmanager
    def borrow_core(self) -> Iterator[CoreConnection]:
        """Lend a core connection to the block."""
        with self._borrow(self._core, CoreConnection) as connection:
            yield connection

    @contextmanager
    def _borrow(
        self, idle: list[_Connection], connection_class: type[_Connection]
    ) -> Iterator[_Connection]:
        """Lend a connection, and close it if the block fails: its state is unknown then."""
        connection = self._take(idle) or self._open(connection_class)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        connection.last_used = time.monotonic()
        # Its last answer may have arrived just before a cancellation cut it.
        if not connection.was_cut() and current().error() is None:
            with self._lock:
                if len(idle) < _MAX_IDLE:
                    idle.append(connection)
                    return
        connection.close()

    def _open(self, connection_class: type[_Connection]) -> _Connection:
        def open_one(address: Address, driver_socket: DriverSocket) -> _Connection:
            if not self.reached.is_set():
                check_listening(address)
            return connection_class(address, driver_socket)

        connection = connect_in_thread(self.address, open_one)
        self.reached.set()
        return connection

    def _take(self, idle: list[_Connection]) -> _Connection | None:
        """Return an idle connection that still works, or None."""
        while True:
            with self._lock:
                connection = idle.pop() if idle else None
            if connection is None:
                return None
            if time.monotonic() - connection.last_used < _FRESH_SECONDS or connection.answers():
                return connection
            connection.close()

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query that changes nothing."""
        return self.run_read(lambda connection: connection.rows(sql, *parameters))

    def run_read(self, work: Callable[[OdbcConnection], _T]) -> _T:
        """Run `work`, which must not change anything; again if its connection was lost."""
        try:
            with self.borrow_odbc() as connection:
                return work(connection)
        except Unavailable as error:
            if was_connecting(error):
                raise
            with self.borrow_odbc() as connection:
                return work(connection)

    def close(self) -> None:
        with self._lock:
            idle: list[OdbcConnection | CoreConnection] = [*self._odbc, *self._core]
            self._odbc.clear()
            self._core.clear()
        for connection in idle:
            connection.close()


@cache
def worker_pool(address: Address) -> ConnectionPool:
    """Return the pool of a Spark worker for an address; it lasts as long as the worker."""
    return ConnectionPool(address)
