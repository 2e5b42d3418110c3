"""Connections to one database: those that ask, and those that load rows.

The driver has two halves. Its ODBC one runs queries with parameters and streams results as Arrow;
its other one, the core, runs texts and bulk loads on one connection, and its errors have numbers.
The core gives up a text after 30 seconds, whatever it is told, so what may take longer and needs
no bulk load goes to the other half. Both kinds are kept and used again, for a new one may take a
second.

A statement that is cancelled ends at once: the ODBC half sends SQL Server an attention. The core
cannot, so its socket is cut, and SQL Server undoes what the connection has not committed.
"""

import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import mssql_py_core
import mssql_python
import pyarrow as pa

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.opening import connected, knock, reason, refused
from jetbridge.backends.mssql.connection.sockets import DriverSocket
from jetbridge.backends.mssql.errors import (
    UNTOLD,
    given_up,
    is_given_up,
    not_loaded,
    number_of,
    translated,
    was_connecting,
)
from jetbridge.dialects.tsql import statements
from jetbridge.errors import ServerError, Unavailable
from jetbridge.runtime.cancellation import current, shielded, within

_MOST_KEPT = 8
# A connection that was left alone for longer is asked first whether it is still there.
_FRESH_SECONDS = 5.0
# Until a server that does not answer an attention is left.
_ATTENTION_SECONDS = 2.0
_BATCH_ROWS = 65_536
_ASK_NUMBER = "SELECT @@ERROR"
_DECIMAL_BYTES = 16
# Of connections that nobody has closed. The garbage collector may find one while the core asks
# for rows, and the core panics if another ends just then; so they wait until the next one begins.
_forgotten: list[Any] = []
_Kept = TypeVar("_Kept", "OdbcConnection", "CoreConnection")
_T = TypeVar("_T")


class ConnectionPool:
    """Safe to use from several threads; what is borrowed is not."""

    def __init__(self, address: Address) -> None:
        self.address = address
        # It keeps connections by itself, but resets them with a batch of its own each time.
        mssql_python.pooling(enabled=False)
        self._asking: list[OdbcConnection] = []
        self._loading: list[CoreConnection] = []
        self._lock = threading.Lock()
        self._babelfish: bool | None = None
        # Set when the first connection is there.
        self.reached = threading.Event()

    def is_babelfish(self) -> bool:
        """Whether it lacks some T-SQL, for it is not Microsoft's; asked once."""
        if self._babelfish is None:
            self._babelfish = self.ask(statements.BABELFISH) == [(1,)]
        return self._babelfish

    @contextmanager
    def asking(self) -> Iterator["OdbcConnection"]:
        with self._borrowed(self._asking, OdbcConnection) as found:
            yield found

    @contextmanager
    def loading(self) -> Iterator["CoreConnection"]:
        with self._borrowed(self._loading, CoreConnection) as found:
            yield found

    @contextmanager
    def _borrowed(self, kept: list[_Kept], make: type[_Kept]) -> Iterator[_Kept]:
        """Given back unless something went wrong: then nobody knows what state it is in."""
        found = self._kept(kept) or self._made(make)
        try:
            yield found
        except BaseException:
            found.close()
            raise
        found.used = time.monotonic()
        # Its last answer may have come just before a cancellation ended it.
        if not found.was_cut() and current().error() is None:
            with self._lock:
                if len(kept) < _MOST_KEPT:
                    kept.append(found)
                    return
        found.close()

    def _made(self, make: type[_Kept]) -> _Kept:
        def begin(address: Address, used: DriverSocket) -> _Kept:
            if not self.reached.is_set():
                knock(address)
            return make(address, used)

        made = connected(self.address, begin)
        self.reached.set()
        return made

    def _kept(self, kept: list[_Kept]) -> _Kept | None:
        """One that still works."""
        while True:
            with self._lock:
                found = kept.pop() if kept else None
            if found is None or time.monotonic() - found.used < _FRESH_SECONDS or found.answers():
                return found
            found.close()

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """All rows of a query that changes nothing."""
        return self.asked(lambda connection: connection.rows(sql, *parameters))

    def asked(self, work: Callable[["OdbcConnection"], _T]) -> _T:
        """What changes nothing; a connection that is gone is replaced once."""
        try:
            with self.asking() as connection:
                return work(connection)
        except Unavailable as error:
            if was_connecting(error):
                raise
            with self.asking() as connection:
                return work(connection)

    def close(self) -> None:
        with self._lock:
            rest: list[OdbcConnection | CoreConnection] = [*self._asking, *self._loading]
            self._asking.clear()
            self._loading.clear()
        for each in rest:
            each.close()


class SqlConnection(ABC):
    """A connection that runs texts: what both halves can do."""

    _socket: DriverSocket

    def was_cut(self) -> bool:
        return self._socket.was_cut

    @abstractmethod
    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of the first result that has columns; all constants stand in the text quoted."""

    @contextmanager
    def transaction(self, committing: Callable[[], None] = lambda: None) -> Iterator[None]:
        """All of the block or nothing; the core's own commit() and rollback() send nothing.

        Calls `committing` when nothing keeps it from COMMIT any more, not even a cancellation.
        """
        self.run("SET XACT_ABORT ON; BEGIN TRANSACTION")
        try:
            yield
            current().check()
        except BaseException:
            with suppress(ServerError), shielded():
                self.run("IF @@TRANCOUNT > 0 ROLLBACK")
            raise
        with current().publishing():
            committing()
            self.run("COMMIT")


class OdbcConnection(SqlConnection):
    """One connection of the ODBC half; outside of `transaction` every statement commits by itself.

    A statement may take as long as it likes.
    """

    used = 0.0

    def __init__(self, address: Address, used: DriverSocket | None = None) -> None:
        self._socket = used or DriverSocket(address.place())
        marked = address.for_odbc() + self._socket.for_odbc()
        try:
            self._connection = mssql_python.connect(marked, autocommit=True)
        except (mssql_python.Error, RuntimeError) as error:
            raise refused(address, reason(address, error)) from error
        self._socket.find()

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """All of them: for the catalog views, not for tables."""
        with self._cursor() as cursor:
            cursor.execute(sql, *parameters)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        told = False
        with self._cursor() as cursor:
            cursor.execute(sql)
            while True:
                if cursor.description and not told:
                    found, told = [tuple(row) for row in cursor.fetchall()], True
                if not cursor.nextset():  # what goes wrong in a later statement is raised here
                    return found

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[pa.RecordBatch]:
        """Batches as they arrive; closing the iterator cancels the query on the server."""
        with self._cursor() as cursor:
            cursor.execute(sql, *parameters)
            yield from cursor.arrow_reader(_BATCH_ROWS)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """For one statement, which a cancellation ends by an attention."""
        cursor = self._connection.cursor()
        try:
            with (
                _Attention(cursor, self._socket) as attention,
                current().on_cancel(attention.send),
            ):
                yield cursor
        except mssql_python.Error as error:
            raise self._said(error) from error
        finally:
            cursor.close()

    def answers(self) -> bool:
        return _answers(lambda: self.rows("SELECT 1"))

    def _said(self, error: BaseException) -> ServerError:
        """The driver drops the number; the session still has it, if it was the last statement's."""
        number = None
        with suppress(mssql_python.Error), self._connection.cursor() as cursor:
            (number,) = cursor.execute(_ASK_NUMBER).fetchone() or (None,)
        return translated(error, UNTOLD if number == 0 else number)

    def close(self) -> None:
        with suppress(mssql_python.Error):
            self._connection.close()
        self._socket.close()


class _Attention:
    """Asks the server to end a statement; if it does not answer, the connection ends."""

    def __init__(self, cursor: mssql_python.Cursor, used: DriverSocket) -> None:
        self._cursor, self._socket = cursor, used
        self._patience: threading.Timer | None = None

    def __enter__(self) -> "_Attention":
        return self

    def __exit__(self, *_: object) -> None:
        if self._patience is not None:
            self._patience.cancel()
            # It may be cutting right now, which whoever borrowed the connection has to know.
            if self._patience is not threading.current_thread():
                self._patience.join()

    def send(self) -> None:
        """The driver may wait for the answer in here, too."""
        if self._patience is None:
            self._patience = threading.Timer(_ATTENTION_SECONDS, self._socket.cut)
            self._patience.daemon = True
            self._patience.start()
        if self._cursor.hstmt is not None:
            # ODBC's SQLCancel, which their cursors have no method for.
            self._cursor.hstmt._cancel()  # noqa: SLF001


class CoreConnection(SqlConnection):
    """One connection of the core, for bulk loads and for statements beside them."""

    used = 0.0

    def __init__(self, address: Address, used: DriverSocket | None = None) -> None:
        _forgotten.clear()
        self._socket = used or DriverSocket(address.place())
        options = {**address.for_core(), **self._socket.for_core()}
        try:
            self._connection: Any = mssql_py_core.PyCoreConnection(options)
        except RuntimeError as error:
            raise refused(address, error) from error
        self._socket.find()
        self._cursor: Any = self._connection.cursor()
        kept = weakref.finalize(self, _forgotten.append, (self._connection, self._cursor))
        kept.atexit = False
        self._closed = kept.detach

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with current().on_cancel(self._socket.cut):
                self._cursor.execute(sql)
                return [tuple(row) for row in self._cursor.fetchall() or ()]
        except RuntimeError as error:
            if is_given_up(error):
                raise given_up(error) from error
            raise translated(error, number_of(error)) from error

    def answers(self) -> bool:
        return _answers(lambda: self.run("SELECT 1"))

    def load(
        self,
        table: str,
        batches: pa.RecordBatchReader,
        columns: Sequence[str],
        *,
        lock: bool = False,
        identity: bool = False,
    ) -> int:
        """By bulk copy, with triggers, NOT NULL and CHECK as for INSERT; only in a transaction.

        A source that fails half-way leaves what was sent before, and the driver says nothing.
        """
        source = _Remembering(batches.schema, within(current(), batches))
        try:
            with current().on_cancel(self._socket.cut):
                done = self._cursor.bulkcopy_arrow(
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
            if source.error is not None:  # the driver would tell of it with a traceback
                raise source.error from None
            raise not_loaded(error) from error
        return int(done["rows_copied"])

    def close(self) -> None:
        """An error may keep this object for long, so what the driver made ends here and now."""
        self._closed()
        with suppress(RuntimeError):
            self._connection.close()
        self._socket.close()
        self._connection = self._cursor = _Ended()


class _Ended:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("the connection is closed")


class _Remembering:
    """Batches for the driver, and what went wrong when they were made."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self._schema, self._batches = schema, batches
        self.error: Exception | None = None

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._watched())

    def _watched(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                yield aligned(batch)
        except Exception as error:
            self.error = error
            raise


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The driver panics at decimals whose address is no multiple of 16, as in our files."""
    arrays = [
        pa.concat_arrays([array, array.slice(0, 0)]) if _is_askew(array) else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _is_askew(array: pa.Array) -> bool:
    if not pa.types.is_decimal128(array.type):
        return False
    values = array.buffers()[1]
    return values is not None and values.address % _DECIMAL_BYTES != 0


def _answers(ask: Callable[[], Any]) -> bool:
    try:
        ask()
    except ServerError:
        return False
    return True
