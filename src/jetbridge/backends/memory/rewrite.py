"""All chunks of a table made anew, for the changes that touch every row."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from jetbridge.backends.memory.chunks import Chunk, Segment
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
            live = _live_only(chunk)
            batch = change(live)
            cost += max(0, live.batch.nbytes - batch.nbytes) + batch.nbytes // 8
            chunks.append(live.with_batch(batch))
        segments.append(Segment(chunks, tidy=True))
    return replace(state, schema=schema, segments=tuple(segments), cost=cost)


def _live_only(chunk: Chunk) -> Chunk:
    # A deleted value must not keep a column from changing its type.
    if chunk.deleted is None:
        return chunk
    kept = np.flatnonzero(~chunk.deleted)
    rowids = chunk.row_ids()[kept]
    changed = None if chunk.changed is None else chunk.changed[kept]
    return Chunk(chunk.batch.take(pa.array(kept)), int(rowids[0]), rowids, None, changed)


def live_batches(state: TableState) -> Iterator[pa.RecordBatch]:
    for chunk in state.chunks():
        yield _live_only(chunk).batch
