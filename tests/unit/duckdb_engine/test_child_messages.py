"""The server takes what the process of a statement sends as data of somebody else."""

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import msgspec
import pyarrow as pa
import pytest

from jetbridge.duckdb_engine.child.processes import ChildProcess, StatementProcesses
from jetbridge.duckdb_engine.child.remote import ArrowInput, ChildEngine, ChildLimits
from jetbridge.duckdb_engine.connection import DuckDBAccess, StatementConnection
from jetbridge.errors import BadRequest, Cancelled, LimitExceeded, ServerError
from jetbridge.runtime.cancellation import Cancellation, scope
from jetbridge.wire.arrow_input import read_stream
from jetbridge.wire.limits import REQUEST_LIMITS
from jetbridge.wire.schemas import read_schema

ARROW = ArrowInput(
    partial(read_stream, limits=REQUEST_LIMITS), partial(read_schema, title="the schema")
)
LIMITS = ChildLimits(100_000_000, 1_000_000)
ACCESS = DuckDBAccess(load_extensions=False, threads=1, spill_bytes=10**9)


class Impostor(StatementProcesses):
    """Start processes that have nothing to do with DuckDB, and answer in their place."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self._answer = answer

    def open(self, memory_bytes: int) -> ChildProcess:
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        with subprocess.Popen(["true"]) as process:
            handle = os.pidfd_open(process.pid)
        return ChildProcess(handle, ours)

    def _serve(self, channel: socket.socket) -> None:
        with channel, suppress(ConnectionError):
            while channel.recv(65_536):
                channel.sendall(self._answer)


def frame(message: object) -> bytes:
    body = msgspec.msgpack.encode(message)
    return struct.pack("!Q", len(body)) + body


@contextmanager
def engine(processes: StatementProcesses) -> Iterator[ChildEngine]:
    opened = ChildEngine(processes, LIMITS, ARROW)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (struct.pack("!Q", 2**50), LimitExceeded),
        (struct.pack("!Q", 5) + b"\xc1\xc1\xc1\xc1\xc1", ServerError),
        (frame(["answer", 7]), ServerError),
        (frame(["answer", {"tables": 1}]), ServerError),
        (frame(["page", b"no rows"]), ServerError),
        (frame(["call", "open", 1, []]), ServerError),
        (frame(["failure", "SystemExit", "x"]), Exception),
        (frame(["failure", "", "x"]), BadRequest),
    ],
)
def test_an_answer_that_must_not_come_is_an_error(answer: bytes, error: type[Exception]) -> None:
    with engine(Impostor(answer)) as impostor, pytest.raises(error):
        impostor.references("SELECT 1")


@pytest.fixture(scope="module")
def processes() -> Iterator[StatementProcesses]:
    with StatementProcesses() as started:
        yield started


@pytest.fixture
def connection(processes: StatementProcesses) -> Iterator[StatementConnection]:
    with engine(processes) as child, child.open(["m"], ACCESS).connect() as opened:
        yield opened


def test_rows_are_pulled_as_they_are_read(connection: StatementConnection) -> None:
    schema = pa.schema([("n", pa.int64())])
    batches = (pa.record_batch([pa.array([n] * 10)], schema=schema) for n in range(50))
    connection.register("rows", pa.RecordBatchReader.from_batches(schema, batches))
    connection.create_table_as(("m", "main", "t"), "SELECT n, n + 1 AS m FROM rows")
    table = pa.Table.from_batches(connection.stream("SELECT sum(n)::BIGINT AS s FROM m.main.t"))
    assert table.to_pylist() == [{"s": 10 * sum(range(50))}]


def test_an_error_of_the_rows_is_that_of_the_statement(connection: StatementConnection) -> None:
    schema = pa.schema([("n", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([1])], schema=schema)
        raise BadRequest("the disk is gone")

    connection.register("rows", pa.RecordBatchReader.from_batches(schema, batches()))
    with pytest.raises(BadRequest, match="the disk is gone"):
        connection.create_table_as(("m", "main", "t"), "FROM rows")
    assert connection.fetch("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("query", "sizes"),
    [
        ("SELECT i FROM range(300000) t(i)", lambda s: max(s) <= 122_880 and len(s) < 8),
        ("SELECT repeat('x', 10000) AS s FROM range(5000)", lambda s: len(s) > 4),
        ("SELECT 1 WHERE false", lambda s: sum(s) == 0),
        (
            "SELECT (CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END)::ENUM ('a', 'b') AS e "
            "FROM range(200000) t(i)",
            lambda s: max(s) <= 122_880,
        ),
    ],
)
def test_rows_come_in_pages_of_bounded_size(
    connection: StatementConnection, query: str, sizes: Callable[[list[int]], bool]
) -> None:
    rows = [batch.num_rows for batch in connection.stream(query)]
    assert sum(rows) == connection.fetch(f"SELECT count(*) FROM ({query})")[0][0]
    assert sizes(rows), rows


def test_a_row_that_is_too_long_is_refused(connection: StatementConnection) -> None:
    with pytest.raises(LimitExceeded, match=r"a row of the result has .* limits.message_bytes"):
        list(connection.stream("SELECT repeat('x', 10000000)"))


def test_a_cancelled_statement_kills_its_process(processes: StatementProcesses) -> None:
    cancellation = Cancellation()
    with (
        engine(processes) as child,
        pytest.raises(Cancelled),
        scope(cancellation),
        child.open(["m"], ACCESS).connect() as opened,
    ):
        threading.Timer(0.3, cancellation.cancel).start()
        opened.fetch("SELECT count(*) FROM range(1000000) a, range(1000000) b")
