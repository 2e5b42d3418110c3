"""Runs UPDATE and DELETE by row id."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import Chunk
from jetbridge.backends.memory.row_lookup import (
    ChunkKey,
    LocatedRows,
    check_row_ids,
    delete_rows,
    locate_rows,
    refuse_conflicts,
    refuse_duplicates,
    replace_chunks,
    take_rows,
    update_rows,
)
from jetbridge.backends.memory.scan import project_schema
from jetbridge.backends.memory.store import MemoryTableVersion, Store, TableCell
from jetbridge.backends.tables.column_mapping import refuse_null
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.backends.tables.staging import Staging
from jetbridge.backends.tables.updates import (
    Integers,
    Mask,
    RowIdSet,
    StagedUpdate,
    UpdatedRows,
    read_deleted_row_ids,
)
from jetbridge.catalog import DMLOptions, DMLResult, UniqueKey, Write
from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine import cast
from jetbridge.errors import BadRequest, Conflict, NotFound
from jetbridge.runtime import cancellation
from jetbridge.runtime.array_sizes import array_bytes

ChangedChunks = dict[ChunkKey, Chunk | None]  # None: no row is left


@contextmanager
def updating(
    store: Store, cell: TableCell, state: MemoryTableVersion, options: DMLOptions
) -> Iterator[Write]:
    """Run one UPDATE: stage what is written, publish it at a clean exit."""
    if cell.dropped:
        raise NotFound("table", cell.name())
    staging = Staging(store.options.spill_bytes, store.options.staged_bytes)
    check = partial(check_row_ids, cell=cell)
    staged = StagedUpdate(cell.name(), state.schema, options, staging, check)
    try:
        yield staged.write
        updated = staged.updated_rows()
        if updated is not None:
            _MemoryUpdate(store, cell, state, updated).commit()
    finally:
        staged.close()


@contextmanager
def deleting(
    store: Store, cell: TableCell, state: MemoryTableVersion, options: DMLOptions
) -> Iterator[Write]:
    """Run one DELETE: collect row ids, delete their rows at a clean exit."""
    if cell.dropped:
        raise NotFound("table", cell.name())
    statement = _MemoryDelete(store, cell, state, options)
    yield statement.write
    statement.commit()


class _MemoryUpdate:
    """Publish one UPDATE against the table as it is now."""

    def __init__(
        self, store: Store, cell: TableCell, state: MemoryTableVersion, updated: UpdatedRows
    ) -> None:
        self.store, self.cell, self.state, self.updated = store, cell, state, updated

    def commit(self) -> None:
        self.store.publish(self.cell, self._apply)

    def _apply(self, current: MemoryTableVersion) -> MemoryTableVersion:
        """Return the table with the new values; raise Conflict or a violated constraint."""
        columns = self._columns(current)
        rowids = self.updated.row_ids
        located = locate_rows(current, rowids)
        refuse_conflicts(located, rowids, self.state.version, self.cell.name())
        version = current.version + 1
        chunks: ChangedChunks = {}
        for rows in located:
            cancellation.current().check()
            indexes = pa.array(rows.indexes)
            values = {position: array.take(indexes) for position, array in columns.items()}
            chunks[rows.key] = update_rows(rows, values, version)
        after = replace(
            current,
            segments=replace_chunks(current.segments, chunks),
            version=version,
            time=self.store.next_time(current),
            cost=sum(_cost(chunk, columns) for chunk in chunks.values() if chunk is not None),
        )
        self._check_constraints(after, located, chunks, set(columns))
        return after

    def _columns(self, current: MemoryTableVersion) -> dict[int, pa.Array]:
        """Return the new values by their position in the table as it is now."""
        columns: dict[int, pa.Array] = {}
        table = self.cell.name()
        for field, array in zip(self.updated.fields, self.updated.values, strict=True):
            position = current.definition.position(field.name)
            if position is None:
                raise Conflict(
                    f"column {field.name!r} of table {table!r} was dropped while the statement ran"
                )
            target = current.schema.field(position)
            try:
                columns[position] = cast(array, target)
            except BadRequest as error:
                raise Conflict(
                    f"table {table!r} was altered while the statement ran: {error}"
                ) from None
            refuse_null(columns[position], target, table, 0)
        return columns

    def _check_constraints(
        self,
        after: MemoryTableVersion,
        located: list[LocatedRows],
        chunks: ChangedChunks,
        columns: set[int],
    ) -> None:
        """Check every CHECK, and the keys that have a changed column."""
        definition = after.definition
        names = {fold(definition.schema.field(position).name) for position in columns}
        keys = [key for key in definition.keys if names & {fold(name) for name in key.columns}]
        if not keys and not definition.checks:
            return
        batches = [
            chunk.batch.take(pa.array(rows.positions))
            for rows in located
            if (chunk := chunks[rows.key]) is not None
        ]
        check_rows(definition, self.cell.name(), batches)
        for key in keys:
            self._check_key(after, key, batches, located)

    def _check_key(
        self,
        after: MemoryTableVersion,
        key: UniqueKey,
        batches: list[pa.RecordBatch],
        located: list[LocatedRows],
    ) -> None:
        positions = {rows.key: rows.positions for rows in located}
        others = (
            (chunk, _other_rows(chunk, positions.get((number, index))))
            for number, segment in enumerate(after.segments)
            for index, chunk in enumerate(segment.chunks())
        )
        refuse_duplicates(after.definition, self.cell.name(), key, batches, others)


def _other_rows(chunk: Chunk, positions: Integers | None) -> Mask | None:
    """Return the live rows of a chunk, without those at the positions."""
    live = chunk.live_mask()
    if positions is None:
        return live
    mask = np.ones(chunk.rows, dtype=np.bool_) if live is None else live
    mask[positions] = False
    return mask


def _cost(chunk: Chunk, columns: dict[int, pa.Array]) -> int:
    return 9 * chunk.rows + int(sum(chunk.batch.column(p).nbytes for p in columns))


class _MemoryDelete:
    """Collect the row ids of one DELETE, and delete their rows."""

    def __init__(
        self, store: Store, cell: TableCell, state: MemoryTableVersion, options: DMLOptions
    ) -> None:
        self.store, self.cell, self.state, self.options = store, cell, state, options
        self._row_ids = RowIdSet()
        self._returned_schema = project_schema(state.schema, [*range(len(state.schema)), -1])

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        rowids = read_deleted_row_ids(batch, self.cell.name())
        check_row_ids(rowids, self.cell)
        count = self._row_ids.add(rowids)
        return DMLResult(
            count, self._fetch_deleted_rows(rowids) if self.options.returning else None
        )

    def _fetch_deleted_rows(self, rowids: Integers) -> pa.RecordBatch:
        """Return the rows as the handle sees them, in the order of the row ids."""
        distinct, inverse = np.unique(rowids, return_inverse=True)
        located = locate_rows(self.state, distinct)
        refuse_conflicts(located, distinct, self.state.version, self.cell.name())
        rows = take_rows(self.state, located)
        columns = [*rows.take(pa.array(inverse.astype(np.int64))).columns, pa.array(rowids)]
        return pa.RecordBatch.from_arrays(columns, schema=self._returned_schema)

    def commit(self) -> None:
        rowids = self._row_ids.sorted()
        if len(rowids):
            self.store.publish(self.cell, lambda current: self._apply(current, rowids))

    def _apply(self, current: MemoryTableVersion, rowids: Integers) -> MemoryTableVersion:
        located = locate_rows(current, rowids)
        refuse_conflicts(located, rowids, self.state.version, self.cell.name())
        chunks = {rows.key: delete_rows(rows) for rows in located}
        return replace(
            current,
            segments=replace_chunks(current.segments, chunks),
            version=current.version + 1,
            time=self.store.next_time(current),
            cost=sum(rows.chunk.rows for rows in located) + _count_freed_bytes(located, chunks),
        )


def _count_freed_bytes(located: list[LocatedRows], chunks: ChangedChunks) -> int:
    """Return the bytes of chunks that the new version does not share with the old one."""
    total = 0
    for rows in located:
        after = chunks[rows.key]
        if after is None or after.batch is not rows.chunk.batch:
            total += array_bytes(rows.chunk.batch)
    return total
