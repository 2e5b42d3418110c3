"""Reads Arrow IPC streams, and checks each batch completely before it is used."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def read_batches(stream: bytes, several: bool) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream: one by one, or all of them read at once.

    Raises Arrow's errors. Batches that are read at once must have columns.
    """
    reader = pa.ipc.open_stream(pa.py_buffer(stream))
    if several and reader.schema.names:  # a table without columns has no batches
        yield from _read_many(reader)
        return
    for batch in reader:
        _validate(batch)
        yield batch


def _read_many(reader: pa.ipc.RecordBatchStreamReader) -> list[pa.RecordBatch]:
    """Read all batches in three calls. Each releases Python's lock and waits to get it back."""
    table = reader.read_all()
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        for batch in table.to_batches():
            _validate(batch)
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches


def _validate(batch: pa.RecordBatch) -> None:
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        # TIME '24:00:00' is a value in DuckDB, and out of range in Arrow.
        for column in batch.columns:
            _without_last_moment(column).validate(full=True)


def _without_last_moment(column: pa.Array) -> pa.Array:
    """Return a column of times with NULL for 24:00:00, and any other column as it is."""
    if not pa.types.is_time64(column.type):
        return column
    column.validate()
    numbers = column.view(pa.int64())
    last = pa.scalar(_DAY[column.type.unit], pa.int64())
    others = pc.if_else(pc.equal(numbers, last), pa.scalar(None, pa.int64()), numbers)
    return others.view(column.type)
