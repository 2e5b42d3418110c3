"""Rows in pieces of bounded size, each as an Arrow stream."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from jetbridge.duckdb_engine.connection import ROWS_PER_BATCH
from jetbridge.errors import LimitExceeded
from jetbridge.runtime.array_sizes import array_bytes, expands, plain_bytes

# Small enough to be held a few times, large enough that its cost by page does not count.
PAGE_BYTES = 8 * 1024 * 1024


def encode(schema: pa.Schema, *batches: pa.RecordBatch) -> memoryview:
    """Return batches as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return memoryview(sink.getvalue())


def pages(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], most_bytes: int
) -> Iterator[memoryview]:
    """Yield the rows as Arrow streams of one batch each.

    Raises LimitExceeded for a row of more than `most_bytes`.
    """
    pending: list[pa.RecordBatch] = []
    page_bytes = min(PAGE_BYTES, most_bytes)
    rows = size = 0
    for batch in batches:
        for piece, piece_bytes in split(batch, most_bytes):
            more = rows + piece.num_rows > ROWS_PER_BATCH or size + piece_bytes > page_bytes
            if pending and more:
                yield _page(schema, pending)
                pending, rows, size = [], 0, 0
            pending.append(piece)
            rows, size = rows + piece.num_rows, size + piece_bytes
    if pending:
        yield _page(schema, pending)


def split(batch: pa.RecordBatch, most_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield a batch in slices of at most `PAGE_BYTES`, or of one row, with their bytes.

    Raises LimitExceeded for a row of more than `most_bytes`.
    """
    size = sum(map(_bytes, batch.columns))
    if size > min(PAGE_BYTES, most_bytes) and batch.num_rows > 1:
        middle = batch.num_rows // 2
        yield from split(batch.slice(0, middle), most_bytes)
        yield from split(batch.slice(middle), most_bytes)
        return
    if size > most_bytes:
        raise LimitExceeded(
            f"a row of the result has {size:,} bytes, and may have {most_bytes:,}; let it have "
            "shorter values, or raise limits.message_bytes"
        )
    yield batch, size


def _bytes(column: pa.Array) -> int:
    """Return the bytes of a column; of a dictionary, each use of a value counts."""
    data_type = column.type
    return int(plain_bytes(column, data_type) if expands(data_type) else array_bytes(column))


def _page(schema: pa.Schema, batches: list[pa.RecordBatch]) -> memoryview:
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return encode(schema, *batches)
