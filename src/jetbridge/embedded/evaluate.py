"""Expressions over Arrow data: values, masks, and the first row a CHECK refuses."""

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.embedded.casts import conform
from jetbridge.embedded.expressions import parse
from jetbridge.embedded.sandbox import (
    DATA,
    EXPRESSION_SECONDS,
    FILTER_SECONDS,
    query,
    refusal,
)
from jetbridge.embedded.statements import short
from jetbridge.embedded.types import duckdb_type, is_text
from jetbridge.errors import LimitExceeded

# Defaults are made in parts of about this size, as nobody knows how long they are.
_PART_BYTES = 16 * 1024 * 1024
# More does not fit into one array of strings.
_MOST_BYTES = 2**31 - 1

Mask = npt.NDArray[np.bool_]


def evaluate(
    text: str, data: pa.Table, wanted: pa.Field, seconds: float = EXPRESSION_SECONDS
) -> pa.Array:
    """One value of the wanted type for every row; raises BadRequest, LimitExceeded."""
    expression = parse(text)
    sql = f"SELECT CAST(({expression.sql}) AS {duckdb_type(wanted)}) AS c FROM {DATA}"
    try:
        answer = query(sql, _readable(data), seconds=seconds)
    except duckdb.Error as error:
        raise refusal(error, f"the expression for column {wanted.name!r}") from None
    return conform(answer.column(0).combine_chunks(), wanted.type)


def default_values(
    text: str, field: pa.Field, count: int, most_bytes: int = _MOST_BYTES
) -> pa.Array:
    """`count` values of a default; each row is asked anew, so that random() differs.

    Raises LimitExceeded above `most_bytes`, and before there are many more.
    """
    parts: list[pa.Array] = []
    done = size = 0
    step = count if _is_short(text, field.type) else 1
    while done < count or not parts:
        rows = pa.table({"i": pa.nulls(min(step, count - done), pa.int8())})
        parts.append(evaluate(text, rows, field))
        done += rows.num_rows
        size += parts[-1].nbytes
        if size > most_bytes:
            raise LimitExceeded(
                f"the default of column {field.name!r} makes more than {most_bytes} bytes"
            )
        # As many as the values so far let expect to fit.
        step = max(1, min(16 * done, _PART_BYTES * done // max(1, size)))
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _is_short(text: str, kind: pa.DataType) -> bool:
    """Whether the size of a default needs no watching."""
    flat = not pa.types.is_nested(kind) and not pa.types.is_binary(kind) and not is_text(kind)
    return flat or parse(text).classes <= {"", "CONSTANT"}


def first_violation(text: str, data: pa.Table, seconds: float = EXPRESSION_SECONDS) -> int | None:
    """The first row for which the CHECK is FALSE; NULL passes. Raises BadRequest, LimitExceeded."""
    expression = parse(text)
    sql = f"SELECT CAST(({expression.sql}) AS BOOLEAN) AS c FROM {DATA}"
    try:
        verdicts = _booleans(query(sql, _readable(data), seconds=seconds).column(0), missing=True)
    except duckdb.Error as error:
        raise refusal(error, f"CHECK {short(text)}") from None
    wrong = np.flatnonzero(~verdicts)
    return int(wrong[0]) if len(wrong) else None


def mask(sql: str, data: pa.Table, seconds: float = FILTER_SECONDS) -> Mask | None:
    """The rows for which a filter is TRUE, or None if DuckDB cannot tell: then keep them all.

    Raises LimitExceeded if it takes too long, so that no more rows are asked about.
    """
    sql = f"SELECT CAST(({sql}) AS BOOLEAN) AS c FROM {DATA}"
    try:
        answer = query(sql, _readable(data), seconds=seconds)
    except duckdb.InterruptException as error:
        raise refusal(error, "the filter") from None
    except duckdb.Error:
        return None
    return _booleans(answer.column(0), missing=False)


def microseconds(timestamp: str) -> int | None:
    """A timestamp as DuckDB writes it, since 1970 in UTC; None if it is none.

    The infinities are the largest integer and its negative.
    """
    try:
        answer = query("SELECT CAST(? AS TIMESTAMPTZ)", parameters=[timestamp])
    except duckdb.Error:
        return None
    value = answer.column(0).cast(pa.int64())[0].as_py()
    return None if value is None else int(value)


def _readable(data: pa.Table) -> pa.Table:
    # A table without columns loses its rows on the way, and `SELECT true` still wants them.
    if data.num_columns == 0:
        return pa.table({"jetbridge_row": pa.nulls(data.num_rows, pa.int8())})
    return data


def _booleans(column: pa.ChunkedArray, *, missing: bool) -> Mask:
    array = column.combine_chunks()
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array.cast(pa.int8())
    if storage.null_count:
        storage = storage.fill_null(int(missing))
    return np.asarray(storage).astype(np.bool_)
