"""All chunks of a table made anew, for the changes that touch every row."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from jetbridge.backends.memory.chunks import Chunk, Segment, live_only
from jetbridge.backends.memory.state import TableState


def rewritten(
    state: TableState, schema: pa.Schema, change: Callable[[Chunk], pa.RecordBatch]
) -> TableState:
    """The state with another schema; row ids, deletions and changes stay as they are."""
    cost = 0
    segments = []
    for segment in state.segments:
        chunks = []
        for chunk in segment.chunks():
            live = live_only(chunk)  # a deleted value must not hinder a change of type
            batch = change(live)
            cost += max(0, live.batch.nbytes - batch.nbytes) + batch.nbytes // 8
            chunks.append(live.with_batch(batch))
        segments.append(Segment(chunks, tidy=True))
    return replace(state, schema=schema, segments=tuple(segments), cost=cost)


def live_batches(state: TableState) -> Iterator[pa.RecordBatch]:
    for chunk in state.chunks():
        yield live_only(chunk).batch
