"""Expressions over Arrow data: values, masks, and the first row a CHECK refuses.

Rows are handed to DuckDB in slices for which the expression needs little memory (`growth`), and
between two of them it is asked whether the time is over and somebody still waits.
"""

import time
from collections.abc import Iterator

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.casts import conform
from jetbridge.duckdb_engine.sandbox import (
    DATA,
    EXPRESSION_SECONDS,
    FILTER_SECONDS,
    query,
    refusal,
)
from jetbridge.duckdb_engine.statements import short
from jetbridge.duckdb_engine.stored_expressions.call_growth import Growth
from jetbridge.duckdb_engine.stored_expressions.check import Expression, parse
from jetbridge.duckdb_engine.stored_expressions.growth import written_as
from jetbridge.duckdb_engine.stored_expressions.row_sizes import Sizes, value_sizes
from jetbridge.duckdb_engine.types import duckdb_type
from jetbridge.errors import LimitExceeded
from jetbridge.runtime.array_sizes import array_bytes, slice_bytes

# Defaults are made in parts of at most this size.
_PART_BYTES = 16 * 1024 * 1024
# More does not fit into one array of strings.
_MOST_BYTES = 2**31 - 1
# What a slice may need, and one row at most, which cannot be cut. A value of a column has no more
# than the batches that it is made for, a few times.
_SLICE_BYTES = 32 * 1024 * 1024
_LARGE_ROW = 3
_MOST_VALUES = 64 * 1024 * 1024
# What a row may take alone, which cannot be interrupted: about a second, and a slice a quarter.
_SLICE_STEPS = 64_000_000_000
_LARGE_ROW_STEPS = 320_000_000_000
# To look for a byte in the names of all time zones. No name of one is so long that this matters.
_ZONE_STEPS = 2_000_000
_ZONE_BYTES = 64
_MOST_ZONES = 8
# Two threads, each with a vector.
_ROWS_AT_ONCE = 4096

Mask = npt.NDArray[np.bool_]


def evaluate(
    text: str, data: pa.Table, column: pa.Field, seconds: float = EXPRESSION_SECONDS
) -> pa.Array:
    """Return one value of the column for every row; raise BadRequest, LimitExceeded."""
    expression = parse(text)
    what = f"the expression for column {column.name!r}"
    sql = _cast(expression.sql, column)
    read = _read(data, expression)
    work = expression.work + written_as(expression.value, duckdb_type(column))
    # The value is read as a time zone, too, where the column has one.
    zoned = expression.columns if work.zoned > expression.work.zoned else expression.zoned
    steps = _steps(read, work, zoned)
    slices = list(_sliced(sql, read, work, steps, seconds, what, _MOST_VALUES))
    return conform(pa.chunked_array(slices).combine_chunks(), column.type)


def computed(sql: str, data: pa.Table, column: pa.Field) -> pa.Array:
    """Return the same for an expression of our own, which may call any function."""
    try:
        answer = query(_cast(sql, column), _readable(data), seconds=EXPRESSION_SECONDS)
    except duckdb.Error as error:
        raise refusal(error, f"the expression for column {column.name!r}") from None
    return conform(answer.column(0).combine_chunks(), column.type)


def _cast(sql: str, column: pa.Field) -> str:
    return f"SELECT CAST(({sql}) AS {duckdb_type(column)}) AS c FROM {DATA}"


def _sliced(
    sql: str,
    data: pa.Table,
    work: Growth,
    steps: Sizes,
    seconds: float,
    what: str,
    most_bytes: int = _MOST_BYTES,
) -> Iterator[pa.Array]:
    """Return the first column of the answer, slice by slice."""
    end = time.monotonic() + seconds
    size = 0
    for part in _slices(data, work, steps, what):
        left = max(0.001, end - time.monotonic())
        try:
            answer = query(sql, part, seconds=left)
        except duckdb.Error as error:
            raise refusal(error, what) from None
        size += array_bytes(answer)
        if size > most_bytes:
            raise LimitExceeded(f"{what} makes more than {most_bytes} bytes; change fewer rows")
        yield answer.column(0).combine_chunks()


def _steps(data: pa.Table, work: Growth, zoned: frozenset[str]) -> Sizes:
    """About the time that each row takes, where it grows faster than with its bytes."""
    steps = np.zeros(data.num_rows)
    if work.squared:
        steps += work.squared * sum(map(value_sizes, data.columns), steps) ** 2
    free = _ZONE_BYTES if work.zoned <= _MOST_ZONES else 0
    for name in data.column_names:
        if work.zoned and fold(name) in zoned:
            long = np.maximum(value_sizes(data[name]) - free, 0)
            steps += work.zoned * _ZONE_STEPS * long
    return steps


def _slices(data: pa.Table, work: Growth, steps: Sizes, what: str) -> Iterator[pa.Table]:
    """Yield slices: at least one, which may be empty."""
    needed = _memory(data, work)
    if needed <= _SLICE_BYTES and steps.sum() <= _SLICE_STEPS:
        yield data
        return
    half = data.num_rows // 2
    if half:
        yield from _slices(data.slice(0, half), work, steps[:half], what)
        yield from _slices(data.slice(half), work, steps[half:], what)
    elif needed <= _LARGE_ROW * _SLICE_BYTES and steps.sum() <= _LARGE_ROW_STEPS:
        yield data
    else:
        raise LimitExceeded(
            f"{what} needs too much memory or time for a row of {slice_bytes(data)} bytes"
        )


def _memory(data: pa.Table, work: Growth) -> int:
    # Arrow keeps eight truths in a byte.
    size = slice_bytes(data) * (8 if any(map(_has_bits, data.schema.types)) else 1)
    rows = min(int(data.num_rows), _ROWS_AT_ONCE)
    return work.per_byte * size + work.extra * rows


def default_values(
    text: str, field: pa.Field, count: int, most_bytes: int = _MOST_BYTES
) -> pa.Array:
    """`count` values of a default; each row is asked anew, so that random() differs.

    Raises LimitExceeded above `most_bytes`, and before there are many more.
    """
    end = time.monotonic() + EXPRESSION_SECONDS
    step = max(1, _PART_BYTES // (1 + parse(text).value.extra))
    parts: list[pa.Array] = []
    done = size = 0
    while done < count or not parts:
        rows = pa.table({"i": pa.nulls(min(step, count - done), pa.int8())})
        parts.append(evaluate(text, rows, field, end - time.monotonic()))
        done += rows.num_rows
        size += array_bytes(parts[-1])
        if size > most_bytes:
            raise LimitExceeded(
                f"the default of column {field.name!r} makes more than {most_bytes} bytes"
            )
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _has_bits(kind: pa.DataType) -> bool:
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    return pa.types.is_boolean(kind) or any(map(_has_bits, inner))


def first_violation(text: str, data: pa.Table, seconds: float = EXPRESSION_SECONDS) -> int | None:
    """Return the first row for which the CHECK is FALSE; raise BadRequest, LimitExceeded."""
    expression = parse(text)
    sql = f"SELECT CAST(({expression.sql}) AS BOOLEAN) AS c FROM {DATA}"
    start = 0
    what = f"CHECK {short(text)}"
    read = _read(data, expression)
    steps = _steps(read, expression.work, expression.zoned)
    for part in _sliced(sql, read, expression.work, steps, seconds, what):
        wrong = np.flatnonzero(~_booleans(part, missing=True))
        if len(wrong):
            return start + int(wrong[0])
        start += len(part)
    return None


def mask(sql: str, data: pa.Table, seconds: float = FILTER_SECONDS) -> Mask | None:
    """Return the rows for which a filter is TRUE; None if DuckDB cannot tell: keep them all.

    Raises LimitExceeded if it takes too long, so that no more rows are asked about.
    """
    sql = f"SELECT CAST(({sql}) AS BOOLEAN) AS c FROM {DATA}"
    try:
        answer = query(sql, _readable(data), seconds=seconds)
    except duckdb.InterruptException as error:
        raise refusal(error, "the filter") from None
    except duckdb.Error:
        return None
    return _booleans(answer.column(0).combine_chunks(), missing=False)


def microseconds(timestamp: str) -> int | None:
    """Return a timestamp as DuckDB writes it, since 1970 in UTC; None if it is none.

    The infinities are the largest integer and its negative.
    """
    try:
        answer = query("SELECT CAST(? AS TIMESTAMPTZ)", parameters=[timestamp])
    except duckdb.Error:
        return None
    value = answer.column(0).cast(pa.int64())[0].as_py()
    return None if value is None else int(value)


def _read(data: pa.Table, expression: Expression) -> pa.Table:
    """Return the columns that the expression reads: its growth counts no others."""
    return _readable(data.select([n for n in data.column_names if fold(n) in expression.columns]))


def _readable(data: pa.Table) -> pa.Table:
    # A table without columns loses its rows on the way, and `SELECT true` still wants them.
    if data.num_columns == 0:
        return pa.table({"jetbridge_row": pa.nulls(data.num_rows, pa.int8())})
    return data


def _booleans(array: pa.Array, *, missing: bool) -> Mask:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array.cast(pa.int8())
    if storage.null_count:
        storage = storage.fill_null(int(missing))
    return np.asarray(storage).astype(np.bool_)
