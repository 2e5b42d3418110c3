"""Reads one version of a table, and decides which chunks a filter can match.

A filter is split into simple conditions: a column against constants, joined by AND. They show which
chunks cannot match, and select rows where Arrow compares as DuckDB does. The embedded DuckDB
evaluates every other filter.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge import duckdb_engine
from jetbridge.backends.memory.chunks import Chunk, ChunkRows
from jetbridge.backends.memory.store import MemoryTableVersion
from jetbridge.backends.memory.value_order import NO_BOUNDS, comparable, ordinals
from jetbridge.backends.tables.updates import Mask
from jetbridge.catalog import ROWID, Scan
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import predicates
from jetbridge.duckdb_engine import is_ordinal, is_text
from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.expr import (
    And,
    Between,
    Column,
    Comparison,
    Constant,
    Expr,
    Function,
    In,
    columns_of,
    walk,
)

# Stands for the row id, which is no column of a chunk.
ROWID_POSITION = -1

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class SimpleCondition:
    """Compare a column with a value; `op` `in` has a tuple of values."""

    column: int
    data_type: pa.DataType
    op: str
    value: Any

    def may_match(self, chunk: Chunk) -> bool:
        """Return False if no row of the chunk can match."""
        low, high = (
            (chunk.first, chunk.last())
            if self.column == ROWID_POSITION
            else chunk.bounds(self.column)
        )
        return low is None or _WITHIN[self.op](low, high, self.value)

    def mask(self, chunk: Chunk) -> pa.Array:
        """Return TRUE, FALSE or NULL for every row; call it only if `is_exact`."""
        column = self._values(chunk)
        if self.op == "in":
            return pc.is_in(column, value_set=pa.array(self.value, column.type))
        return _COMPARE[self.op](column, pa.scalar(self.value, column.type))

    def _values(self, chunk: Chunk) -> pa.Array:
        if self.column == ROWID_POSITION:
            return pa.array(chunk.row_ids())
        column = chunk.batch.column(self.column)
        return ordinals(column) if is_ordinal(self.data_type) else column

    def is_exact(self, chunk: Chunk) -> bool:
        """Return whether Arrow selects the same rows as DuckDB."""
        if pa.types.is_floating(self.data_type):
            # Bounds exist only without NaN. `is_in` would distinguish 0.0 from -0.0.
            return self.op != "in" and chunk.bounds(self.column) != NO_BOUNDS
        return is_ordinal(self.data_type) or is_text(self.data_type)


_WITHIN: dict[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda low, high, value: low <= value <= high,
    "<": lambda low, high, value: low < value,
    "<=": lambda low, high, value: low <= value,
    ">": lambda low, high, value: high > value,
    ">=": lambda low, high, value: high >= value,
    "in": lambda low, high, value: any(low <= item <= high for item in value),
}
_COMPARE: dict[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def split_filter(state: MemoryTableVersion, node: Expr) -> tuple[list[SimpleCondition], bool]:
    """Return the simple conditions of a filter, and whether they are the whole filter."""
    conditions: list[SimpleCondition] = []
    complete = True
    for operand in _operands(node):
        simple = list(_simplify(state, operand))
        conditions += simple
        complete = complete and bool(simple)
    return conditions, complete


def _operands(node: Expr) -> Iterator[Expr]:
    """Yield the operands of nested ANDs."""
    pending = [node]
    while pending:
        operand = pending.pop()
        if isinstance(operand, And):
            pending.extend(operand.children)
        else:
            yield operand


def _simplify(state: MemoryTableVersion, node: Expr) -> Iterator[SimpleCondition]:
    match node:
        case Comparison(op, Column(name), Constant() as constant) if op in _FLIPPED:
            yield from _compare(state, name, [(op, constant)])
        case Comparison(op, Constant() as constant, Column(name)) if op in _FLIPPED:
            yield from _compare(state, name, [(_FLIPPED[op], constant)])
        case Between(Column(name), Constant() as low, Constant() as high):
            lower = ">=" if node.lower_inclusive else ">"
            upper = "<=" if node.upper_inclusive else "<"
            yield from _compare(state, name, [(lower, low), (upper, high)])
        case In(Column(name), items, False):
            yield from _compare_in(state, name, items)


def _compare(
    state: MemoryTableVersion, name: str, terms: list[tuple[str, Constant]]
) -> list[SimpleCondition]:
    column, data_type = _resolve(state, name)
    if data_type is None:
        return []
    values = [comparable(constant, data_type) for _, constant in terms]
    if any(value is None for value in values):
        return []
    return [
        SimpleCondition(column, data_type, op, value)
        for (op, _), value in zip(terms, values, strict=True)
    ]


def _compare_in(
    state: MemoryTableVersion, name: str, items: tuple[Expr, ...]
) -> list[SimpleCondition]:
    column, data_type = _resolve(state, name)
    if data_type is None:
        return []
    constants = [item for item in items if isinstance(item, Constant)]
    # A NULL item makes no further row TRUE.
    values = [comparable(c, data_type) for c in constants if c.value is not None]
    if len(constants) != len(items) or any(value is None for value in values):
        return []
    return [SimpleCondition(column, data_type, "in", tuple(values))]


def _resolve(state: MemoryTableVersion, name: str) -> tuple[int, pa.DataType | None]:
    """Return position and type of a column; the type is None if there is no such column."""
    if fold(name) == ROWID:
        return ROWID_POSITION, pa.int64()
    position = state.definition.position(name)
    if position is None:
        return ROWID_POSITION, None
    return position, state.schema.field(position).type


# A query to DuckDB takes about 2 ms however few rows it reads, so one query reads many chunks.
_CHUNKS_PER_QUERY = 16
_CHUNKS_PER_SPLIT = 4
_MOST_SPLITS = 8


def scan(state: MemoryTableVersion, request: Scan) -> Iterator[pa.RecordBatch]:
    """Return the batches of a scan; raise BadRequest before the first batch is read."""
    names = (*state.schema.names, ROWID) if request.columns is None else request.columns
    positions = [_position(state, name) for name in names]
    chunks = _chunks_of_split(state, request.part)
    return _batches(state, positions, _select(state, chunks, request.filter))


def split(state: MemoryTableVersion) -> list[str]:
    """Return splits of about the same size; each names a range of chunks."""
    count = len(state.chunks())
    splits = max(1, min(_MOST_SPLITS, count // _CHUNKS_PER_SPLIT))
    cuts = [count * i // splits for i in range(splits + 1)]
    return [f"{start}-{end}" for start, end in zip(cuts, cuts[1:], strict=False)]


def _position(state: MemoryTableVersion, name: str) -> int:
    """Return the position of a column, -1 for the row id; raise BadRequest."""
    position = -1 if fold(name) == ROWID else state.definition.position(name)
    if position is None:
        raise BadRequest(f"table {state.definition.name!r} has no column {name!r}")
    return position


def _chunks_of_split(state: MemoryTableVersion, name: str | None) -> list[Chunk]:
    chunks = state.chunks()
    if name is None:
        return chunks
    start, _, end = name.partition("-")
    if not (start.isdecimal() and end.isdecimal() and int(start) <= int(end) <= len(chunks)):
        raise BadRequest(f"table {state.definition.name!r} has no split {name!r}")
    return chunks[int(start) : int(end)]


def _batches(
    state: MemoryTableVersion, positions: Sequence[int], selected: Iterator[ChunkRows]
) -> Iterator[pa.RecordBatch]:
    schema = project_schema(state.schema, positions)
    for chunk, mask in selected:
        batch = _project(chunk, positions, schema)
        if mask is not None:
            batch = _filter(batch, mask)
        if batch.num_rows:
            yield batch


def project_schema(schema: pa.Schema, positions: Sequence[int]) -> pa.Schema:
    """Return the fields at the positions; -1 is the row id."""
    rowid = pa.field(ROWID, pa.int64(), nullable=False)
    return pa.schema([rowid if p < 0 else schema.field(p) for p in positions])


def _project(chunk: Chunk, positions: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
    if not positions:
        return chunk.batch.select([])
    columns = [pa.array(chunk.row_ids()) if p < 0 else chunk.batch.column(p) for p in positions]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _filter(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    if batch.num_columns == 0:
        return batch.slice(0, int(mask.sum()))
    # `take` supports every type; `filter` does not support unions.
    return batch.take(pa.array(np.flatnonzero(mask)))


def _select(
    state: MemoryTableVersion, chunks: list[Chunk], condition: Expr | None
) -> Iterator[ChunkRows]:
    """Yield the chunks and the rows that match: by Arrow, by DuckDB, or all rows."""
    if condition is None:
        yield from _select_live(chunks)
        return
    simple, complete = split_filter(state, condition)
    chunks = [chunk for chunk in chunks if all(part.may_match(chunk) for part in simple)]
    if complete and all(part.is_exact(chunk) for part in simple for chunk in chunks):
        for chunk in chunks:
            yield chunk, _intersect(chunk.live_mask(), _simple_mask(chunk, simple))
        return
    try:
        sql = predicates.render(condition)
        if _calls_functions(condition):
            duckdb_engine.check_filter(sql)
        positions = [_position(state, name) for name in sorted(columns_of(condition))]
    except BadRequest:  # the client filters again, so all rows are a correct answer
        yield from _select_live(chunks)
        return
    while chunks:
        try:
            selected = _select_by_duckdb(state, chunks[:_CHUNKS_PER_QUERY], sql, positions)
        except LimitExceeded:
            break  # too slow: leave the other chunks to the client
        yield from selected
        chunks = chunks[_CHUNKS_PER_QUERY:]
    yield from _select_live(chunks)


def _select_live(chunks: list[Chunk]) -> Iterator[ChunkRows]:
    return ((chunk, chunk.live_mask()) for chunk in chunks)


def _calls_functions(condition: Expr) -> bool:
    return any(isinstance(node, Function) for node in walk(condition))


def _intersect(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _simple_mask(chunk: Chunk, conditions: list[SimpleCondition]) -> Mask | None:
    """Return the rows that match all conditions; None if Arrow cannot compare them."""
    try:
        matches = conditions[0].mask(chunk)
        for condition in conditions[1:]:
            matches = pc.and_(matches, condition.mask(chunk))
    except (pa.ArrowException, OverflowError):
        return None  # a constant outside the type of the column: the client decides
    if matches.null_count:
        matches = matches.fill_null(False)
    mask: Mask = matches.to_numpy(zero_copy_only=False)
    return mask


def _select_by_duckdb(
    state: MemoryTableVersion, chunks: list[Chunk], sql: str, positions: list[int]
) -> list[ChunkRows]:
    schema = project_schema(state.schema, positions)
    data = pa.Table.from_batches([_project(chunk, positions, schema) for chunk in chunks])
    matches = duckdb_engine.mask(sql, data)
    selected: list[ChunkRows] = []
    start = 0
    for chunk in chunks:
        mask = None if matches is None else matches[start : start + chunk.rows]
        start += chunk.rows
        selected.append((chunk, _intersect(chunk.live_mask(), mask)))
    return selected
