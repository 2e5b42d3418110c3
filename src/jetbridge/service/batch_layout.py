"""Converts the rows of a scan to the columns and batch sizes that the client expects."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import pyarrow as pa

from jetbridge.catalog import ROWID, TableInfo
from jetbridge.errors import BadRequest
from jetbridge.runtime.array_sizes import array_bytes
from jetbridge.runtime.cancellation import Closable

_ROWID_INDEX = 2**64 - 1
# Larger messages fall out of the caches between the copies on their way to the socket.
_MESSAGE_BYTES = 2 * 1024 * 1024


def read_column_ids(info: TableInfo, column_ids: list[int] | None) -> list[str] | None:
    """Return the names of the columns at the client's indexes, each once; None for all columns."""
    if not column_ids:
        return None
    names = info.schema.names
    requested: dict[str, None] = {}
    for index in column_ids:
        if index == _ROWID_INDEX and info.row_id is not None:
            requested[ROWID] = None
        elif 0 <= index < len(names):
            requested[names[index]] = None
        else:
            raise BadRequest(f"column_ids: table {info.name!r} has no column {index}")
    return list(requested)


def in_layout(
    rows: Iterable[pa.RecordBatch], schema: pa.Schema, at_most_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a bounded size with all columns of the schema.

    Columns that the rows do not have are NULL.
    """
    try:
        for batch in rows:
            yield from _cut(conform(batch, schema), at_most_rows)
    finally:
        if isinstance(rows, Closable):
            rows.close()


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns of the schema, matched by name; missing ones are NULL."""
    if batch.schema.equals(schema):
        return batch
    positions = {name: index for index, name in enumerate(batch.schema.names)}
    columns = [_column(batch, positions.get(field.name), field, batch.num_rows) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(batch: pa.RecordBatch, position: int | None, field: pa.Field, rows: int) -> pa.Array:
    if position is None:
        return nulls(field.type, rows)
    column = batch.column(position)
    return column if column.type == field.type else column.cast(field.type)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows."""
    return pa.RecordBatch.from_arrays([nulls(field.type, 0) for field in schema], schema=schema)


def nulls(data_type: pa.DataType, rows: int) -> pa.Array:
    """Return an array of NULLs, from a cache: scans need the same few sizes again and again."""
    return _nulls(data_type, 1 << max(rows - 1, 0).bit_length()).slice(0, rows)


@lru_cache(maxsize=64)
def _nulls(data_type: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, data_type)


def _cut(batch: pa.RecordBatch, at_most_rows: int) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    if not rows:
        return
    messages = max(-(-rows // at_most_rows), -(-array_bytes(batch) // _MESSAGE_BYTES))
    per_message = max(1, -(-rows // max(messages, 1)))
    for start in range(0, rows, per_message):
        yield batch.slice(start, per_message)
