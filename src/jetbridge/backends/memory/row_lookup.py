"""Finds rows by row id and by key, and replaces or deletes them in their chunks."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.memory.chunks import CHUNK_ROWS, Chunk, ChunkRows, Segment, compact
from jetbridge.backends.memory.store import MemoryTableVersion, TableCell
from jetbridge.backends.memory.value_order import NO_BOUNDS, Bounds, bounds_of
from jetbridge.backends.tables import constraints
from jetbridge.backends.tables.definition import Definition
from jetbridge.backends.tables.updates import Integers, Mask
from jetbridge.catalog import UniqueKey
from jetbridge.errors import BadRequest, Conflict
from jetbridge.runtime import cancellation

ChunkKey = tuple[int, int]  # number of the segment, number of the chunk in it


@dataclass(frozen=True)
class LocatedRows:
    """Name rows of one chunk: `indexes` in the list of row ids, `positions` in the chunk."""

    key: ChunkKey
    chunk: Chunk
    indexes: Integers
    positions: Integers


def check_row_ids(rowids: Integers, cell: TableCell) -> None:
    """Raise BadRequest for a row id that no row ever had."""
    unknown = (rowids < 0) | (rowids >= cell.next_rowid())
    if unknown.any():
        raise BadRequest(f"table {cell.name()!r} has no row with rowid {rowids[unknown][0]}")


def locate_rows(state: MemoryTableVersion, rowids: Integers) -> list[LocatedRows]:
    """Return where rows are, by distinct ascending row ids; deleted rows are left out."""
    return list(_locate(state, rowids))


def _locate(state: MemoryTableVersion, rowids: Integers) -> Iterator[LocatedRows]:
    for number, segment in enumerate(state.segments):
        for index, chunk in enumerate(segment.chunks()):
            cancellation.current().check()
            start, end = np.searchsorted(rowids, [chunk.first, chunk.last() + 1])
            if start == end:
                continue
            positions, existing = chunk.positions(rowids[start:end])
            if chunk.deleted is not None:
                existing = existing & ~chunk.deleted[positions]
            if existing.any():
                indexes = np.arange(start, end, dtype=np.int64)[existing]
                yield LocatedRows((number, index), chunk, indexes, positions[existing])


def refuse_conflicts(
    located: Sequence[LocatedRows], rowids: Integers, version: int, table: str
) -> None:
    """Raise Conflict for a row that is deleted, or that was changed after `version`."""
    if sum(len(rows.indexes) for rows in located) != len(rowids):
        existing = np.zeros(len(rowids), dtype=np.bool_)
        for rows in located:
            existing[rows.indexes] = True
        raise _conflict(rowids[~existing][0], table, "deleted")
    for rows in located:
        if rows.chunk.changed is not None:
            newer = rows.chunk.changed[rows.positions] > version
            if newer.any():
                raise _conflict(rowids[rows.indexes[newer][0]], table, "changed")


def _conflict(row: np.int64, table: str, what: str) -> Conflict:
    return Conflict(
        f"row {row} of table {table!r} was {what} by another statement; run this one again"
    )


def take_rows(state: MemoryTableVersion, located: Sequence[LocatedRows]) -> pa.RecordBatch:
    """Return all columns of the rows, in the order of the row ids by which they were located."""
    parts = [rows.chunk.batch.take(pa.array(rows.positions)) for rows in located]
    columns = []
    for index, field in enumerate(state.schema):
        chunks = [part.column(index) for part in parts]
        columns.append(pa.concat_arrays(chunks) if chunks else pa.nulls(0, field.type))
    batch = pa.RecordBatch.from_arrays(columns, schema=state.schema)
    if not located:
        return batch
    order = np.argsort(np.concatenate([rows.indexes for rows in located]))
    return batch.take(pa.array(order))


def delete_rows(rows: LocatedRows) -> Chunk | None:
    """Return the chunk without the rows; None if no row is left."""
    deleted: Mask = (
        np.zeros(rows.chunk.rows, dtype=np.bool_)
        if rows.chunk.deleted is None
        else rows.chunk.deleted.copy()
    )
    deleted[rows.positions] = True
    return compact(rows.chunk.with_deleted(deleted))


def update_rows(rows: LocatedRows, values: dict[int, pa.Array], version: int) -> Chunk:
    """Return the chunk with new values, one per located row, in some columns."""
    changed = (
        np.zeros(rows.chunk.rows, dtype=np.int32)
        if rows.chunk.changed is None
        else rows.chunk.changed.copy()
    )
    changed[rows.positions] = version
    columns = {
        index: replace_values(rows.chunk.batch.column(index), rows.positions, array)
        for index, array in values.items()
    }
    return rows.chunk.with_columns(columns, changed)


def replace_values(column: pa.Array, positions: Integers, values: pa.Array) -> pa.Array:
    """Return the column with other values at the positions (ascending)."""
    data_type = column.type
    if isinstance(data_type, pa.BaseExtensionType):
        return data_type.wrap_array(replace_values(column.storage, positions, values.storage))
    no_kernel = pa.types.is_interval(data_type) or pa.types.is_duration(data_type)
    if pa.types.is_primitive(data_type) and not no_kernel:
        mask = np.zeros(len(column), dtype=np.bool_)
        mask[positions] = True
        return pc.replace_with_mask(column, pa.array(mask), values)
    # Works for every type, and is fastest for strings.
    indexes = _scratch_indexes(len(column))
    indexes[positions] = np.arange(len(column), len(column) + len(positions), dtype=np.int64)
    try:
        return pa.concat_arrays([column, values]).take(pa.array(indexes))
    finally:
        indexes[positions] = positions


_scratch = threading.local()


def _scratch_indexes(rows: int) -> Integers:
    """Return 0, 1, 2 ... in memory of this thread; callers undo their changes.

    New memory for every chunk would cost more than the copying itself.
    """
    indexes: Integers | None = getattr(_scratch, "indexes", None)
    if indexes is None or len(indexes) < rows:
        indexes = _scratch.indexes = np.arange(max(rows, CHUNK_ROWS), dtype=np.int64)
    return indexes[:rows]


def replace_chunks(
    segments: tuple[Segment, ...], changes: dict[ChunkKey, Chunk | None]
) -> tuple[Segment, ...]:
    """Return the segments with some chunks replaced; None removes a chunk."""
    result: list[Segment] = []
    changed_segments = {segment for segment, _ in changes}
    for number, segment in enumerate(segments):
        if number not in changed_segments:
            result.append(segment)
            continue
        replaced = [
            changes.get((number, index), chunk) for index, chunk in enumerate(segment.chunks())
        ]
        chunks = [chunk for chunk in replaced if chunk is not None]
        if chunks:
            result.append(Segment(chunks, joined=True))
    return tuple(result)


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
