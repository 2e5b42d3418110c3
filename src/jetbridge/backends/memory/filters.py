"""The simple part of a filter: column against constants, all of which must hold.

It tells which chunks can be passed over, and the rows themselves where Arrow compares as DuckDB
does. Everything else of a filter is left to the embedded DuckDB.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.memory.chunks import Chunk
from jetbridge.backends.memory.store import MemoryTableVersion
from jetbridge.backends.memory.value_order import (
    NO_BOUNDS,
    comparable,
    ordinals,
)
from jetbridge.catalog import ROWID
from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine import is_ordinal, is_text
from jetbridge.expr import And, Between, Column, Comparison, Constant, Expr, In

# The position that stands for the row id.
ROWID_POSITION = -1

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Simple:
    """`column op value`; for IN the op is `in` and the value a tuple."""

    column: int
    kind: pa.DataType
    op: str
    value: Any

    def may_hold(self, chunk: Chunk) -> bool:
        """False if no row of the chunk can fulfil it."""
        low, high = (
            (chunk.first, chunk.last())
            if self.column == ROWID_POSITION
            else chunk.bounds(self.column)
        )
        return low is None or _WITHIN[self.op](low, high, self.value)

    def mask(self, chunk: Chunk) -> pa.Array:
        """TRUE, FALSE or NULL for every row; only if `exact`."""
        column = self._values(chunk)
        if self.op == "in":
            return pc.is_in(column, value_set=pa.array(self.value, column.type))
        return _COMPARE[self.op](column, pa.scalar(self.value, column.type))

    def _values(self, chunk: Chunk) -> pa.Array:
        if self.column == ROWID_POSITION:
            return pa.array(chunk.row_ids())
        column = chunk.batch.column(self.column)
        return ordinals(column) if is_ordinal(self.kind) else column

    def exact(self, chunk: Chunk) -> bool:
        """Whether Arrow's answer is DuckDB's."""
        if pa.types.is_floating(self.kind):
            # There is no NaN; and `is_in` would tell 0.0 from -0.0.
            return self.op != "in" and chunk.bounds(self.column) != NO_BOUNDS
        return is_ordinal(self.kind) or is_text(self.kind)


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


def simple_parts(state: MemoryTableVersion, node: Expr) -> tuple[list[Simple], bool]:
    """The simple conditions of a filter, and whether they are all of it."""
    parts: list[Simple] = []
    whole = True
    for condition in _conditions(node):
        found = list(_simple(state, condition))
        parts += found
        whole = whole and bool(found)
    return parts, whole


def _conditions(node: Expr) -> Iterator[Expr]:
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, And):
            waiting.extend(current.children)
        else:
            yield current


def _simple(state: MemoryTableVersion, node: Expr) -> Iterator[Simple]:
    match node:
        case Comparison(op, Column(name), Constant() as constant) if op in _FLIPPED:
            yield from _against(state, name, [(op, constant)])
        case Comparison(op, Constant() as constant, Column(name)) if op in _FLIPPED:
            yield from _against(state, name, [(_FLIPPED[op], constant)])
        case Between(Column(name), Constant() as low, Constant() as high):
            lower = ">=" if node.lower_inclusive else ">"
            upper = "<=" if node.upper_inclusive else "<"
            yield from _against(state, name, [(lower, low), (upper, high)])
        case In(Column(name), items, False):
            yield from _among(state, name, items)


def _against(
    state: MemoryTableVersion, name: str, terms: list[tuple[str, Constant]]
) -> list[Simple]:
    column, kind = _resolved(state, name)
    if kind is None:
        return []
    values = [comparable(constant, kind) for _, constant in terms]
    if any(value is None for value in values):
        return []
    return [Simple(column, kind, op, v) for (op, _), v in zip(terms, values, strict=True)]


def _among(state: MemoryTableVersion, name: str, items: tuple[Expr, ...]) -> list[Simple]:
    column, kind = _resolved(state, name)
    if kind is None:
        return []
    # A NULL item makes no row TRUE that the others do not.
    constants = [item for item in items if isinstance(item, Constant)]
    values = [comparable(c, kind) for c in constants if c.value is not None]
    if len(constants) != len(items) or any(value is None for value in values):
        return []
    return [Simple(column, kind, "in", tuple(values))]


def _resolved(state: MemoryTableVersion, name: str) -> tuple[int, pa.DataType | None]:
    if fold(name) == ROWID:
        return ROWID_POSITION, pa.int64()
    position = state.definition.position(name)
    if position is None:
        return ROWID_POSITION, None
    return position, state.schema.field(position).type
