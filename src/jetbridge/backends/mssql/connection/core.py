"""Runs bulk loads and SQL text on a connection of the driver's core.

Its errors have numbers. It abandons a statement after 30 seconds, whatever timeout is set, and
cannot be interrupted: cancelling cuts its socket, and SQL Server rolls back what the connection has
not committed.
"""

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import mssql_py_core
import pyarrow as pa

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.opening import translate_refusal
from jetbridge.backends.mssql.connection.sql_connection import DriverSocket, SqlConnection
from jetbridge.backends.mssql.errors import (
    driver_timeout,
    is_driver_timeout,
    load_error,
    number_of,
    translate_error,
)
from jetbridge.runtime.cancellation import current, within

_DECIMAL_BYTES = 16
# Connections that were not closed. The core panics if the garbage collector drops a connection
# while it reads rows for a load. So they stay here until the next connection opens.
_unclosed: list[Any] = []


class CoreConnection(SqlConnection):
    """Run bulk loads, and the statements around them, on one connection of the core."""

    def __init__(self, address: Address, driver_socket: DriverSocket | None = None) -> None:
        _unclosed.clear()
        self._socket = driver_socket or DriverSocket(address.host_and_port())
        options = {**address.for_core(), **self._socket.for_core()}
        try:
            self._connection: Any = mssql_py_core.PyCoreConnection(options)
        except RuntimeError as error:
            raise translate_refusal(address, error) from error
        self._socket.find()
        self._cursor: Any = self._connection.cursor()
        finalizer = weakref.finalize(self, _unclosed.append, (self._connection, self._cursor))
        finalizer.atexit = False
        self._detach_finalizer = finalizer.detach

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with current().on_cancel(self._socket.cut):
                self._cursor.execute(sql)
                return [tuple(row) for row in self._cursor.fetchall() or ()]
        except RuntimeError as error:
            if is_driver_timeout(error):
                raise driver_timeout(error) from error
            raise translate_error(error, number_of(error)) from error

    def load(
        self,
        table: str,
        batches: pa.RecordBatchReader,
        columns: Sequence[str],
        *,
        lock: bool = False,
        identity: bool = False,
    ) -> int:
        """Load by bulk copy, with triggers, NOT NULL and CHECK as for INSERT.

        Call it in a transaction only: if `batches` fails, the driver keeps the rows that it has
        sent and reports nothing.
        """
        source = _RowSource(batches.schema, within(current(), batches))
        try:
            with current().on_cancel(self._socket.cut):
                report = self._cursor.bulkcopy_arrow(
                    table,
                    source.reader(),
                    timeout=0,
                    column_mappings=list(columns),
                    check_constraints=True,
                    keep_nulls=True,
                    keep_identity=identity,
                    fire_triggers=True,
                    table_lock=lock,
                )
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            if source.error is not None:  # the driver would wrap it in a traceback
                raise source.error from None
            raise load_error(error) from error
        return int(report["rows_copied"])

    def close(self) -> None:
        """Drop the driver's objects at once, because an error may keep this object alive."""
        self._detach_finalizer()
        with suppress(RuntimeError):
            self._connection.close()
        self._socket.close()
        self._connection = self._cursor = _Closed()


class _Closed:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("the connection is closed")


class _RowSource:
    """Supply batches to the driver, and keep the error that was raised while producing them."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self._schema, self._batches = schema, batches
        self.error: Exception | None = None

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._align_batches())

    def _align_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                yield align(batch)
        except Exception as error:
            self.error = error
            raise


def align(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy decimals whose address is not a multiple of 16, at which the driver panics.

    Arrow files have such addresses.
    """
    arrays = [
        pa.concat_arrays([array, array.slice(0, 0)]) if _is_unaligned(array) else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _is_unaligned(array: pa.Array) -> bool:
    if not pa.types.is_decimal128(array.type):
        return False
    values = array.buffers()[1]
    return values is not None and values.address % _DECIMAL_BYTES != 0
