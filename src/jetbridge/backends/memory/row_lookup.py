"""Finding rows by row id, and the chunks with some rows changed."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.memory.chunks import (
    CHUNK_ROWS,
    Chunk,
    Integers,
    Mask,
    Segment,
    without_deleted,
)
from jetbridge.backends.memory.store import MemoryTableVersion, TableCell
from jetbridge.errors import BadRequest, Conflict
from jetbridge.runtime.cancellation import current


@dataclass(frozen=True)
class Hit:
    """Some of the wanted rows, in one chunk.

    `wanted` are positions in the list of row ids asked for, `places` those in the chunk.
    """

    segment: int
    index: int
    chunk: Chunk
    wanted: Integers
    places: Integers


def check_row_ids(rowids: Integers, cell: TableCell) -> None:
    """A row id that was never given to a row is an error of the caller, not a conflict."""
    wrong = (rowids < 0) | (rowids >= cell.next_rowid())
    if wrong.any():
        raise BadRequest(f"table {cell.name()!r} has no row with rowid {rowids[wrong][0]}")


def locate(state: MemoryTableVersion, rowids: Integers) -> list[Hit]:
    """Where the row ids (ascending, each once) are; those that are gone are in no hit."""
    return list(_hits(state, rowids))


def _hits(state: MemoryTableVersion, rowids: Integers) -> Iterator[Hit]:
    for number, segment in enumerate(state.segments):
        for index, chunk in enumerate(segment.chunks()):
            current().check()
            start, end = np.searchsorted(rowids, [chunk.first, chunk.last() + 1])
            if start == end:
                continue
            places, there = chunk.positions(rowids[start:end])
            if chunk.deleted is not None:
                there = there & ~chunk.deleted[places]
            if there.any():
                wanted = np.arange(start, end, dtype=np.int64)[there]
                yield Hit(number, index, chunk, wanted, places[there])


def refuse_conflicts(hits: Sequence[Hit], rowids: Integers, version: int, table: str) -> None:
    """Raises Conflict for a row that is gone, or that a version after `version` changed."""
    found = sum(len(hit.wanted) for hit in hits)
    if found != len(rowids):
        there = np.zeros(len(rowids), dtype=np.bool_)
        for hit in hits:
            there[hit.wanted] = True
        raise Conflict(f"row {rowids[~there][0]} of table {table!r} was deleted by someone else")
    for hit in hits:
        if hit.chunk.changed is not None:
            newer = hit.chunk.changed[hit.places] > version
            if newer.any():
                row = rowids[hit.wanted[newer][0]]
                raise Conflict(f"row {row} of table {table!r} was changed by someone else")


def taken(state: MemoryTableVersion, hits: Sequence[Hit], rowids: Integers) -> pa.RecordBatch:
    """All columns of the rows, in the order of `rowids`; all must be in the hits."""
    parts = [hit.chunk.batch.take(pa.array(hit.places)) for hit in hits]
    columns = []
    for index, field in enumerate(state.schema):
        chunks = [part.column(index) for part in parts]
        columns.append(pa.concat_arrays(chunks) if chunks else pa.nulls(0, field.type))
    batch = pa.RecordBatch.from_arrays(columns, schema=state.schema)
    if not hits:
        return batch
    order = np.argsort(np.concatenate([hit.wanted for hit in hits]))
    return batch.take(pa.array(order))


def deleted(hit: Hit) -> Chunk | None:
    """The chunk without the rows; None if nothing is left."""
    mask: Mask = (
        np.zeros(hit.chunk.rows, dtype=np.bool_)
        if hit.chunk.deleted is None
        else hit.chunk.deleted.copy()
    )
    mask[hit.places] = True
    return without_deleted(hit.chunk.with_deleted(mask))


def updated(hit: Hit, columns: dict[int, pa.Array], version: int) -> Chunk:
    """The chunk with new values (one per wanted row) in some columns."""
    arrays = list(hit.chunk.batch.columns)
    for position, values in columns.items():
        arrays[position] = replaced(arrays[position], hit.places, values)
    changed = (
        np.zeros(hit.chunk.rows, dtype=np.int32)
        if hit.chunk.changed is None
        else hit.chunk.changed.copy()
    )
    changed[hit.places] = version
    batch = pa.RecordBatch.from_arrays(arrays, names=hit.chunk.batch.schema.names)
    bounds = {
        position: known for position, known in hit.chunk._bounds.items() if position not in columns
    }
    return replace(hit.chunk, batch=batch, changed=changed, _bounds=bounds)


def replaced(column: pa.Array, places: Integers, values: pa.Array) -> pa.Array:
    """The column with other values at some places (ascending)."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(replaced(column.storage, places, values.storage))
    no_kernel = pa.types.is_interval(kind) or pa.types.is_duration(kind)
    if pa.types.is_primitive(kind) and not no_kernel:
        mask = np.zeros(len(column), dtype=np.bool_)
        mask[places] = True
        return pc.replace_with_mask(column, pa.array(mask), values)
    # Works for every type, and is the quickest way for strings.
    index = _index(len(column))
    index[places] = np.arange(len(column), len(column) + len(places), dtype=np.int64)
    try:
        return pa.concat_arrays([column, values]).take(pa.array(index))
    finally:
        index[places] = places


_scratch = threading.local()


def _index(rows: int) -> Integers:
    """0, 1, 2 ...; the caller may change it and puts it right again.

    Kept by thread: fresh memory for every chunk costs more than the copying itself.
    """
    kept: Integers | None = getattr(_scratch, "index", None)
    if kept is None or len(kept) < rows:
        kept = _scratch.index = np.arange(max(rows, CHUNK_ROWS), dtype=np.int64)
    return kept[:rows]


def with_chunks(
    segments: tuple[Segment, ...], changes: dict[tuple[int, int], Chunk | None]
) -> tuple[Segment, ...]:
    """The segments with some chunks replaced, or taken out where the new one is None."""
    result: list[Segment] = []
    touched = {segment for segment, _ in changes}
    for number, segment in enumerate(segments):
        if number not in touched:
            result.append(segment)
            continue
        chunks = [
            changes.get((number, index), chunk) for index, chunk in enumerate(segment.chunks())
        ]
        kept = [chunk for chunk in chunks if chunk is not None]
        if kept:
            result.append(Segment(kept, tidy=True))
    return tuple(result)
