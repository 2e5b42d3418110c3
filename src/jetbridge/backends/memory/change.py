"""UPDATE and DELETE by row id."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import Chunk, Integers, Mask
from jetbridge.backends.memory.constraints import refuse_duplicates
from jetbridge.backends.memory.rows import (
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
from jetbridge.backends.memory.state import Store, TableCell, TableState
from jetbridge.catalog import ROWID, DMLOptions, DMLResult, UniqueKey, Write
from jetbridge.embedded import cast
from jetbridge.errors import BadRequest, Conflict, NotFound
from jetbridge.names import fold
from jetbridge.tables.constraints import check_rows
from jetbridge.tables.mapping import Mapping, refuse_null, update_mapping
from jetbridge.tables.row_ids import SeenRowIds, last_of_each, row_id_values
from jetbridge.tables.staging import Staging


@contextmanager
def updating(
    store: Store, cell: TableCell, state: TableState, options: DMLOptions
) -> Iterator[Write]:
    if cell.dropped:
        raise NotFound("table", cell.name())
    statement = _Update(store, cell, state, options)
    try:
        yield statement.write
        statement.commit()
    finally:
        statement.staging.close()


@contextmanager
def deleting(
    store: Store, cell: TableCell, state: TableState, options: DMLOptions
) -> Iterator[Write]:
    if cell.dropped:
        raise NotFound("table", cell.name())
    statement = _Delete(store, cell, state, options)
    yield statement.write
    statement.commit()


class _Update:
    def __init__(
        self, store: Store, cell: TableCell, state: TableState, options: DMLOptions
    ) -> None:
        self.store, self.cell, self.state, self.options = store, cell, state, options
        self.staging = Staging(store.options.spill_bytes, store.options.staged_bytes)
        self._mapping: Mapping | None = None
        self._seen = SeenRowIds()
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        mapping = self._mapping
        if mapping is None or not batch.schema.equals(mapping.sent):
            mapping = self._mapped(batch.schema)
        rowids = row_id_values(batch.column(mapping.rowid), self.cell.name())
        check_row_ids(rowids, self.cell)
        columns = mapping.columns(batch, self._rows, self.staging.room())
        self._rows += batch.num_rows
        names = [field.name for field in mapping.targets]
        stored = pa.RecordBatch.from_arrays([*columns, pa.array(rowids)], names=[*names, ROWID])
        if batch.num_rows:
            self.staging.add(stored)
        count = self._seen.new(rowids)
        return DMLResult(count, self._answer(stored, mapping) if self.options.returning else None)

    def _mapped(self, sent: pa.Schema) -> Mapping:
        mapping = update_mapping(sent, self.state.schema, self.cell.name())
        before = self._mapping
        if before is not None and [f.name for f in before.targets] != [
            f.name for f in mapping.targets
        ]:
            raise BadRequest("all batches of one UPDATE must set the same columns")
        self._mapping = mapping
        return mapping

    def _answer(self, stored: pa.RecordBatch, mapping: Mapping) -> pa.RecordBatch:
        """What was sent, in the order it was sent, with the types of the table."""
        fields, columns = list(mapping.targets), stored.columns
        values = columns[:-1]
        values.insert(mapping.rowid, columns[-1])
        fields.insert(mapping.rowid, pa.field(ROWID, pa.int64(), nullable=False))
        return pa.RecordBatch.from_arrays(values, schema=pa.schema(fields))

    def commit(self) -> None:
        if not self.staging.rows:
            return
        mapping = self._mapping
        assert mapping is not None  # noqa: S101 - rows were written
        rows = pa.Table.from_batches(self.staging.batches()).combine_chunks()
        rowids, values = last_of_each(rows)
        fields = mapping.targets
        if fields:
            self.store.publish(self.cell, lambda now: self._published(now, rowids, values, fields))

    def _published(
        self,
        now: TableState,
        rowids: Integers,
        values: list[pa.Array],
        fields: tuple[pa.Field, ...],
    ) -> TableState:
        table = self.cell.name()
        columns = self._columns(now, values, fields)
        hits = locate(now, rowids)
        refuse_conflicts(hits, rowids, self.state.version, table)
        version = now.version + 1
        chunks: dict[tuple[int, int], Chunk | None] = {}
        for hit in hits:
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

    def _columns(
        self, now: TableState, values: list[pa.Array], fields: tuple[pa.Field, ...]
    ) -> dict[int, pa.Array]:
        """The new values by position in the table as it is now."""
        columns: dict[int, pa.Array] = {}
        for field, array in zip(fields, values, strict=True):
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
        after: TableState,
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
        self, after: TableState, key: UniqueKey, rows: list[pa.RecordBatch], hits: list[Hit]
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
        self, store: Store, cell: TableCell, state: TableState, options: DMLOptions
    ) -> None:
        self.store, self.cell, self.state, self.options = store, cell, state, options
        self._seen = SeenRowIds()
        self._returned = projected(state.schema, [*range(len(state.schema)), -1])

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        names = [fold(name) for name in batch.schema.names]
        if ROWID not in names:
            raise BadRequest(f"table {self.cell.name()!r}: DELETE needs a column 'rowid'")
        rowids = row_id_values(batch.column(names.index(ROWID)), self.cell.name())
        check_row_ids(rowids, self.cell)
        count = self._seen.new(rowids)
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
        rowids = self._seen.all()
        if len(rowids):
            self.store.publish(self.cell, lambda now: self._published(now, rowids))

    def _published(self, now: TableState, rowids: Integers) -> TableState:
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
