"""Runs queries with parameters on the driver's ODBC half, and streams results as Arrow.

A statement may take any time. Cancelling it sends SQL Server an attention.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import mssql_python
import pyarrow as pa

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.opening import find_reason, translate_refusal
from jetbridge.backends.mssql.connection.sql_connection import DriverSocket, SqlConnection
from jetbridge.backends.mssql.errors import UNKNOWN_NUMBER, translate_error
from jetbridge.errors import ServerError
from jetbridge.runtime.cancellation import current

# How long to wait for the answer to an attention before the socket is cut.
_ATTENTION_SECONDS = 2.0
_BATCH_ROWS = 65_536
_LAST_ERROR = "SELECT @@ERROR"


class OdbcConnection(SqlConnection):
    """Run SQL on one ODBC connection. Outside of `transaction`, each statement commits itself."""

    def __init__(self, address: Address, driver_socket: DriverSocket | None = None) -> None:
        self._socket = driver_socket or DriverSocket(address.host_and_port())
        marked = address.for_odbc() + self._socket.for_odbc()
        try:
            self._connection = mssql_python.connect(marked, autocommit=True)
        except (mssql_python.Error, RuntimeError) as error:
            raise translate_refusal(address, find_reason(address, error)) from error
        self._socket.find()

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return all rows in memory: for catalog views, not for tables."""
        with self._cursor() as cursor:
            cursor.execute(sql, *parameters)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] | None = None
        with self._cursor() as cursor:
            cursor.execute(sql)
            while True:
                if cursor.description and rows is None:
                    rows = [tuple(row) for row in cursor.fetchall()]
                if not cursor.nextset():  # raises the error of a later statement
                    return rows or []

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[pa.RecordBatch]:
        """Yield batches as they arrive. Closing the iterator cancels the query on the server."""
        with self._cursor() as cursor:
            cursor.execute(sql, *parameters)
            yield from cursor.arrow_reader(_BATCH_ROWS)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Open a cursor for one statement. A cancellation sends the server an attention."""
        cursor = self._connection.cursor()
        try:
            with (
                _Attention(cursor, self._socket) as attention,
                current().on_cancel(attention.send),
            ):
                yield cursor
        except mssql_python.Error as error:
            raise self._translate(error) from error
        finally:
            cursor.close()

    def _translate(self, error: BaseException) -> ServerError:
        """Return the error with its number, which the driver drops and the session still has.

        The session keeps the number of its last statement only.
        """
        number = None
        with suppress(mssql_python.Error), self._connection.cursor() as cursor:
            (number,) = cursor.execute(_LAST_ERROR).fetchone() or (None,)
        return translate_error(error, UNKNOWN_NUMBER if number == 0 else number)

    def close(self) -> None:
        with suppress(mssql_python.Error):
            self._connection.close()
        self._socket.close()


class _Attention:
    """Ask the server to end a statement, and cut the socket if it does not answer."""

    def __init__(self, cursor: mssql_python.Cursor, driver_socket: DriverSocket) -> None:
        self._cursor, self._socket = cursor, driver_socket
        self._timer: threading.Timer | None = None

    def __enter__(self) -> "_Attention":
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            # The timer may be cutting the socket at this moment: wait, so that the pool sees it.
            if self._timer is not threading.current_thread():
                self._timer.join()

    def send(self) -> None:
        """Send the attention. The driver may block here until the server answers."""
        if self._timer is None:
            self._timer = threading.Timer(_ATTENTION_SECONDS, self._socket.cut)
            self._timer.daemon = True
            self._timer.start()
        if self._cursor.hstmt is not None:
            # ODBC's SQLCancel, which the driver's cursors have no method for.
            self._cursor.hstmt._cancel()  # noqa: SLF001
