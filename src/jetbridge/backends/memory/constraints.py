"""UNIQUE and PRIMARY KEY over the chunks of a table."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import Chunk, Mask
from jetbridge.backends.memory.value_order import NO_BOUNDS, Bounds, bounds_of
from jetbridge.backends.tables import constraints
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import UniqueKey

Others = Iterable[tuple[Chunk, Mask | None]]


def refuse_duplicates(
    definition: Definition,
    table: str,
    key: UniqueKey,
    batches: Sequence[pa.RecordBatch],
    others: Others,
) -> None:
    """`batches` are the rows written, `others` all other rows of the final state."""
    new = constraints.select_key(definition, key, batches)
    positions = constraints.key_positions(definition, key)
    constraints.refuse_duplicates(table, key, new, _existing(positions, new, others))


def _existing(positions: list[int], new: pa.Table, others: Others) -> Iterator[pa.Table]:
    limits: list[Bounds] = []
    schema = new.schema
    for chunk, mask in others:
        limits = limits or [_limits(column) for column in new.columns]
        if not all(
            _overlap(chunk.bounds(p), limit) for p, limit in zip(positions, limits, strict=True)
        ):
            continue
        batch = pa.RecordBatch.from_arrays(
            [chunk.batch.column(p) for p in positions], schema=schema
        )
        if mask is not None:
            batch = batch.take(pa.array(np.flatnonzero(mask)))
        yield pa.Table.from_batches([batch])


def _limits(column: pa.ChunkedArray) -> Bounds:
    parts = [bounds_of(chunk) for chunk in column.chunks if len(chunk) > chunk.null_count]
    if not parts or any(low is None for low, _ in parts):
        return NO_BOUNDS
    return min(low for low, _ in parts), max(high for _, high in parts)


def _overlap(one: Bounds, other: Bounds) -> bool:
    if one[0] is None or other[0] is None:
        return True
    return bool(one[0] <= other[1] and other[0] <= one[1])
