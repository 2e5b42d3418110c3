"""Reading one state of a table."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge import duckdb_engine
from jetbridge.backends.memory.chunks import Chunk, Mask
from jetbridge.backends.memory.filters import Simple, simple_parts
from jetbridge.backends.memory.store import MemoryTableVersion
from jetbridge.catalog import ROWID, Scan
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import predicates as dialect
from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.expr import Expr, Function, columns_of, walk

# One question to DuckDB costs about 2 ms, however small, so it is asked about many chunks.
_CHUNKS_PER_QUESTION = 16
_CHUNKS_PER_PART = 4
_MOST_PARTS = 8

Found = tuple[Chunk, Mask | None]


def scan(state: MemoryTableVersion, request: Scan) -> Iterator[pa.RecordBatch]:
    """The batches of a scan; the request is judged before the first one is asked for."""
    names = (*state.schema.names, ROWID) if request.columns is None else request.columns
    positions = [_position(state, name) for name in names]
    chunks = _chunks(state, request.part)
    return _batches(state, positions, _matching(state, chunks, request.filter))


def split(state: MemoryTableVersion) -> list[str]:
    count = len(state.chunks())
    parts = max(1, min(_MOST_PARTS, count // _CHUNKS_PER_PART))
    cuts = [count * i // parts for i in range(parts + 1)]
    return [f"{start}-{end}" for start, end in zip(cuts, cuts[1:], strict=False)]


def _position(state: MemoryTableVersion, name: str) -> int:
    """Index of a column; -1 for the row id."""
    position = -1 if fold(name) == ROWID else state.definition.position(name)
    if position is None:
        raise BadRequest(f"table {state.definition.name!r} has no column {name!r}")
    return position


def _chunks(state: MemoryTableVersion, part: str | None) -> list[Chunk]:
    chunks = state.chunks()
    if part is None:
        return chunks
    start, _, end = part.partition("-")
    if not (start.isdecimal() and end.isdecimal() and int(start) <= int(end) <= len(chunks)):
        raise BadRequest(f"table {state.definition.name!r} has no part {part!r}")
    return chunks[int(start) : int(end)]


def _batches(
    state: MemoryTableVersion, positions: Sequence[int], found: Iterator[Found]
) -> Iterator[pa.RecordBatch]:
    schema = projected(state.schema, positions)
    for chunk, mask in found:
        batch = project(chunk, positions, schema)
        if mask is not None:
            batch = _filtered(batch, mask)
        if batch.num_rows:
            yield batch


def projected(schema: pa.Schema, positions: Sequence[int]) -> pa.Schema:
    rowid = pa.field(ROWID, pa.int64(), nullable=False)
    return pa.schema([rowid if p < 0 else schema.field(p) for p in positions])


def project(chunk: Chunk, positions: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
    if not positions:
        return chunk.batch.select([])
    columns = [pa.array(chunk.row_ids()) if p < 0 else chunk.batch.column(p) for p in positions]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _filtered(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    if batch.num_columns == 0:
        return batch.slice(0, int(mask.sum()))
    # `take` serves every type; `filter` knows no unions.
    return batch.take(pa.array(np.flatnonzero(mask)))


def _matching(
    state: MemoryTableVersion, chunks: list[Chunk], condition: Expr | None
) -> Iterator[Found]:
    """The chunks with the rows to keep; None stands for all rows."""
    if condition is None:
        yield from ((chunk, _live(chunk)) for chunk in chunks)
        return
    simple, whole = simple_parts(state, condition)
    chunks = [chunk for chunk in chunks if all(part.may_hold(chunk) for part in simple)]
    if whole and all(part.exact(chunk) for part in simple for chunk in chunks):
        yield from ((chunk, _both(_live(chunk), _simple_mask(chunk, simple))) for chunk in chunks)
        return
    try:
        sql = dialect.render(condition)
        if _calls(condition):
            duckdb_engine.check_filter(sql)
        positions = [_position(state, name) for name in sorted(columns_of(condition))]
    except BadRequest:
        yield from ((chunk, _live(chunk)) for chunk in chunks)
        return
    while chunks:
        try:
            found = _asked(state, chunks[:_CHUNKS_PER_QUESTION], sql, positions)
        except LimitExceeded:
            break  # too slow: the client filters again anyway
        yield from found
        chunks = chunks[_CHUNKS_PER_QUESTION:]
    yield from ((chunk, _live(chunk)) for chunk in chunks)


def _calls(condition: Expr) -> bool:
    return any(isinstance(node, Function) for node in walk(condition))


def _live(chunk: Chunk) -> Mask | None:
    return None if chunk.deleted is None else ~chunk.deleted


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _simple_mask(chunk: Chunk, parts: list[Simple]) -> Mask | None:
    try:
        verdicts = parts[0].mask(chunk)
        for part in parts[1:]:
            verdicts = pc.and_(verdicts, part.mask(chunk))
    except (pa.ArrowException, OverflowError):
        return None  # a constant outside the type of the column: let the client decide
    if verdicts.null_count:
        verdicts = verdicts.fill_null(False)
    mask: Mask = verdicts.to_numpy(zero_copy_only=False)
    return mask


def _asked(
    state: MemoryTableVersion, chunks: list[Chunk], sql: str, positions: list[int]
) -> list[Found]:
    schema = projected(state.schema, positions)
    data = pa.Table.from_batches([project(chunk, positions, schema) for chunk in chunks])
    answer = duckdb_engine.mask(sql, data)
    found: list[Found] = []
    start = 0
    for chunk in chunks:
        mask = None if answer is None else answer[start : start + chunk.rows]
        start += chunk.rows
        found.append((chunk, _both(_live(chunk), mask)))
    return found
