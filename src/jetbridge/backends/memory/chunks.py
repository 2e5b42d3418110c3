"""Rows in memory: immutable chunks, and segments that put small ones together when first read."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.backends.memory.value_order import Bounds, bounds_of
from jetbridge.backends.tables.staging import JOINED_BYTES, JOINED_ROWS, concatenate

# One chunk is one batch of a scan: large enough to be cheap on the wire, small enough to stream.
CHUNK_ROWS = JOINED_ROWS

Integers = npt.NDArray[np.int64]
Versions = npt.NDArray[np.int32]  # half the memory of the row ids, for two thousand million of them
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Up to `CHUNK_ROWS` rows and what is known about each.

    `batch` has the columns of the table by position; its names, nullability and metadata mean
    nothing. Row ids are `first` + position, unless `rowids` (ascending) says otherwise.
    `changed` is the version that last updated each row; None: none did.
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
        """The largest row id."""
        return self.first + self.rows - 1 if self.rowids is None else int(self.rowids[-1])

    def live(self) -> int:
        return self.rows if self.deleted is None else self.rows - int(self.deleted.sum())

    def row_ids(self) -> Integers:
        if self.rowids is not None:
            return self.rowids
        return np.arange(self.first, self.first + self.rows, dtype=np.int64)

    def positions(self, rowids: Integers) -> tuple[Integers, Mask]:
        """Where the row ids (all within first..last) are, and which are there at all."""
        if self.rowids is None:
            return rowids - self.first, np.ones(len(rowids), dtype=np.bool_)
        found = np.searchsorted(self.rowids, rowids).astype(np.int64)
        return found, self.rowids[found] == rowids

    def bounds(self, column: int) -> Bounds:
        """Smallest and largest value of a column, deleted rows included; None if all are NULL.

        Computed at the first use. Two threads may do so at once, with the same answer.
        """
        known = self._bounds.get(column)
        if known is None:
            known = self._bounds[column] = bounds_of(self.batch.column(column))
        return known

    def with_batch(self, batch: pa.RecordBatch) -> "Chunk":
        return replace(self, batch=batch, _bounds={})

    def with_deleted(self, deleted: Mask) -> "Chunk":
        # The bounds stay true of fewer rows.
        return replace(self, deleted=deleted)


class Segment:
    """The rows of one statement, or of several that were put together.

    Versions of a table share segments. A statement may leave thousands of small batches in one;
    the first reader joins them, and frees the small ones as it goes, so that no version holds
    the rows twice.
    """

    def __init__(self, chunks: Sequence[Chunk], *, tidy: bool = False) -> None:
        self._chunks = tuple(chunks)
        self._tidy = tidy or (len(self._chunks) == 1 and self._chunks[0].rows <= CHUNK_ROWS)
        self._lock = threading.Lock()
        self.live = sum(chunk.live() for chunk in self._chunks)
        self.rows = sum(chunk.rows for chunk in self._chunks)

    def chunks(self) -> tuple[Chunk, ...]:
        """Joined chunks; the same ones at every call."""
        if not self._tidy:
            with self._lock:
                if not self._tidy:
                    self._join()
        return self._chunks

    def raw(self) -> tuple[Chunk, ...]:
        """The chunks as they are now, joined or not."""
        with self._lock:
            return self._chunks

    def _join(self) -> None:
        small = deque(self._chunks)
        self._chunks = ()  # so that nothing holds what has been copied
        joined: list[Chunk] = []
        group: list[Chunk] = []
        try:
            while small:
                group = _next_group(small)
                joined += _cut(group[0]) if len(group) == 1 else [join(group)]
                group = []
            self._tidy = True
        finally:
            # Out of memory half way: the rows are still here, if not all of them joined.
            self._chunks = (*joined, *group, *small)


def _next_group(small: deque[Chunk]) -> list[Chunk]:
    """Takes the chunks that go into the next joined one off the front."""
    group = [small.popleft()]
    rows, size = group[0].rows, group[0].batch.nbytes
    while small and small[0].first > group[-1].last():
        rows += small[0].rows
        size += small[0].batch.nbytes
        if rows > CHUNK_ROWS or size > JOINED_BYTES:
            break
        group.append(small.popleft())
    return group


def _cut(chunk: Chunk) -> list[Chunk]:
    """Chunks that arrive too large are fresh from an INSERT: no deletions, no changes."""
    if chunk.rows <= CHUNK_ROWS:
        return [chunk]
    return [
        Chunk(chunk.batch.slice(start, CHUNK_ROWS), chunk.first + start)
        for start in range(0, chunk.rows, CHUNK_ROWS)
    ]


def join(chunks: Sequence[Chunk]) -> Chunk:
    """One chunk of several whose row ids ascend."""
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(
        concatenate([chunk.batch for chunk in chunks]),
        chunks[0].first,
        _joined_rowids(chunks),
        _concatenated(chunks, "deleted", np.bool_),
        _concatenated(chunks, "changed", np.int32),
    )


def _joined_rowids(chunks: Sequence[Chunk]) -> Integers | None:
    rows = sum(chunk.rows for chunk in chunks)
    if chunks[-1].last() - chunks[0].first + 1 == rows:
        return None  # ascending without a gap
    return np.concatenate([chunk.row_ids() for chunk in chunks])


def _concatenated(chunks: Sequence[Chunk], name: str, kind: Any) -> Any:
    parts = [getattr(chunk, name) for chunk in chunks]
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [
            np.zeros(chunk.rows, dtype=kind) if part is None else part
            for chunk, part in zip(chunks, parts, strict=True)
        ]
    )


def without_deleted(chunk: Chunk) -> Chunk | None:
    """The live rows alone once they are the smaller part; None if there are none."""
    live = chunk.live()
    if live == 0:
        return None
    return chunk if live * 2 > chunk.rows else live_only(chunk)


def live_only(chunk: Chunk) -> Chunk:
    """The chunk without its deleted rows."""
    if chunk.deleted is None:
        return chunk
    kept = np.flatnonzero(~chunk.deleted)
    rowids = chunk.row_ids()[kept]
    changed = None if chunk.changed is None else chunk.changed[kept]
    first = int(rowids[0]) if len(rowids) else chunk.first
    return Chunk(chunk.batch.take(pa.array(kept)), first, rowids, None, changed)
