"""Holds rows: immutable chunks, and segments that join small chunks at the first read."""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.backends.memory.value_order import Bounds, bounds_of
from jetbridge.backends.tables.staging import JOINED_BYTES, JOINED_ROWS, concatenate
from jetbridge.backends.tables.updates import Integers, Mask
from jetbridge.runtime.array_sizes import array_bytes

# One chunk is one batch of a scan: large enough to be cheap on the wire, small enough to stream.
CHUNK_ROWS = JOINED_ROWS

Versions = npt.NDArray[np.int32]  # half the memory of int64; enough for two billion versions


@dataclass(frozen=True, eq=False)
class Chunk:
    """Hold up to `CHUNK_ROWS` rows, their row ids, deletions and versions.

    `batch` has the columns of the table by position; its names, nullability and metadata have no
    meaning. Row ids are `first` + position, unless `rowids` (ascending) lists them.
    `changed` has the version that last updated each row; None: no row was updated.
    """

    batch: pa.RecordBatch
    first: int
    rowids: Integers | None = None
    deleted: Mask | None = None
    changed: Versions | None = None
    _bounds: dict[int, Bounds] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    def last(self) -> int:
        """Return the largest row id."""
        return self.first + self.rows - 1 if self.rowids is None else int(self.rowids[-1])

    def live_rows(self) -> int:
        """Return the number of rows that are not deleted."""
        return self.rows if self.deleted is None else self.rows - int(self.deleted.sum())

    def live_mask(self) -> Mask | None:
        """Return which rows are not deleted; None: all of them."""
        return None if self.deleted is None else ~self.deleted

    def row_ids(self) -> Integers:
        if self.rowids is not None:
            return self.rowids
        return np.arange(self.first, self.first + self.rows, dtype=np.int64)

    def positions(self, rowids: Integers) -> tuple[Integers, Mask]:
        """Return the positions of row ids (all within first..last), and which of them exist."""
        if self.rowids is None:
            return rowids - self.first, np.ones(len(rowids), dtype=np.bool_)
        positions = np.searchsorted(self.rowids, rowids).astype(np.int64)
        return positions, self.rowids[positions] == rowids

    def bounds(self, column: int) -> Bounds:
        """Return the smallest and largest value of a column, deleted rows included.

        The first call computes them. Two threads may do so at once and get the same answer.
        """
        bounds = self._bounds.get(column)
        if bounds is None:
            bounds = self._bounds[column] = bounds_of(self.batch.column(column))
        return bounds

    def with_batch(self, batch: pa.RecordBatch) -> "Chunk":
        """Return the chunk with other values for the same rows."""
        return replace(self, batch=batch, _bounds={})

    def with_columns(self, columns: Mapping[int, pa.Array], changed: Versions) -> "Chunk":
        """Return the chunk with other values in some columns, by position."""
        arrays = [columns.get(index, array) for index, array in enumerate(self.batch.columns)]
        batch = pa.RecordBatch.from_arrays(arrays, names=self.batch.schema.names)
        bounds = {index: known for index, known in self._bounds.items() if index not in columns}
        return replace(self, batch=batch, changed=changed, _bounds=bounds)

    def with_deleted(self, deleted: Mask) -> "Chunk":
        """Return the chunk with other deletions; the bounds stay correct for fewer rows."""
        return replace(self, deleted=deleted)


ChunkRows = tuple[Chunk, Mask | None]  # a chunk, and which of its rows are selected; None: all


class Segment:
    """Hold the rows of one statement, or of several statements that were joined.

    Versions of a table share segments. A statement may leave thousands of small batches in one;
    the first reader joins them and frees the small ones as it goes, so that no version holds
    the rows twice.
    """

    def __init__(self, chunks: Sequence[Chunk], *, joined: bool = False) -> None:
        self._chunks = tuple(chunks)
        self._joined = joined or (len(self._chunks) == 1 and self._chunks[0].rows <= CHUNK_ROWS)
        self._lock = threading.Lock()
        self.live_rows = sum(chunk.live_rows() for chunk in self._chunks)
        self.rows = sum(chunk.rows for chunk in self._chunks)

    def chunks(self) -> tuple[Chunk, ...]:
        """Return the joined chunks; every call returns the same ones."""
        if not self._joined:
            with self._lock:
                if not self._joined:
                    self._join()
        return self._chunks

    def raw_chunks(self) -> tuple[Chunk, ...]:
        """Return the chunks as they are now, joined or not."""
        with self._lock:
            return self._chunks

    def _join(self) -> None:
        pending = deque(self._chunks)
        self._chunks = ()  # drops the last reference to chunks that have been copied
        joined: list[Chunk] = []
        group: list[Chunk] = []
        try:
            while pending:
                group = _take_group(pending)
                joined += _cut(group[0]) if len(group) == 1 else [join_chunks(group)]
                group = []
            self._joined = True
        finally:
            # Out of memory half way: all rows are still here, only not all of them joined.
            self._chunks = (*joined, *group, *pending)


def _take_group(pending: deque[Chunk]) -> list[Chunk]:
    """Remove and return the leading chunks that become the next joined chunk."""
    group = [pending.popleft()]
    rows, size = group[0].rows, array_bytes(group[0].batch)
    while pending and pending[0].first > group[-1].last():
        rows += pending[0].rows
        size += array_bytes(pending[0].batch)
        if rows > CHUNK_ROWS or size > JOINED_BYTES:
            break
        group.append(pending.popleft())
    return group


def _cut(chunk: Chunk) -> list[Chunk]:
    """Cut a chunk that is too large; only a new INSERT has one: no deletions, no changes."""
    if chunk.rows <= CHUNK_ROWS:
        return [chunk]
    return [
        Chunk(chunk.batch.slice(start, CHUNK_ROWS), chunk.first + start)
        for start in range(0, chunk.rows, CHUNK_ROWS)
    ]


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Return one chunk of several whose row ids ascend."""
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(
        concatenate([chunk.batch for chunk in chunks]),
        chunks[0].first,
        _join_row_ids(chunks),
        _join_attribute(chunks, "deleted", np.bool_),
        _join_attribute(chunks, "changed", np.int32),
    )


def _join_row_ids(chunks: Sequence[Chunk]) -> Integers | None:
    rows = sum(chunk.rows for chunk in chunks)
    if chunks[-1].last() - chunks[0].first + 1 == rows:
        return None  # ascending without a gap
    return np.concatenate([chunk.row_ids() for chunk in chunks])


def _join_attribute(chunks: Sequence[Chunk], name: str, dtype: Any) -> Any:
    parts = [getattr(chunk, name) for chunk in chunks]
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [
            np.zeros(chunk.rows, dtype=dtype) if part is None else part
            for chunk, part in zip(chunks, parts, strict=True)
        ]
    )


def compact(chunk: Chunk) -> Chunk | None:
    """Drop the deleted rows once they are half of all; return None if no row is left."""
    live = chunk.live_rows()
    if live == 0:
        return None
    return chunk if live * 2 > chunk.rows else drop_deleted_rows(chunk)


def drop_deleted_rows(chunk: Chunk) -> Chunk:
    """Return the chunk without its deleted rows."""
    if chunk.deleted is None:
        return chunk
    positions = np.flatnonzero(~chunk.deleted)
    rowids = chunk.row_ids()[positions]
    changed = None if chunk.changed is None else chunk.changed[positions]
    first = int(rowids[0]) if len(rowids) else chunk.first
    return Chunk(chunk.batch.take(pa.array(positions)), first, rowids, None, changed)
