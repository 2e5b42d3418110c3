"""Splits a filter into simple conditions: a column against constants, joined by AND.

Simple conditions show which chunks cannot match, and select rows where Arrow compares as DuckDB
does. The embedded DuckDB evaluates every other filter.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.memory.chunks import Chunk
from jetbridge.backends.memory.store import MemoryTableVersion
from jetbridge.backends.memory.value_order import NO_BOUNDS, comparable, ordinals
from jetbridge.catalog import ROWID
from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine import is_ordinal, is_text
from jetbridge.expr import And, Between, Column, Comparison, Constant, Expr, In

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
