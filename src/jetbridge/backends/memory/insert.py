"""INSERT: rows are staged as they come and published in one step."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import CHUNK_ROWS, Chunk, Segment, join
from jetbridge.backends.memory.constraints import check_rows, key_table, refuse_duplicates
from jetbridge.backends.memory.mapping import Mapping, insert_mapping
from jetbridge.backends.memory.scan import projected
from jetbridge.backends.memory.staging import Staging
from jetbridge.backends.memory.state import Store, TableCell, TableState
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
        self, store: Store, cell: TableCell, state: TableState, options: DMLOptions
    ) -> None:
        self.store, self.cell, self.state, self.options = store, cell, state, options
        self.staging = Staging(store.options.spill_bytes)
        self.first_rowids: list[int] = []
        self._mapping: Mapping | None = None
        self._sent: pa.Schema | None = None
        everything = [*range(len(state.schema)), -1]
        self._returned = projected(state.schema, everything)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        rows = batch.num_rows
        mapping = self._mapping_of(batch.schema)
        if mapping.same:
            if mapping.required:
                mapping.refuse_nulls(batch.columns, self.staging.rows)
            stored = batch
        else:
            columns = mapping.columns(batch, self.staging.rows)
            stored = pa.RecordBatch.from_arrays(columns, schema=self.state.schema)
        if rows:
            self.staging.add(stored)
        if not self.options.returning:
            return DMLResult(rows)
        return DMLResult(rows, self._answer(stored))

    def _mapping_of(self, sent: pa.Schema) -> Mapping:
        if self._mapping is None or not (sent is self._sent or sent.equals(self._sent)):
            self._mapping = insert_mapping(sent, self.state.schema, self.cell.name())
            self._sent = sent
        return self._mapping

    def _answer(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        rows = stored.num_rows
        first = self.cell.allocate(rows)
        if rows:
            self.first_rowids.append(first)
        rowids = pa.array(np.arange(first, first + rows, dtype=np.int64))
        return pa.RecordBatch.from_arrays([*stored.columns, rowids], schema=self._returned)

    def commit(self) -> None:
        if not self.staging.rows:
            return
        batches = list(self.staging.batches())
        firsts = self.first_rowids
        if not self.options.returning:
            first = self.cell.allocate(self.staging.rows)
            ends = np.cumsum([batch.num_rows for batch in batches])
            firsts = [first + int(end) - b.num_rows for end, b in zip(ends, batches, strict=True)]
        check_rows(self.state, self.cell.name(), batches)
        self.store.publish(self.cell, lambda now: self._published(now, batches, firsts))

    def _published(
        self, now: TableState, batches: list[pa.RecordBatch], firsts: list[int]
    ) -> TableState:
        # Columns, defaults and constraints change with the schema object only.
        if now.schema is not self.state.schema or now.checks != self.state.checks:
            batches = self._remapped(now, batches)
        for key in now.keys:
            others = ((c, None if c.deleted is None else ~c.deleted) for c in now.chunks())
            refuse_duplicates(self.cell.name(), key, key_table(now, key, batches), others, now)
        segment = Segment([Chunk(b, f) for b, f in zip(batches, firsts, strict=True)])
        return replace(
            now,
            segments=_with_tail(now.segments, segment),
            version=now.version + 1,
            time=self.store.now(now),
            cost=0,
        )

    def _remapped(self, now: TableState, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The staged rows for a table that was altered meanwhile."""
        table = self.cell.name()
        try:
            mapping = insert_mapping(self.state.schema, now.schema, table)
            moved = [
                pa.RecordBatch.from_arrays(mapping.columns(batch, 0), schema=now.schema)
                for batch in batches
            ]
        except ConstraintViolation:
            raise
        except BadRequest as error:
            raise Conflict(
                f"table {table!r} was altered while the statement ran: {error}"
            ) from None
        check_rows(now, table, moved)
        return moved


def _with_tail(segments: tuple[Segment, ...], new: Segment) -> tuple[Segment, ...]:
    """The segments with a new one; many small ones at the end become one."""
    small = 0
    rows = new.rows
    for segment in reversed(segments):
        if rows + segment.rows > CHUNK_ROWS:
            break
        rows += segment.rows
        small += 1
    if small < _MOST_SMALL:
        return (*segments, new)
    kept, tail = segments[:-small], (*segments[-small:], new)
    chunks = [chunk for segment in tail for chunk in segment.chunks()]
    if any(b.first <= a.last() for a, b in zip(chunks, chunks[1:], strict=False)):
        return (*kept, Segment(chunks, tidy=True))
    return (*kept, Segment([join(chunks)]))
