"""Runs ALTER TABLE: changes the definition, and rewrites all chunks if every row changes."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from jetbridge.backends.memory.chunks import Segment, drop_deleted_rows
from jetbridge.backends.memory.store import MemoryTableVersion, Store, TableCell
from jetbridge.backends.tables.alter import alter_definition
from jetbridge.backends.tables.altered_table import ConvertRows, verify_rows
from jetbridge.catalog import Alteration
from jetbridge.runtime import cancellation


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
            cost += max(0, live.batch.nbytes - batch.nbytes) + batch.nbytes // 8
            chunks.append(live.with_batch(batch))
        segments.append(Segment(chunks, joined=True))
    return replace(state, segments=tuple(segments), cost=cost)


def _live_batches(state: MemoryTableVersion) -> Iterator[pa.RecordBatch]:
    for chunk in state.chunks():
        yield drop_deleted_rows(chunk).batch
