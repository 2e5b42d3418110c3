"""CHECK, UNIQUE and PRIMARY KEY, judged over the rows a statement leaves behind."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from jetbridge import embedded
from jetbridge.backends.memory.chunks import Chunk, Mask
from jetbridge.backends.memory.comparable import NO_BOUNDS, Bounds, bounds_of
from jetbridge.backends.memory.state import TableState
from jetbridge.catalog import UniqueKey
from jetbridge.errors import ConstraintViolation, DuplicateKey
from jetbridge.names import fold


def check_rows(state: TableState, table: str, batches: Iterable[pa.RecordBatch]) -> None:
    """Every CHECK over batches that hold the columns of the table by position."""
    if not state.checks:
        return
    for group in _groups(batches):
        data = as_table(state.schema, group)
        for text in state.checks:
            refuse_violation(table, text, data)


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        if rows >= 500_000:  # noqa: PLR2004 - enough to make the price of a question small
            yield group
            group, rows = [], 0
    if rows:
        yield group


def as_table(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    same = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
    return pa.Table.from_batches(same, schema=schema)


def refuse_violation(table: str, text: str, data: pa.Table) -> None:
    expression = embedded.parse(text)
    read = [name for name in data.column_names if fold(name) in expression.columns]
    row = embedded.first_violation(text, data.select(read))
    if row is None:
        return
    values = ", ".join(f"{name} = {embedded.shown(data.column(name)[row])}" for name in read)
    inner = text if text.startswith("(") and text.endswith(")") else f"({text})"
    where = f", first row with {values}" if values else ""
    raise ConstraintViolation(f"CHECK constraint failed: {table}: {inner[:200]}{where}"[:490])


def refuse_duplicates(
    table: str,
    key: UniqueKey,
    new: pa.Table,
    others: Iterable[tuple[Chunk, Mask | None]],
    state: TableState,
) -> None:
    """`new` holds the key of the rows written, `others` all other rows of the final state."""
    row = embedded.first_duplicate(new)
    if row is None:
        positions = [_index(state, name) for name in key.columns]
        row = embedded.first_clash(new, _existing(positions, new, others))
    if row is not None:
        names = ", ".join(key.columns)
        values = ", ".join(embedded.shown(column[row]) for column in new.columns)
        raise DuplicateKey(f"Duplicate key in {table}: ({names}) = ({values}) already exists"[:490])


def key_table(state: TableState, key: UniqueKey, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    positions = [_index(state, name) for name in key.columns]
    schema = pa.schema([state.schema.field(p) for p in positions])
    return pa.Table.from_batches(
        [
            pa.RecordBatch.from_arrays([b.column(p) for p in positions], schema=schema)
            for b in batches
        ],
        schema=schema,
    )


def _index(state: TableState, name: str) -> int:
    position = state.position(name)
    assert position is not None  # noqa: S101 - a key names columns of its own table
    return position


def _existing(
    positions: list[int], new: pa.Table, others: Iterable[tuple[Chunk, Mask | None]]
) -> Iterator[pa.Table]:
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
