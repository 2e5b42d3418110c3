"""Runs INSERT: stages the rows as they arrive and publishes them in one step."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import CHUNK_ROWS, Chunk, Segment
from jetbridge.backends.memory.row_lookup import refuse_duplicates
from jetbridge.backends.memory.scan import project_schema
from jetbridge.backends.memory.store import MemoryTableVersion, Store, TableCell
from jetbridge.backends.tables.column_mapping import ColumnMapping, map_insert_columns
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.backends.tables.staging import Staging
from jetbridge.backends.tables.updates import Integers
from jetbridge.catalog import DMLOptions, DMLResult, Write
from jetbridge.errors import BadRequest, Conflict, ConstraintViolation, NotFound

# INSERT joins the last segments of a table once more than this many of them are small.
_MOST_SMALL_SEGMENTS = 64


@contextmanager
def inserting(store: Store, cell: TableCell, options: DMLOptions) -> Iterator[Write]:
    """Run one INSERT: stage what is written, publish it at a clean exit."""
    if cell.dropped:
        raise NotFound("table", cell.name())
    # A handle may be old: rows go to the table as it is when the statement begins.
    statement = _MemoryInsert(store, cell, cell.state, options)
    try:
        yield statement.write
        statement.commit()
    finally:
        statement.staging.close()


class _MemoryInsert:
    """Stage the rows of one INSERT. With RETURNING, their row ids are staged with them."""

    def __init__(
        self, store: Store, cell: TableCell, state: MemoryTableVersion, options: DMLOptions
    ) -> None:
        self.store, self.cell, self.state, self.options = store, cell, state, options
        self.staging = Staging(store.options.spill_bytes, store.options.staged_bytes)
        self._mapping: ColumnMapping | None = None
        self._sent_schema: pa.Schema | None = None
        self._returned_schema = project_schema(state.schema, [*range(len(state.schema)), -1])

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        mapping = self._mapping_for(batch.schema)
        if mapping.unchanged:
            mapping.refuse_nulls(batch, self.staging.rows)
            stored = batch
        else:
            columns = mapping.convert(batch, self.staging.rows, self.staging.room())
            stored = pa.RecordBatch.from_arrays(columns, schema=self.state.schema)
        if self.options.returning:
            stored = self._with_row_ids(stored)
        if batch.num_rows:
            self.staging.add(stored)
        return DMLResult(batch.num_rows, stored if self.options.returning else None)

    def _mapping_for(self, schema: pa.Schema) -> ColumnMapping:
        sent = self._sent_schema
        if self._mapping is None or not (schema is sent or schema.equals(sent)):
            self._mapping = map_insert_columns(schema, self.state.schema, self.cell.name())
            self._sent_schema = schema
        return self._mapping

    def _with_row_ids(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        rows = stored.num_rows
        first = self.cell.allocate(rows)
        rowids = pa.array(np.arange(first, first + rows, dtype=np.int64))
        return pa.RecordBatch.from_arrays([*stored.columns, rowids], schema=self._returned_schema)

    def commit(self) -> None:
        """Check the rows and publish them."""
        if not self.staging.rows:
            return
        chunks = list(self._chunks())
        check_rows(self.state.definition, self.cell.name(), [chunk.batch for chunk in chunks])
        self.store.publish(self.cell, lambda current: self._with_rows(current, chunks))

    def _chunks(self) -> Iterator[Chunk]:
        if self.options.returning:
            for batch in self.staging.batches():
                *columns, rowids = batch.columns
                stored = pa.RecordBatch.from_arrays(columns, schema=self.state.schema)
                yield _chunk_with_row_ids(stored, rowids.to_numpy())
            return
        first = self.cell.allocate(self.staging.rows)
        for batch in self.staging.batches():
            yield Chunk(batch, first)
            first += batch.num_rows

    def _with_rows(self, current: MemoryTableVersion, chunks: list[Chunk]) -> MemoryTableVersion:
        """Return the table with the rows; raise DuplicateKey."""
        before, definition = self.state.definition, current.definition
        # A change of columns, defaults or constraints makes another schema object.
        if definition.schema is not before.schema or definition.checks != before.checks:
            chunks = self._convert_to(current, chunks)
        batches = [chunk.batch for chunk in chunks] if definition.keys else []
        for key in definition.keys:
            others = ((chunk, chunk.live_mask()) for chunk in current.chunks())
            refuse_duplicates(definition, self.cell.name(), key, batches, others)
        return replace(
            current,
            segments=_append(current.segments, Segment(chunks)),
            version=current.version + 1,
            time=self.store.next_time(current),
            cost=0,
        )

    def _convert_to(self, current: MemoryTableVersion, chunks: list[Chunk]) -> list[Chunk]:
        """Return the staged rows for a table that was altered in the meantime."""
        table = self.cell.name()
        try:
            mapping = map_insert_columns(self.state.schema, current.schema, table)
            converted = [
                chunk.with_batch(
                    pa.RecordBatch.from_arrays(
                        mapping.convert(chunk.batch, 0), schema=current.schema
                    )
                )
                for chunk in chunks
            ]
        except ConstraintViolation:
            raise
        except BadRequest as error:
            raise Conflict(
                f"table {table!r} was altered while the statement ran: {error}"
            ) from None
        check_rows(current.definition, table, [chunk.batch for chunk in converted])
        return converted


def _chunk_with_row_ids(batch: pa.RecordBatch, rowids: Integers) -> Chunk:
    first, last = int(rowids[0]), int(rowids[-1])
    return Chunk(batch, first, None if last - first + 1 == len(rowids) else rowids)


def _append(segments: tuple[Segment, ...], new: Segment) -> tuple[Segment, ...]:
    """Return the segments with a new one; many small segments at the end become one."""
    small, rows = 0, new.rows
    for segment in reversed(segments):
        if segment.rows >= CHUNK_ROWS // 2 or rows >= CHUNK_ROWS:
            break
        rows += segment.rows
        small += 1
    if small == 0 or (small < _MOST_SMALL_SEGMENTS and rows < CHUNK_ROWS):
        return (*segments, new)
    tail = Segment(
        [chunk for segment in (*segments[-small:], new) for chunk in segment.raw_chunks()]
    )
    if new.rows < CHUNK_ROWS // 2:
        tail.chunks()  # joins a small segment at once; the first reader joins a large one
    return (*segments[:-small], tail)
