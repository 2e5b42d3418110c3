"""INSERT: rows are staged as they come and published in one step."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import CHUNK_ROWS, Chunk, Integers, Segment
from jetbridge.backends.memory.constraints import refuse_duplicates
from jetbridge.backends.memory.scan import projected
from jetbridge.backends.memory.store import MemoryTableVersion, Store, TableCell
from jetbridge.backends.tables.column_mapping import ColumnMapping, map_insert_columns
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.backends.tables.staging import Staging
from jetbridge.catalog import DMLOptions, DMLResult, Write
from jetbridge.errors import BadRequest, Conflict, ConstraintViolation, NotFound

# With more small segments at the end than this, INSERT puts them together.
_MOST_SMALL = 64


@contextmanager
def inserting(store: Store, cell: TableCell, options: DMLOptions) -> Iterator[Write]:
    if cell.dropped:
        raise NotFound("table", cell.name())
    # An old handle may write: its rows go to the table as it is when the statement begins.
    statement = _Insert(store, cell, cell.state, options)
    try:
        yield statement.write
        statement.commit()
    finally:
        statement.staging.close()


class _Insert:
    def __init__(
        self, store: Store, cell: TableCell, state: MemoryTableVersion, options: DMLOptions
    ) -> None:
        self.store, self.cell, self.state, self.options = store, cell, state, options
        self.staging = Staging(store.options.spill_bytes, store.options.staged_bytes)
        self._mapping: ColumnMapping | None = None
        self._sent: pa.Schema | None = None
        everything = [*range(len(state.schema)), -1]
        self._returned = projected(state.schema, everything)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        rows = batch.num_rows
        mapping = self._mapping_of(batch.schema)
        if mapping.same:
            for index in mapping.required:
                column = batch.column(index)
                if column.null_count:
                    mapping.refuse_null(index, column, self.staging.rows)
            stored = batch
        else:
            columns = mapping.convert(batch, self.staging.rows, self.staging.room())
            stored = pa.RecordBatch.from_arrays(columns, schema=self.state.schema)
        if self.options.returning:
            stored = self._answer(stored)
        if rows:
            self.staging.add(stored)
        return DMLResult(rows, stored if self.options.returning else None)

    def _mapping_of(self, sent: pa.Schema) -> ColumnMapping:
        if self._mapping is None or not (sent is self._sent or sent.equals(self._sent)):
            self._mapping = map_insert_columns(sent, self.state.schema, self.cell.name())
            self._sent = sent
        return self._mapping

    def _answer(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with their row ids, which are staged with them."""
        rows = stored.num_rows
        first = self.cell.allocate(rows)
        rowids = pa.array(np.arange(first, first + rows, dtype=np.int64))
        return pa.RecordBatch.from_arrays([*stored.columns, rowids], schema=self._returned)

    def commit(self) -> None:
        if not self.staging.rows:
            return
        chunks = list(self._chunks())
        check_rows(self.state.definition, self.cell.name(), [chunk.batch for chunk in chunks])
        self.store.publish(self.cell, lambda now: self._published(now, chunks))

    def _chunks(self) -> Iterator[Chunk]:
        if self.options.returning:
            for batch in self.staging.batches():
                *columns, last = batch.columns
                yield _chunk(pa.RecordBatch.from_arrays(columns, schema=self.state.schema), last)
            return
        first = self.cell.allocate(self.staging.rows)
        for batch in self.staging.batches():
            yield Chunk(batch, first)
            first += batch.num_rows

    def _published(self, now: MemoryTableVersion, chunks: list[Chunk]) -> MemoryTableVersion:
        then, definition = self.state.definition, now.definition
        # Columns, defaults and constraints change with the schema object only.
        if definition.schema is not then.schema or definition.checks != then.checks:
            chunks = self._remapped(now, chunks)
        batches = [chunk.batch for chunk in chunks] if definition.keys else []
        for key in definition.keys:
            others = ((c, None if c.deleted is None else ~c.deleted) for c in now.chunks())
            refuse_duplicates(definition, self.cell.name(), key, batches, others)
        return replace(
            now,
            segments=_with_tail(now.segments, Segment(chunks)),
            version=now.version + 1,
            time=self.store.now(now),
            cost=0,
        )

    def _remapped(self, now: MemoryTableVersion, chunks: list[Chunk]) -> list[Chunk]:
        """The staged rows for a table that was altered meanwhile."""
        table = self.cell.name()
        try:
            mapping = map_insert_columns(self.state.schema, now.schema, table)
            moved = [
                chunk.with_batch(
                    pa.RecordBatch.from_arrays(mapping.convert(chunk.batch, 0), schema=now.schema)
                )
                for chunk in chunks
            ]
        except ConstraintViolation:
            raise
        except BadRequest as error:
            raise Conflict(
                f"table {table!r} was altered while the statement ran: {error}"
            ) from None
        check_rows(now.definition, table, [chunk.batch for chunk in moved])
        return moved


def _chunk(batch: pa.RecordBatch, column: pa.Array) -> Chunk:
    rowids: Integers = column.to_numpy()
    first, last = int(rowids[0]), int(rowids[-1])
    return Chunk(batch, first, None if last - first + 1 == len(rowids) else rowids)


def _with_tail(segments: tuple[Segment, ...], new: Segment) -> tuple[Segment, ...]:
    """The segments with a new one; many small ones at the end become one."""
    small, rows = 0, new.rows
    for segment in reversed(segments):
        if segment.rows >= CHUNK_ROWS // 2 or rows >= CHUNK_ROWS:
            break
        rows += segment.rows
        small += 1
    if small == 0 or (small < _MOST_SMALL and rows < CHUNK_ROWS):
        return (*segments, new)
    tail = Segment([chunk for s in (*segments[-small:], new) for chunk in s.raw()])
    if new.rows < CHUNK_ROWS // 2:
        tail.chunks()  # at once, while the copy is small; a large one is left to the first reader
    return (*segments[:-small], tail)
