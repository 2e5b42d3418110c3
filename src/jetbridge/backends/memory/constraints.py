"""Checks UNIQUE and PRIMARY KEY against the chunks of a table."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import ChunkRows
from jetbridge.backends.memory.value_order import NO_BOUNDS, Bounds, bounds_of
from jetbridge.backends.tables import constraints
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import UniqueKey


def refuse_duplicates(
    definition: Definition,
    table: str,
    key: UniqueKey,
    batches: Sequence[pa.RecordBatch],
    others: Iterable[ChunkRows],
) -> None:
    """Raise DuplicateKey for a key that exists twice.

    `batches` are the rows written, `others` are all other rows of the new version.
    """
    new_keys = constraints.select_key(definition, key, batches)
    positions = constraints.key_positions(definition, key)
    candidates = _candidates(positions, new_keys, others)
    constraints.refuse_duplicates(table, key, new_keys, candidates)


def _candidates(
    positions: list[int], new_keys: pa.Table, others: Iterable[ChunkRows]
) -> Iterator[pa.Table]:
    """Yield the keys of all chunks that may have one of the keys written."""
    written_bounds: list[Bounds] = []
    for chunk, mask in others:
        written_bounds = written_bounds or [_column_bounds(column) for column in new_keys.columns]
        if not all(
            _overlap(chunk.bounds(position), bounds)
            for position, bounds in zip(positions, written_bounds, strict=True)
        ):
            continue
        columns = [chunk.batch.column(position) for position in positions]
        batch = pa.RecordBatch.from_arrays(columns, schema=new_keys.schema)
        if mask is not None:
            batch = batch.take(pa.array(np.flatnonzero(mask)))
        yield pa.Table.from_batches([batch])


def _column_bounds(column: pa.ChunkedArray) -> Bounds:
    bounds = [bounds_of(chunk) for chunk in column.chunks if len(chunk) > chunk.null_count]
    if not bounds or any(low is None for low, _ in bounds):
        return NO_BOUNDS
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _overlap(one: Bounds, other: Bounds) -> bool:
    if one[0] is None or other[0] is None:
        return True
    return bool(one[0] <= other[1] and other[0] <= one[1])
