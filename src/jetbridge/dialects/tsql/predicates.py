"""Predicates as T-SQL with parameters, for rows that the client filters again.

SQL Server compares otherwise than DuckDB: texts without regard to case and trailing spaces, as
their collation says, times with seven digits where we see six. So a condition may keep rows that
DuckDB would not, and is then not `exact`; it never leaves out one that DuckDB would keep. What has
no such form is left out; beneath NOT only what is exact stays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from math import isfinite
from typing import Any

from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql.statements import bracketed
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


def condition(expr: Expr, kinds: Mapping[str, str]) -> Condition | None:
    """`kinds` are the T-SQL types of the columns, by their folded names; None: nothing to push."""
    found = _Renderer(kinds).render(expr)
    return None if found is None or len(found.parameters) > _MOST_PARAMETERS else found


@dataclass(frozen=True)
class _Renderer:
    kinds: Mapping[str, str]

    def render(self, expr: Expr) -> Condition | None:
        made = _NODES.get(type(expr))
        return None if made is None else made(self, expr)

    def all_of(self, node: And) -> Condition | None:
        """Those that can be pushed; the others are left to whoever reads the rows."""
        found = [each for each in map(self.render, node.children) if each is not None]
        if not found:
            return None
        return _joined(" AND ", found, exact=len(found) == len(node.children))

    def any_of(self, node: Or) -> Condition | None:
        found = [self.render(each) for each in node.children]
        known = [each for each in found if each is not None]
        return _joined(" OR ", known) if len(known) == len(found) else None

    def negated(self, node: Not) -> Condition | None:
        inner = self.render(node.child)
        if inner is None or not inner.exact:
            return None
        return Condition(f"(NOT {inner.sql})", inner.parameters)

    def is_null(self, node: IsNull) -> Condition | None:
        name = self._column(node.child)
        if name is None:
            return None
        return Condition(f"({bracketed(name)} IS {'NOT ' if node.negated else ''}NULL)")

    def comparison(self, node: Comparison) -> Condition | None:
        left, right, op = node.left, node.right, node.op
        if isinstance(left, Constant):
            left, right, op = right, left, _TURNED.get(op, "")  # type: ignore[assignment]
        name = self._column(left)
        if name is None or not isinstance(right, Constant) or right.value is None or not op:
            return None
        compare = _COMPARED.get(_family(self.kinds[fold(name)]))
        return None if compare is None else compare(bracketed(name), op, right)

    def one_of(self, node: In) -> Condition | None:
        parts = [Comparison("=", node.child, item) for item in node.items]
        found = self.render(Or(tuple(parts))) if parts else None
        if found is None or not node.negated:
            return found
        return Condition(f"(NOT {found.sql})", found.parameters) if found.exact else None

    def between(self, node: Between) -> Condition | None:
        lower = Comparison(">=" if node.lower_inclusive else ">", node.child, node.lower)
        upper = Comparison("<=" if node.upper_inclusive else "<", node.child, node.upper)
        return self.render(And((lower, upper)))

    def _column(self, node: Expr) -> str | None:
        known = isinstance(node, Column) and fold(node.name) in self.kinds
        return node.name if known and isinstance(node, Column) else None


def _joined(word: str, parts: Sequence[Condition], *, exact: bool = True) -> Condition:
    text = word.join(each.sql for each in parts)
    values = tuple(value for each in parts for value in each.parameters)
    return Condition(f"({text})", values, exact and all(each.exact for each in parts))


_NODES: Mapping[type[Any], Callable[[_Renderer, Any], Condition | None]] = {
    And: _Renderer.all_of,
    Or: _Renderer.any_of,
    Not: _Renderer.negated,
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
    "moment": ("datetime2", "datetimeoffset", "time"),
}
_OF = {kind: family for family, kinds in _FAMILIES.items() for kind in kinds}


def _family(kind: str) -> str:
    return _OF.get(kind, "")


def _number(name: str, op: str, constant: Constant) -> Condition | None:
    """Whole numbers and decimals; SQL Server compares them by value."""
    kind = kind_of(constant.type)
    if op not in _TURNED or isinstance(constant.value, bool):
        return None
    if kind == "DECIMAL":
        scale = int(constant.type.rstrip(")").rpartition(",")[2])
        return Condition(f"({name} {op} ?)", (Decimal(constant.value).scaleb(-scale, _EXACT),))
    whole = isinstance(constant.value, int) and "INT" in kind
    fits = whole and -(2**63) <= constant.value < 2**63
    return Condition(f"({name} {op} ?)", (constant.value,)) if fits else None


def _float(name: str, op: str, constant: Constant) -> Condition | None:
    fits = op in _TURNED and isinstance(constant.value, float) and isfinite(constant.value)
    return Condition(f"({name} {op} ?)", (constant.value,)) if fits else None


def _bit(name: str, op: str, constant: Constant) -> Condition | None:
    fits = op in ("=", "<>") and isinstance(constant.value, bool)
    return Condition(f"({name} {op} ?)", (constant.value,)) if fits else None


def _text(name: str, op: str, constant: Constant) -> Condition | None:
    """Equality keeps more, never less; order is that of a collation."""
    fits = op == "=" and constant.type == "VARCHAR" and "\0" not in constant.value
    return Condition(f"({name} = ?)", (constant.value,), exact=False) if fits else None


def _uuid(name: str, op: str, constant: Constant) -> Condition | None:
    fits = op in ("=", "<>") and constant.type == "UUID"
    made = f"({name} {op} CONVERT(uniqueidentifier, ?))"
    return Condition(made, (constant.value,)) if fits else None


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


def _moment(name: str, op: str, constant: Constant) -> Condition | None:
    """A value there may lie up to a microsecond behind the one that we see."""
    per_second = _PER_SECOND.get(constant.type)
    if per_second is None or op not in _TURNED:
        return None
    try:
        start = _EPOCH + timedelta(microseconds=constant.value * (10**6 // per_second))
        after = start + _MICRO
    except OverflowError:
        return None
    low, high = _written(start, constant.type), _written(after, constant.type)
    if constant.type == "TIME" and after.date() != _EPOCH.date():  # DuckDB has 24:00:00, too
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


def _written(moment: datetime, kind: str) -> str:
    if kind == "TIME":
        return time.isoformat(moment.time(), "microseconds")
    if kind == "TIMESTAMP WITH TIME ZONE":
        return moment.replace(tzinfo=UTC).isoformat(timespec="microseconds")
    return moment.isoformat(timespec="microseconds")


_COMPARED: Mapping[str, Callable[[str, str, Constant], Condition | None]] = {
    "number": _number,
    "float": _float,
    "bit": _bit,
    "text": _text,
    "uuid": _uuid,
    "date": _date,
    "moment": _moment,
}
