"""Renders predicates as T-SQL with parameters, for rows that the client filters again.

SQL Server compares strings by their collation, which may ignore case and trailing blanks, and keeps
seven digits of a second where DuckDB has six. So a condition may keep rows that DuckDB would not,
and is then not `exact`. It never drops a row that DuckDB would keep. A predicate without such a
form is not pushed down; beneath NOT, only exact conditions are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from math import isfinite
from typing import Any

from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql.statements import bracket
from jetbridge.dialects.tsql.types import MOST_DIGITS
from jetbridge.duckdb_syntax.types import kind_of
from jetbridge.expr import And, Between, Column, Comparison, Constant, Expr, In, IsNull, Not, Or

_EPOCH = datetime(1970, 1, 1)
_MICRO = timedelta(microseconds=1)
_EXACT = Context(prec=MOST_DIGITS)
_MOST_PARAMETERS = 1000
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Condition:
    sql: str
    parameters: tuple[Any, ...] = ()
    exact: bool = True


def condition(expr: Expr, column_types: Mapping[str, str]) -> Condition | None:
    """Return the condition to push down, or None.

    `column_types` maps folded names of columns to T-SQL types.
    """
    pushed = _Renderer(column_types).render(expr)
    return None if pushed is None or len(pushed.parameters) > _MOST_PARAMETERS else pushed


@dataclass(frozen=True)
class _Renderer:
    column_types: Mapping[str, str]

    def render(self, expr: Expr) -> Condition | None:
        render = _NODES.get(type(expr))
        return None if render is None else render(self, expr)

    def all_of(self, node: And) -> Condition | None:
        """Render the conditions that can be pushed down; the reader of the rows applies the
        others.
        """
        pushed = [part for part in map(self.render, node.children) if part is not None]
        if not pushed:
            return None
        return _join(" AND ", pushed, exact=len(pushed) == len(node.children))

    def any_of(self, node: Or) -> Condition | None:
        parts = [self.render(child) for child in node.children]
        known = [part for part in parts if part is not None]
        return _join(" OR ", known) if len(known) == len(parts) else None

    def negate(self, node: Not) -> Condition | None:
        inner = self.render(node.child)
        if inner is None or not inner.exact:
            return None
        return Condition(f"(NOT {inner.sql})", inner.parameters)

    def is_null(self, node: IsNull) -> Condition | None:
        name = self._column(node.child)
        if name is None:
            return None
        return Condition(f"({bracket(name)} IS {'NOT ' if node.negated else ''}NULL)")

    def comparison(self, node: Comparison) -> Condition | None:
        left, right, op = node.left, node.right, node.op
        if isinstance(left, Constant):
            left, right, op = right, left, _TURNED.get(op, "")  # type: ignore[assignment]
        name = self._column(left)
        if name is None or not isinstance(right, Constant) or right.value is None or not op:
            return None
        compare = _COMPARED.get(_family_of(self.column_types[fold(name)]))
        return None if compare is None else compare(bracket(name), op, right)

    def one_of(self, node: In) -> Condition | None:
        parts = [Comparison("=", node.child, item) for item in node.items]
        any_item = self.render(Or(tuple(parts))) if parts else None
        if any_item is None or not node.negated:
            return any_item
        return Condition(f"(NOT {any_item.sql})", any_item.parameters) if any_item.exact else None

    def between(self, node: Between) -> Condition | None:
        lower = Comparison(">=" if node.lower_inclusive else ">", node.child, node.lower)
        upper = Comparison("<=" if node.upper_inclusive else "<", node.child, node.upper)
        return self.render(And((lower, upper)))

    def _column(self, node: Expr) -> str | None:
        known = isinstance(node, Column) and fold(node.name) in self.column_types
        return node.name if known and isinstance(node, Column) else None


def _join(separator: str, parts: Sequence[Condition], *, exact: bool = True) -> Condition:
    text = separator.join(part.sql for part in parts)
    values = tuple(value for part in parts for value in part.parameters)
    return Condition(f"({text})", values, exact and all(part.exact for part in parts))


_NODES: Mapping[type[Any], Callable[[_Renderer, Any], Condition | None]] = {
    And: _Renderer.all_of,
    Or: _Renderer.any_of,
    Not: _Renderer.negate,
    IsNull: _Renderer.is_null,
    Comparison: _Renderer.comparison,
    In: _Renderer.one_of,
    Between: _Renderer.between,
}
_FAMILIES = {
    "number": ("tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney"),
    "float": ("float", "real"),
    "bit": ("bit",),
    "text": ("char", "varchar", "nchar", "nvarchar"),
    "uuid": ("uniqueidentifier",),
    "date": ("date",),
    "timestamp": ("datetime2", "datetimeoffset", "time"),
}
_OF = {sql_type: family for family, types in _FAMILIES.items() for sql_type in types}


def _family_of(sql_type: str) -> str:
    return _OF.get(sql_type, "")


def _number(name: str, op: str, constant: Constant) -> Condition | None:
    """Compare whole numbers and decimals, which SQL Server does by value."""
    data_type = kind_of(constant.type)
    if op not in _TURNED or isinstance(constant.value, bool):
        return None
    if data_type == "DECIMAL":
        scale = int(constant.type.rstrip(")").rpartition(",")[2])
        return Condition(f"({name} {op} ?)", (Decimal(constant.value).scaleb(-scale, _EXACT),))
    whole = isinstance(constant.value, int) and "INT" in data_type
    fits = whole and -(2**63) <= constant.value < 2**63
    return Condition(f"({name} {op} ?)", (constant.value,)) if fits else None


def _float(name: str, op: str, constant: Constant) -> Condition | None:
    fits = op in _TURNED and isinstance(constant.value, float) and isfinite(constant.value)
    return Condition(f"({name} {op} ?)", (constant.value,)) if fits else None


def _bit(name: str, op: str, constant: Constant) -> Condition | None:
    fits = op in ("=", "<>") and isinstance(constant.value, bool)
    return Condition(f"({name} {op} ?)", (constant.value,)) if fits else None


def _text(name: str, op: str, constant: Constant) -> Condition | None:
    """Compare for equality only: it keeps more rows, never fewer, but a collation changes the
    order.
    """
    fits = op == "=" and constant.type == "VARCHAR" and "\0" not in constant.value
    return Condition(f"({name} = ?)", (constant.value,), exact=False) if fits else None


def _uuid(name: str, op: str, constant: Constant) -> Condition | None:
    fits = op in ("=", "<>") and constant.type == "UUID"
    sql = f"({name} {op} CONVERT(uniqueidentifier, ?))"
    return Condition(sql, (constant.value,)) if fits else None


def _date(name: str, op: str, constant: Constant) -> Condition | None:
    if op not in _TURNED or constant.type != "DATE":
        return None
    try:
        value = date(1970, 1, 1) + timedelta(days=constant.value)
    except OverflowError:
        return None
    return Condition(f"({name} {op} CONVERT(date, ?, 23))", (value.isoformat(),))


_PER_SECOND = {
    "TIMESTAMP_S": 1,
    "TIMESTAMP_MS": 10**3,
    "TIMESTAMP": 10**6,
    "TIMESTAMP WITH TIME ZONE": 10**6,
    "TIME": 10**6,
}


def _timestamp(name: str, op: str, constant: Constant) -> Condition | None:
    """Compare times. A stored value may be up to a microsecond later than the one that we
    return.
    """
    per_second = _PER_SECOND.get(constant.type)
    if per_second is None or op not in _TURNED:
        return None
    try:
        start = _EPOCH + timedelta(microseconds=constant.value * (10**6 // per_second))
        after = start + _MICRO
    except OverflowError:
        return None
    low, high = _format_timestamp(start, constant.type), _format_timestamp(after, constant.type)
    if constant.type == "TIME" and after.date() != _EPOCH.date():  # DuckDB supports 24:00:00
        return None
    mark = _MARKS.get(constant.type, _MARKS["TIMESTAMP"])
    return {
        "=": Condition(f"({name} >= {mark} AND {name} < {mark})", (low, high)),
        "<>": Condition(f"({name} < {mark} OR {name} >= {mark})", (low, high)),
        "<": Condition(f"({name} < {mark})", (low,)),
        ">=": Condition(f"({name} >= {mark})", (low,)),
        "<=": Condition(f"({name} < {mark})", (high,)),
        ">": Condition(f"({name} >= {mark})", (high,)),
    }[op]


_MARKS = {
    "TIME": "CONVERT(time(6), ?)",
    "TIMESTAMP": "CONVERT(datetime2(6), ?, 126)",
    "TIMESTAMP WITH TIME ZONE": "CONVERT(datetimeoffset(6), ?, 127)",
}


def _format_timestamp(timestamp: datetime, data_type: str) -> str:
    if data_type == "TIME":
        return time.isoformat(timestamp.time(), "microseconds")
    if data_type == "TIMESTAMP WITH TIME ZONE":
        return timestamp.replace(tzinfo=UTC).isoformat(timespec="microseconds")
    return timestamp.isoformat(timespec="microseconds")


_COMPARED: Mapping[str, Callable[[str, str, Constant], Condition | None]] = {
    "number": _number,
    "float": _float,
    "bit": _bit,
    "text": _text,
    "uuid": _uuid,
    "date": _date,
    "timestamp": _timestamp,
}
