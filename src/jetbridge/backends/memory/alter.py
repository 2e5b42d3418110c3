"""ALTER TABLE: the changed definition, and all chunks made anew where it touches every row."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from jetbridge.backends.memory.chunks import Segment, live_only
from jetbridge.backends.memory.store import MemoryTableVersion, Store, TableCell
from jetbridge.backends.tables import alter
from jetbridge.catalog import Alteration
from jetbridge.runtime.cancellation import current


def altered(store: Store, cell: TableCell, change: Alteration) -> MemoryTableVersion:
    """Makes the change and publishes it; an answer that is the old state changed nothing."""

    def next_state(now: MemoryTableVersion) -> MemoryTableVersion:
        table = cell.name()
        step = alter.alter_definition(now.definition, change, table, now.count())
        if step.definition is now.definition:
            return now
        after = replace(_rewritten(now, step.convert), definition=step.definition)
        alter.verify_rows(step, table, _live_batches(after))
        return replace(after, version=now.version + 1, time=store.now(now))

    return store.publish(cell, next_state, ddl=True)


def _rewritten(state: MemoryTableVersion, change: alter.ConvertRows | None) -> MemoryTableVersion:
    """The state with other rows; row ids and changes stay as they are."""
    if change is None:
        return state
    cost = 0
    segments = []
    for segment in state.segments:
        chunks = []
        for chunk in segment.chunks():
            current().check()
            live = live_only(chunk)  # a deleted value must not hinder a change of type
            batch = change(live.batch)
            cost += max(0, live.batch.nbytes - batch.nbytes) + batch.nbytes // 8
            chunks.append(live.with_batch(batch))
        segments.append(Segment(chunks, tidy=True))
    return replace(state, segments=tuple(segments), cost=cost)


def _live_batches(state: MemoryTableVersion) -> Iterator[pa.RecordBatch]:
    for chunk in state.chunks():
        yield live_only(chunk).batch
