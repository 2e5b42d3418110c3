"""Serves tables: a handle has one frozen version to read, and the cell of the table to write to.

ALTER TABLE changes the definition, and rewrites all chunks if every row changes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import pyarrow as pa

from jetbridge.backends.memory import insert, scan, update_delete
from jetbridge.backends.memory.chunks import Segment, drop_deleted_rows
from jetbridge.backends.memory.store import MemoryTableVersion, Store, TableCell
from jetbridge.backends.tables.alter import alter_definition
from jetbridge.backends.tables.constraints import ConvertRows, verify_rows
from jetbridge.backends.tables.time_travel import (
    describe_kept_versions,
    parse_timestamp,
    parse_version,
    to_microseconds,
    version_not_kept,
)
from jetbridge.catalog import Alteration, AsOf, AtUnit, DMLOptions, Scan, TableInfo, Write
from jetbridge.errors import NotFound
from jetbridge.runtime import cancellation
from jetbridge.runtime.array_sizes import array_bytes


def alter_table(store: Store, cell: TableCell, change: Alteration) -> MemoryTableVersion:
    """Publish the change; return the new version, or the old one if nothing changes."""

    def apply(current: MemoryTableVersion) -> MemoryTableVersion:
        table = cell.name()
        altered = alter_definition(current.definition, change, table, current.count())
        if altered.definition is current.definition:
            return current
        rewritten = _rewrite_rows(current, altered.convert)
        after = replace(rewritten, definition=altered.definition)
        verify_rows(altered, table, _live_batches(after))
        return replace(after, version=current.version + 1, time=store.next_time(current))

    return store.publish(cell, apply, ddl=True)


def _rewrite_rows(state: MemoryTableVersion, convert: ConvertRows | None) -> MemoryTableVersion:
    """Return the state with converted rows; row ids and versions of rows stay as they are."""
    if convert is None:
        return state
    cost = 0
    segments = []
    for segment in state.segments:
        chunks = []
        for chunk in segment.chunks():
            cancellation.current().check()
            live = drop_deleted_rows(chunk)  # a deleted value must not stop a change of type
            batch = convert(live.batch)
            cost += max(0, array_bytes(live.batch) - array_bytes(batch)) + array_bytes(batch) // 8
            chunks.append(live.with_batch(batch))
        segments.append(Segment(chunks, joined=True))
    return replace(state, segments=tuple(segments), cost=cost)


def _live_batches(state: MemoryTableVersion) -> Iterator[pa.RecordBatch]:
    for chunk in state.chunks():
        yield drop_deleted_rows(chunk).batch


class MemoryTableSnapshot:
    """Read a table as it was at one version."""

    def __init__(self, state: MemoryTableVersion) -> None:
        self._state = state

    def info(self) -> TableInfo:
        return self._state.info()

    def scan(self, request: Scan) -> Iterable[pa.RecordBatch]:
        return scan.scan(self._state, request)

    def split(self, request: Scan) -> Sequence[str]:
        return scan.split(self._state)

    def count_rows(self) -> int:
        return self._state.count()


class MemoryTable(MemoryTableSnapshot):
    """Read a table at one version, and change the table as it is now."""

    def __init__(self, store: Store, cell: TableCell, state: MemoryTableVersion) -> None:
        super().__init__(state)
        self._store, self._cell = store, cell

    def inserting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return insert.inserting(self._store, self._cell, options)

    def updating(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return update_delete.updating(self._store, self._cell, self._state, options)

    def deleting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return update_delete.deleting(self._store, self._cell, self._state, options)

    def alter(self, change: Alteration) -> "MemoryTable":
        """Change the table as it is now, not as this handle saw it."""
        if self._cell.dropped:
            raise NotFound("table", self._cell.name())
        state = alter_table(self._store, self._cell, change)
        return MemoryTable(self._store, self._cell, state)

    def at(self, point: AsOf) -> MemoryTableSnapshot:
        with self._store.lock:
            if self._cell.dropped:
                raise NotFound("table", self._cell.name())
            history = list(self._cell.history)
        return MemoryTableSnapshot(_find_version(self._cell.name(), history, point))


def _find_version(
    table: str, history: Sequence[MemoryTableVersion], point: AsOf
) -> MemoryTableVersion:
    """Return the version; raise NotFound, which names the versions that are kept."""
    oldest, newest = history[0], history[-1]
    if point.unit == AtUnit.VERSION:
        index = parse_version(point.value) - oldest.version
        exists = 0 <= index < len(history)
    else:
        timestamp = parse_timestamp(point.value)
        index = bisect_right(history, timestamp, key=lambda v: to_microseconds(v.time)) - 1
        exists = index >= 0
    if exists:
        return history[index]
    kept = describe_kept_versions(oldest.version, newest.version, oldest.time)
    raise version_not_kept(table, point, kept)
