"""The process of a session: it parses, plans and runs what the server sends it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from jetbridge.duckdb_engine.child.messages import (
    ANSWER_BYTES,
    NOTHING,
    Answer,
    Failure,
    Pull,
    PulledRows,
    Reply,
    ResultPage,
    WorkerCall,
    receive,
    send,
)
from jetbridge.duckdb_engine.child.pages import pages
from jetbridge.duckdb_engine.connection import DuckDBAccess
from jetbridge.duckdb_engine.planner import LocalConnection, PlannerDatabase
from jetbridge.duckdb_engine.references import query_references
from jetbridge.duckdb_engine.statements import TEXT_FUNCTIONS
from jetbridge.errors import LimitExceeded, ServerError

# What a plan says about filters is a help, which long lists of values do not give.
_SCAN_BYTES = 1024 * 1024
_ERROR_CHARACTERS = 4_000
# What the server sends comes from a process that this one trusts.
_MOST_BYTES = 2**40
# A vector of DuckDB: a batch of more rows with long values would exceed the limit of memory.
_ROWS_PER_READ = 2_048
_requests = msgspec.msgpack.Decoder(WorkerCall | PulledRows)


class Worker:
    """Answer the calls of the server, one after the other, until it closes the channel."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._pulling = threading.Lock()
        self._databases: dict[int, PlannerDatabase] = {}
        self._connections: dict[int, _Connection] = {}
        self._functions: dict[str, Callable[..., Any]] = {
            "read_text": _read_text,
            "query_references": query_references,
            "open": self._open,
            "close_database": self._close_database,
            "connect": self._connect,
            "close": self._close,
        }

    def run(self) -> None:
        """Answer calls; return when the server has closed the channel."""
        while True:
            try:
                request = _requests.decode(receive(self._channel, _MOST_BYTES))
            except (EOFError, OSError):
                return
            if isinstance(request, WorkerCall):
                send(self._channel, self._reply(request))

    def _reply(self, call: WorkerCall) -> Reply:
        try:
            result = self._call(call)
            if isinstance(result, ResultPage):
                return result
            value = msgspec.msgpack.encode(result)
            if len(value) > ANSWER_BYTES:
                raise LimitExceeded(
                    "the names and types in the statement are too long; use fewer of them"
                )
            return Answer(msgspec.Raw(value))
        except Exception as error:  # noqa: BLE001 - the server raises it
            return _failure(error)

    def _call(self, call: WorkerCall) -> Any:
        function = self._functions.get(call.function)
        if function is not None:
            return function(*call.arguments)
        return self._connections[call.target].call(call.function, *call.arguments)

    def _open(self, number: int, databases: list[str], access: dict[str, Any]) -> None:
        self._databases[number] = PlannerDatabase(databases, msgspec.convert(access, DuckDBAccess))

    def _close_database(self, number: int) -> None:
        self._databases.pop(number).close()

    def _connect(self, number: int, database: int) -> None:
        with ExitStack() as stack:
            connection = stack.enter_context(self._databases[database].connect())
            # The class of the database in this process.
            assert isinstance(connection, LocalConnection)  # noqa: S101
            opened = _Connection(connection, self._pulled, stack.pop_all())
        self._connections[number] = opened

    def _close(self, number: int) -> None:
        self._connections.pop(number).close()

    def _pulled(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the server has under a name; threads of DuckDB take them."""
        while True:
            with self._pulling:
                send(self._channel, Pull(name))
                rows = _requests.decode(receive(self._channel, _MOST_BYTES))
            if not isinstance(rows, PulledRows) or rows.failed:
                raise EOFError("the server could not read the rows")
            if not rows.data:
                return
            yield from pa.ipc.open_stream(rows.data)


class _Connection:
    """Call the methods of one connection, with arguments and results as messages have them."""

    def __init__(
        self,
        connection: LocalConnection,
        pulled: Callable[[str], Iterator[pa.RecordBatch]],
        stack: ExitStack,
    ) -> None:
        self._connection, self._pulled, self._stack = connection, pulled, stack
        self._pages: Iterator[memoryview] = iter(())
        self._methods: dict[str, Callable[..., Any]] = {
            "create_view": lambda path, query: connection.create_view(tuple(path), query),
            "create_table_as": lambda path, query: connection.create_table_as(tuple(path), query),
            "declare_types": lambda path, columns: connection.declare_types(tuple(path), columns),
            "register": self._register,
            "schema": self._schema,
            "stream": self._stream,
            "next_page": lambda: ResultPage(next(self._pages, NOTHING)),
            "table_scans": self._table_scans,
        }
        for name in _PLAIN_METHODS:
            self._methods[name] = getattr(connection, name)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call one method."""
        return self._methods[name](*arguments)

    def close(self) -> None:
        """Drop what the connection has declared."""
        self._pages = iter(())
        self._stack.close()

    def _register(self, name: str, schema: bytes) -> None:
        reader = pa.RecordBatchReader.from_batches(_schema(schema), self._pulled(name))
        self._connection.register(name, reader)

    def _schema(self, query: str) -> ResultPage:
        return ResultPage(memoryview(self._connection.schema(query).serialize()))

    def _stream(self, query: str, most_bytes: int) -> None:
        batches = self._connection.stream(query, _ROWS_PER_READ)
        first = next(batches, None)
        self._pages = iter(())
        if first is not None:
            self._pages = pages(first.schema, _chain(first, batches), most_bytes)

    def _table_scans(self, query: str) -> Any:
        scans = self._connection.table_scans(query)
        return scans if len(msgspec.msgpack.encode(scans)) <= _SCAN_BYTES else []


_PLAIN_METHODS = (
    "constant",
    "create_scratch",
    "drop_scratch",
    "fetch",
    "references",
    "single_table_read",
    "time_travel_positions",
    "types",
    "use",
)


def _read_text(name: str, text: str) -> Any:
    return TEXT_FUNCTIONS[name](text)


def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _failure(error: Exception) -> Failure:
    text = str(error)[:_ERROR_CHARACTERS]
    match error:
        case duckdb.Error():
            return Failure(type(error).__name__, text)
        case MemoryError() | pa.ArrowMemoryError():
            return Failure(duckdb.OutOfMemoryException.__name__, text)
        case pa.ArrowInvalid():  # a type that Arrow does not have, or nested too deeply
            return Failure(duckdb.InvalidInputException.__name__, text)
        case RecursionError():
            return Failure(RecursionError.__name__, text)
        case ServerError():
            return Failure("", error.to_record())
    return Failure("", ServerError(f"{type(error).__name__}: {text}").to_record())
