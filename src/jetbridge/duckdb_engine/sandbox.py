"""The one in-memory DuckDB of the process, shut off from files, network and Python variables."""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.duckdb_engine.statements import SET, execute
from jetbridge.errors import BadRequest, LimitExceeded, ServerError
from jetbridge.runtime.cancellation import current
from jetbridge.runtime.plain_layout import plain_rows

# How long one evaluation of an expression in DDL or DML may take. A filter gets less: it can be
# left to the client.
EXPRESSION_SECONDS = 30.0
FILTER_SECONDS = 10.0

# The name under which Arrow data is visible to the SQL of one call.
DATA = "jetbridge_data"

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # A replacement scan would let SQL text read the Python variables of its caller.
    "python_enable_replacements": False,
    # Without it BOOLEAN, HUGEINT, UUID, JSON, BIT and TIMETZ come back as other types.
    "arrow_lossless_conversion": True,
    "memory_limit": "1GB",
    "temp_directory": "",
    "threads": 2,
}


class Watchdog:
    """Interrupt statements that run too long, with one thread for all of them.

    The thread is woken only for a deadline earlier than the one it waits for. As most limits are
    the same, a statement costs two entries in a dictionary, not a wake-up, let alone a thread.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._running: dict[int, tuple[float, duckdb.DuckDBPyConnection]] = {}
        self._next = math.inf
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, cursor: duckdb.DuckDBPyConnection, seconds: float | None) -> Iterator[None]:
        """Interrupt what runs on the cursor after so many seconds; None is no limit.

        Then it raises `duckdb.InterruptException`. DuckDB checks between two vectors of rows, so
        one call of a slow function ends first.
        """
        if seconds is None:
            yield
            return
        deadline = time.monotonic() + seconds
        with self._condition:
            self._running[id(cursor)] = (deadline, cursor)
            if deadline < self._next:
                self._wake(deadline)
        try:
            yield
        finally:
            # Under the lock of the interrupt, which therefore never meets a closed cursor.
            with self._condition:
                self._running.pop(id(cursor), None)

    def _wake(self, deadline: float) -> None:
        self._next = deadline
        if self._thread is None or not self._thread.is_alive():  # none survives a fork
            self._thread = threading.Thread(
                target=self._watch, name="jetbridge-watchdog", daemon=True
            )
            self._thread.start()
        self._condition.notify()

    def _watch(self) -> None:
        with self._condition:
            while True:
                self._interrupt(time.monotonic())
                self._next = min((d for d, _ in self._running.values()), default=math.inf)
                wait = None if math.isinf(self._next) else self._next - time.monotonic()
                self._condition.wait(wait)

    def _interrupt(self, moment: float) -> None:
        late = [key for key, (deadline, _) in self._running.items() if deadline <= moment]
        for key in late:
            self._running.pop(key)[1].interrupt()


_lock = threading.Lock()
_instance: duckdb.DuckDBPyConnection | None = None
_watchdog = Watchdog()


def _root() -> duckdb.DuckDBPyConnection:
    global _instance  # noqa: PLW0603 - one DuckDB per process, made at the first use
    with _lock:
        if _instance is None:
            root = duckdb.connect(":memory:", config=_CONFIG)
            # TimeZone belongs to the icu extension, so it is not known yet to connect().
            execute(root, "SET GLOBAL TimeZone = 'UTC'", SET)
            # It hands the range of a join key to pyarrow, for which NaN is equal to nothing.
            execute(root, "SET GLOBAL disabled_optimizers = 'join_filter_pushdown'", SET)
            execute(root, "SET GLOBAL lock_configuration = true", SET)
            _instance = root
        return _instance


@contextmanager
def session(
    data: pa.Table | pa.RecordBatchReader | None = None,
    seconds: float | None = None,
    **more: pa.Table,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a cursor; nobody else finds what it registers or creates temporarily.

    Its statement is interrupted after so many seconds, and when nobody waits for it any more.
    """
    cursor = _root().cursor()
    try:
        if data is not None:
            cursor.register(DATA, plain_rows(data))
        for name, table in more.items():
            cursor.register(name, plain_rows(table))
        with _watchdog.limit(cursor, seconds), current().on_cancel(cursor.interrupt):
            yield cursor
    finally:
        cursor.close()


def query(
    sql: str,
    data: pa.Table | pa.RecordBatchReader | None = None,
    parameters: Sequence[Any] = (),
    seconds: float | None = None,
    **more: pa.Table,
) -> pa.Table:
    """Return the result of one statement; raise `duckdb.Error`."""
    with session(data, seconds, **more) as cursor:
        answer: pa.Table = execute(cursor, sql, parameters=list(parameters)).to_arrow_table()
        return answer


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def first_line(error: BaseException) -> str:
    """Return the message of a DuckDB or Arrow error, without lines that quote the statement."""
    return str(error).split("\n", 1)[0][:300]


def refusal(error: duckdb.Error | pa.ArrowException, what: str) -> ServerError:
    """Return the error of a statement that failed."""
    if isinstance(error, duckdb.InterruptException):
        return LimitExceeded(f"{what} took too long and was interrupted; make it simpler"[:450])
    if isinstance(error, duckdb.OutOfMemoryException | pa.ArrowMemoryError):
        return LimitExceeded(f"{what} needs too much memory; make it smaller"[:450])
    return BadRequest(f"{what}: {first_line(error)}"[:450])
