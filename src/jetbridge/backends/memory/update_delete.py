"""UPDATE and DELETE by row id."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import Chunk, Integers, Mask
from jetbridge.backends.memory.constraints import refuse_duplicates
from jetbridge.backends.memory.row_lookup import (
    Hit,
    check_row_ids,
    deleted,
    locate,
    refuse_conflicts,
    taken,
    updated,
    with_chunks,
)
from jetbridge.backends.memory.scan import projected
from jetbridge.backends.memory.store import MemoryTableVersion, Store, TableCell
from jetbridge.backends.tables.column_mapping import refuse_null
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.backends.tables.row_ids import RowIdSet, read_row_ids
from jetbridge.backends.tables.staging import Staging
from jetbridge.backends.tables.updates import StagedUpdate, UpdatedRows
from jetbridge.catalog import ROWID, DMLOptions, DMLResult, UniqueKey, Write
from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine import cast
from jetbridge.errors import BadRequest, Conflict, NotFound
from jetbridge.runtime.cancellation import current


@contextmanager
def updating(
    store: Store, cell: TableCell, state: MemoryTableVersion, options: DMLOptions
) -> Iterator[Write]:
    if cell.dropped:
        raise NotFound("table", cell.name())
    staging = Staging(store.options.spill_bytes, store.options.staged_bytes)
    check = partial(check_row_ids, cell=cell)
    staged = StagedUpdate(cell.name(), state.schema, options, staging, check)
    try:
        yield staged.write
        new = staged.updated_rows()
        if new is not None:
            _Update(store, cell, state, new).commit()
    finally:
        staged.close()


@contextmanager
def deleting(
    store: Store, cell: TableCell, state: MemoryTableVersion, options: DMLOptions
) -> Iterator[Write]:
    if cell.dropped:
        raise NotFound("table", cell.name())
    statement = _Delete(store, cell, state, options)
    yield statement.write
    statement.commit()


class _Update:
    """One UPDATE against the table as it is now."""

    def __init__(
        self, store: Store, cell: TableCell, state: MemoryTableVersion, new: UpdatedRows
    ) -> None:
        self.store, self.cell, self.state, self.new = store, cell, state, new

    def commit(self) -> None:
        self.store.publish(self.cell, self._published)

    def _published(self, now: MemoryTableVersion) -> MemoryTableVersion:
        columns = self._columns(now)
        hits = locate(now, self.new.row_ids)
        refuse_conflicts(hits, self.new.row_ids, self.state.version, self.cell.name())
        version = now.version + 1
        chunks: dict[tuple[int, int], Chunk | None] = {}
        for hit in hits:
            current().check()
            index = pa.array(hit.wanted)
            new = {position: array.take(index) for position, array in columns.items()}
            chunks[hit.segment, hit.index] = updated(hit, new, version)
        after = replace(
            now,
            segments=with_chunks(now.segments, chunks),
            version=version,
            time=self.store.now(now),
            cost=sum(_cost(chunk, columns) for chunk in chunks.values() if chunk is not None),
        )
        self._judge(after, hits, chunks, set(columns))
        return after

    def _columns(self, now: MemoryTableVersion) -> dict[int, pa.Array]:
        """The new values by position in the table as it is now."""
        columns: dict[int, pa.Array] = {}
        for field, array in zip(self.new.fields, self.new.values, strict=True):
            position = now.definition.position(field.name)
            if position is None:
                raise Conflict(
                    f"column {field.name!r} of {self.cell.name()!r} was removed meanwhile"
                )
            target = now.schema.field(position)
            try:
                columns[position] = cast(array, target)
            except BadRequest as error:
                raise Conflict(f"{self.cell.name()!r} was altered meanwhile: {error}") from None
            refuse_null(columns[position], target, self.cell.name(), 0)
        return columns

    def _judge(
        self,
        after: MemoryTableVersion,
        hits: list[Hit],
        chunks: dict[tuple[int, int], Chunk | None],
        columns: set[int],
    ) -> None:
        definition = after.definition
        names = {fold(definition.schema.field(position).name) for position in columns}
        keys = [key for key in definition.keys if names & {fold(name) for name in key.columns}]
        if not keys and not definition.checks:
            return
        rows = [
            chunk.batch.take(pa.array(hit.places))
            for hit in hits
            if (chunk := chunks[hit.segment, hit.index]) is not None
        ]
        check_rows(definition, self.cell.name(), rows)
        for key in keys:
            self._judge_key(after, key, rows, hits)

    def _judge_key(
        self, after: MemoryTableVersion, key: UniqueKey, rows: list[pa.RecordBatch], hits: list[Hit]
    ) -> None:
        places = {(hit.segment, hit.index): hit.places for hit in hits}
        others = (
            (chunk, _others(chunk, places.get((number, index))))
            for number, segment in enumerate(after.segments)
            for index, chunk in enumerate(segment.chunks())
        )
        refuse_duplicates(after.definition, self.cell.name(), key, rows, others)


def _others(chunk: Chunk, places: Integers | None) -> Mask | None:
    if places is None:
        return None if chunk.deleted is None else ~chunk.deleted
    mask = np.ones(chunk.rows, dtype=np.bool_) if chunk.deleted is None else ~chunk.deleted
    mask[places] = False
    return mask


def _cost(chunk: Chunk, columns: dict[int, pa.Array]) -> int:
    return 9 * chunk.rows + int(sum(chunk.batch.column(p).nbytes for p in columns))


class _Delete:
    def __init__(
        self, store: Store, cell: TableCell, state: MemoryTableVersion, options: DMLOptions
    ) -> None:
        self.store, self.cell, self.state, self.options = store, cell, state, options
        self._seen = RowIdSet()
        self._returned = projected(state.schema, [*range(len(state.schema)), -1])

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        names = [fold(name) for name in batch.schema.names]
        if ROWID not in names:
            raise BadRequest(f"table {self.cell.name()!r}: DELETE needs a column 'rowid'")
        rowids = read_row_ids(batch.column(names.index(ROWID)), self.cell.name())
        check_row_ids(rowids, self.cell)
        count = self._seen.add(rowids)
        return DMLResult(count, self._answer(rowids) if self.options.returning else None)

    def _answer(self, rowids: Integers) -> pa.RecordBatch:
        """The rows as the handle sees them, in the order of the row ids sent."""
        distinct, back = np.unique(rowids, return_inverse=True)
        hits = locate(self.state, distinct)
        refuse_conflicts(hits, distinct, self.state.version, self.cell.name())
        rows = taken(self.state, hits, distinct)
        columns = [*rows.take(pa.array(back.astype(np.int64))).columns, pa.array(rowids)]
        return pa.RecordBatch.from_arrays(columns, schema=self._returned)

    def commit(self) -> None:
        rowids = self._seen.sorted()
        if len(rowids):
            self.store.publish(self.cell, lambda now: self._published(now, rowids))

    def _published(self, now: MemoryTableVersion, rowids: Integers) -> MemoryTableVersion:
        hits = locate(now, rowids)
        refuse_conflicts(hits, rowids, self.state.version, self.cell.name())
        chunks = {(hit.segment, hit.index): deleted(hit) for hit in hits}
        return replace(
            now,
            segments=with_chunks(now.segments, chunks),
            version=now.version + 1,
            time=self.store.now(now),
            cost=sum(hit.chunk.rows for hit in hits) + _freed(hits, chunks),
        )


def _freed(hits: list[Hit], chunks: dict[tuple[int, int], Chunk | None]) -> int:
    """Bytes of the chunks that the new version no longer shares with the old one."""
    total = 0
    for hit in hits:
        after = chunks[hit.segment, hit.index]
        if after is None or after.batch is not hit.chunk.batch:
            total += hit.chunk.batch.nbytes
    return total
