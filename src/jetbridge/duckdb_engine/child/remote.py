"""DuckDB in a process of its own, as the pipeline sees it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any, TypeVar

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
from jetbridge.duckdb_engine.child.pages import PAGE_BYTES, encode, split
from jetbridge.duckdb_engine.child.processes import ChildProcess, StatementProcesses
from jetbridge.duckdb_engine.connection import (
    OUT_OF_MEMORY,
    DuckDBAccess,
    Path,
    StatementConnection,
    StatementDatabase,
    statement_error,
)
from jetbridge.duckdb_engine.instance import create_spill_folder
from jetbridge.duckdb_engine.planner import column_types
from jetbridge.duckdb_engine.references import QueryReferences
from jetbridge.duckdb_engine.statements import reading_texts
from jetbridge.errors import BadRequest, LimitExceeded, ServerError, error_from_text
from jetbridge.runtime.cancellation import current
from jetbridge.runtime.temporary_folders import TemporaryFolder

T = TypeVar("T")
# What the process takes besides the memory that DuckDB counts: Python's objects, pages of rows,
# stacks, extensions, and what DuckDB's allocator holds in reserve. Sorts, joins, groups, long
# strings and Iceberg needed 32 to 96 MiB with shares of 64 and 200 MB, 5,000 columns 128 MiB.
ALLOWANCE_BYTES = 192 * 1024 * 1024
_ENDED = f"the process of the statement has ended: {OUT_OF_MEMORY}"
_replies = msgspec.msgpack.Decoder(Answer | ResultPage | Failure | Pull)
_Cell = None | bool | int | float | str | list[str]
_EXCEPTIONS: dict[str, type[Exception]] = {
    cls.__name__: cls
    for cls in vars(duckdb).values()
    if isinstance(cls, type) and issubclass(cls, duckdb.Error)
} | {RecursionError.__name__: RecursionError}


@dataclass(frozen=True)
class ChildLimits:
    """Hold the limits of one session.

    `memory_bytes` is its share of sql.memory_limit, `row_bytes` the most that one row may have.
    """

    memory_bytes: int
    row_bytes: int


@dataclass(frozen=True)
class ArrowInput:
    """Decode and validate Arrow data of another process: the rows of a stream, and a schema."""

    rows: Callable[[memoryview], list[pa.RecordBatch]]
    schema: Callable[[memoryview], pa.Schema]


class ChildEngine:
    """Parse, plan and run the statements of one session in one process, started when needed."""

    def __init__(
        self, processes: StatementProcesses, limits: ChildLimits, arrow: ArrowInput
    ) -> None:
        self._processes, self._limits, self._arrow = processes, limits, arrow
        self._channel: _Channel | None = None
        self._folders: list[TemporaryFolder] = []

    def open(self, databases: Sequence[str], access: DuckDBAccess) -> StatementDatabase:
        """Return a DuckDB with these databases; it starts when it is used."""
        # The process is killed in the end, so this one removes the folder.
        self._folders.append(create_spill_folder())
        access = replace(access, spill_folder=str(self._folders[-1].path))
        return _RemoteDatabase(self._connected(), databases, access)

    def parsing(self) -> AbstractContextManager[None]:
        """Parse the texts of the block in the process."""
        return reading_texts(self._read_text)

    def references(self, query: str) -> QueryReferences:
        """Return what a query names; raise BadRequest for anything but one query."""
        references: QueryReferences = self._connected().call(
            "query_references", query, result=QueryReferences
        )
        return references

    def close(self) -> None:
        """End the process, and remove what it has left."""
        channel, self._channel = self._channel, None
        try:
            if channel is not None:
                channel.close()
        finally:
            while self._folders:
                self._folders.pop().remove()

    def _read_text(self, name: str, text: str) -> Any:
        try:
            return self._connected().call("read_text", name, text, result=str | list[int])
        except duckdb.Error as error:
            raise statement_error(error, DuckDBAccess(spill_bytes=0)) from error

    def _connected(self) -> "_Channel":
        if self._channel is None:
            process = self._processes.open(self._limits.memory_bytes + ALLOWANCE_BYTES)
            self._channel = _Channel(process, self._limits, self._arrow)
        return self._channel


class _Channel:
    """Call functions of the process, and serve the rows that it pulls meanwhile."""

    def __init__(self, process: ChildProcess, limits: ChildLimits, arrow: ArrowInput) -> None:
        self._process, self.limits, self.arrow = process, limits, arrow
        # Rows, and names and types besides them.
        self._most_bytes = max(limits.row_bytes, PAGE_BYTES) + ANSWER_BYTES
        self.numbers = count()
        self.registered: dict[str, Iterator[memoryview]] = {}

    def call(self, function: str, *arguments: Any, result: Any = None, target: int = -1) -> Any:
        """Return the result of a call; raise the error of the process."""
        reply = self._reply(WorkerCall(function, target, list(arguments)))
        if not isinstance(reply, Answer):
            raise _broken()
        return _decoded(reply.value, result)

    def page(self, function: str, *arguments: Any, target: int) -> memoryview:
        """Return the Arrow data that a call answers with."""
        reply = self._reply(WorkerCall(function, target, list(arguments)))
        if not isinstance(reply, ResultPage):
            raise _broken()
        return reply.data

    def killing(self) -> AbstractContextManager[None]:
        """End the process as soon as the statement of the block is cancelled."""
        return current().on_cancel(self._process.kill)

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _reply(self, request: WorkerCall) -> Answer | ResultPage:
        """Send a call, and return its reply."""
        failed: Exception | None = None
        with self.killing():
            reply = self._exchange(request)
            while isinstance(reply, Pull):
                rows = PulledRows(NOTHING, failed=True)
                if failed is None:
                    try:
                        rows = PulledRows(next(self.registered[reply.name], NOTHING))
                    except Exception as error:  # noqa: BLE001 - raised when the call has ended
                        failed = error
                reply = self._exchange(rows)
            if failed is not None:
                raise failed
            if isinstance(reply, Failure):
                raise _error(reply)
            return reply

    def _exchange(self, message: WorkerCall | PulledRows) -> Reply:
        try:
            send(self._process.channel, message)
            reply = receive(self._process.channel, self._most_bytes)
        except (OSError, EOFError) as error:
            raise LimitExceeded(_ENDED) from error
        try:
            decoded: Reply = _replies.decode(reply)
            return decoded
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _broken() from error


class _RemoteDatabase:
    """Hold the number of a database in the process, which opens it with the first connection."""

    def __init__(self, channel: _Channel, databases: Sequence[str], access: DuckDBAccess) -> None:
        self._channel, self._databases, self._access = channel, databases, access
        self._number = next(channel.numbers)
        self._is_open = False

    @contextmanager
    def connect(self) -> Iterator[StatementConnection]:
        """Open a connection for one statement; what it declares is gone afterwards."""
        channel = self._channel
        number = next(channel.numbers)
        try:
            with channel.killing():
                if not self._is_open:
                    channel.call("open", self._number, list(self._databases), asdict(self._access))
                    self._is_open = True
                channel.call("connect", number, self._number)
                try:
                    yield RemoteConnection(channel, number, self._access.include_table_folders)
                finally:
                    channel.registered.clear()
                    with suppress(ServerError, duckdb.Error):  # a process that has ended
                        channel.call("close", number)
        except duckdb.Error as error:
            raise statement_error(error, self._access) from error

    def close(self) -> None:
        """Leave the database to the end of the process."""


class RemoteConnection:
    """Call the methods of a connection in the process."""

    def __init__(self, channel: _Channel, number: int, reads_table_files: bool) -> None:
        self.reads_table_files = reads_table_files
        self._channel, self._number = channel, number

    def _call(self, method: str, *arguments: Any, result: Any = None) -> Any:
        return self._channel.call(method, *arguments, result=result, target=self._number)

    def references(self, query: str) -> QueryReferences:
        """Return the tables that a query names, and the functions it calls."""
        references: QueryReferences = self._call("references", query, result=QueryReferences)
        return references

    def time_travel_positions(self, query: str) -> list[int]:
        """Return where in the text tables are named as of another time."""
        positions: list[int] = self._call("time_travel_positions", query, result=list[int])
        return positions

    def table_scans(self, query: str) -> list[tuple[Path, dict[str, Any]]]:
        """Return what a query would read of each table; [] if the plan is too long."""
        result = list[tuple[Path, dict[str, Any]]]
        scans: list[tuple[Path, dict[str, Any]]] = self._call("table_scans", query, result=result)
        return scans

    def single_table_read(self, query: str) -> tuple[Path, tuple[str, ...]] | None:
        """Return the one table that a query reads, and its columns; None if it does more."""
        result = tuple[Path, tuple[str, ...]] | None
        read: tuple[Path, tuple[str, ...]] | None = self._call(
            "single_table_read", query, result=result
        )
        return read

    def constant(self, text: str) -> str:
        """Return the value of an expression without columns, as DuckDB prints it."""
        return str(self._call("constant", text, result=str))

    def declare(self, path: Path, schema: pa.Schema) -> None:
        """Create an empty table."""
        # This process knows the types already; that one would open another DuckDB to ask for them.
        self._call("declare_types", path, column_types(schema))

    def create_view(self, path: Path, query: str) -> None:
        """Create a view."""
        self._call("create_view", path, query)

    def register(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Give rows a name under which `create_table_as` finds them."""
        reader = rows.to_reader() if isinstance(rows, pa.Table) else rows
        most = self._channel.limits.row_bytes
        self._channel.registered[name] = (
            encode(reader.schema, piece) for batch in reader for piece, _ in split(batch, most)
        )
        self._call("register", name, reader.schema.serialize().to_pybytes())

    def create_table_as(self, path: Path, query: str) -> None:
        """Create a table with the rows of a query, which can be read more than once."""
        self._call("create_table_as", path, query)

    @contextmanager
    def scratch(self, columns: str) -> Iterator[None]:
        """Declare `SCRATCH` with these columns, in brackets, for the time of the block."""
        self._call("create_scratch", columns)
        yield
        self._call("drop_scratch")

    def use(self, database: str, schema: str) -> None:
        """Set where names without a database or schema are looked for."""
        self._call("use", database, schema)

    def schema(self, query: str) -> pa.Schema:
        """Return the columns of a query as Arrow, without its rows."""
        return self._channel.arrow.schema(self._channel.page("schema", query, target=self._number))

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return the columns of a query, and what DuckDB calls their types."""
        types: list[tuple[str, str]] = self._call("types", query, result=list[tuple[str, str]])
        return types

    def stream(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, batch by batch in bounded memory."""
        self._call("stream", query, self._channel.limits.row_bytes)
        while data := self._channel.page("next_page", target=self._number):
            yield from self._channel.arrow.rows(data)

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        rows: list[tuple[Any, ...]] = self._call("fetch", query, result=list[tuple[_Cell, ...]])
        return rows


def _decoded(value: msgspec.Raw, result: Any) -> Any:
    try:
        return msgspec.msgpack.decode(value, type=result)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _broken() from error


def _broken() -> ServerError:
    return ServerError("the process of the statement has sent what it must not send")


def _error(failure: Failure) -> Exception:
    if failure.name:
        return _EXCEPTIONS.get(failure.name, duckdb.Error)(failure.message)
    return error_from_text(failure.message) or BadRequest(failure.message)
