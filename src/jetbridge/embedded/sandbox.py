"""The one in-memory DuckDB of the process, shut off from files, network and Python variables."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

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

_lock = threading.Lock()
_instance: duckdb.DuckDBPyConnection | None = None


def _root() -> duckdb.DuckDBPyConnection:
    global _instance  # noqa: PLW0603 - one DuckDB per process, made at the first use
    with _lock:
        if _instance is None:
            root = duckdb.connect(":memory:", config=_CONFIG)
            # TimeZone belongs to the icu extension, so it is not known yet to connect().
            root.execute("SET GLOBAL TimeZone = 'UTC'")
            # It hands the range of a join key to pyarrow, for which NaN is equal to nothing.
            root.execute("SET GLOBAL disabled_optimizers = 'join_filter_pushdown'")
            root.execute("SET GLOBAL lock_configuration = true")
            _instance = root
        return _instance


@contextmanager
def session(
    data: pa.Table | pa.RecordBatchReader | None = None, **more: pa.Table
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor of its own: what it registers or creates temporarily is seen by no one else."""
    cursor = _root().cursor()
    try:
        if data is not None:
            cursor.register(DATA, _whole(data))
        for name, table in more.items():
            cursor.register(name, _whole(table))
        yield cursor
    finally:
        cursor.close()


def _whole(data: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """The data without slices of nested arrays: DuckDB 1.5 reads wrong rows of their children."""
    if isinstance(data, pa.Table):
        for index, field in enumerate(data.schema):
            if pa.types.is_nested(field.type):
                chunks = [pa.concat_arrays([c, c.slice(0, 0)]) for c in data.column(index).chunks]
                data = data.set_column(index, field, pa.chunked_array(chunks, field.type))
    return data


def query(
    sql: str,
    data: pa.Table | pa.RecordBatchReader | None = None,
    parameters: Sequence[Any] = (),
    **more: pa.Table,
) -> pa.Table:
    """The result of one statement; raises `duckdb.Error`."""
    with session(data, **more) as cursor:
        answer: pa.Table = cursor.execute(sql, list(parameters)).to_arrow_table()
        return answer


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def first_line(error: BaseException) -> str:
    """The message of a DuckDB or Arrow error, without the lines that quote the statement."""
    return str(error).split("\n", 1)[0][:300]
