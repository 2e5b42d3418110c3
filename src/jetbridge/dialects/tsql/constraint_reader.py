"""CHECK and DEFAULT of SQL Server as DuckDB's SQL, for clients that evaluate them themselves.

A client refuses rows by what it is shown and fills in what it is shown, so only what means the
same in DuckDB is. For the rest there is None: the server judges and fills in by itself.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.quoting import identifier, literal
from jetbridge.dialects.tsql.expressions import OPERATORS, Conditions, plain
from jetbridge.dialects.tsql.types import Family, Kind, comparable, kind_of, written

_SIGNS: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_TYPES: Mapping[Family, str] = {
    "date": "DATE",
    "moment": "TIMESTAMP",
    "zoned": "TIMESTAMP WITH TIME ZONE",
    "time": "TIME",
    "uuid": "UUID",
}
# Both calculate these in the same width; a smallint grows in SQL Server and does not in DuckDB.
_CALCULATED = ("int", "bigint", "constant")
_MICROSECONDS = 6
_OTHER_TEXTS = ("char", "nchar", "text", "ntext")
_LARGEST_INT = 2**31


class _Unknown(Exception):
    """Not known to mean the same."""


def check(definition: str, columns: Mapping[str, str]) -> str | None:
    """`columns` are the declared types of all columns, by their names."""
    known = {fold(name): (name, kind_of(declared)) for name, declared in columns.items()}
    try:
        return _ConstraintParser(known).condition(_parsed(definition))
    except _Unknown:
        return None


def default(definition: str, declared: str) -> str | None:
    """Of constants that the column takes as they are."""
    try:
        node = plain(_parsed(definition))
        return _constant_for(kind_of(declared), node)
    except _Unknown:
        return None


def _parsed(definition: str) -> exp.Expr:
    try:
        found: exp.Expr = sqlglot.parse_one(definition, read="tsql")
    except (SqlglotError, RecursionError):
        raise _Unknown from None
    return found


class _ConstraintParser(Conditions):
    def __init__(self, columns: Mapping[str, tuple[str, Kind]]) -> None:
        self._columns = columns

    def condition(self, node: exp.Expr) -> str:
        node = plain(node)
        made = _CONDITIONS.get(type(node))
        if made is not None:
            return made(self, node)
        if type(node) in OPERATORS:
            return self.compared(node.this, OPERATORS[type(node)], node.expression)
        raise _Unknown

    def is_null(self, node: exp.Is, words: str = "IS NULL") -> str:
        child = plain(node.this)
        if not isinstance(child, exp.Column) or not isinstance(node.expression, exp.Null):
            raise _Unknown
        return f"({self.column(child)[0]} {words})"

    def compared(self, left: exp.Expr, op: str, right: exp.Expr) -> str:
        left, right = plain(left), plain(right)
        one, other = self.value(left), self.value(right)
        if one is None and other is not None:
            one = _constant_of(other[1], left)
        elif other is None and one is not None:
            other = _constant_of(one[1], right)
        if one is None or other is None or not _same(one[1], other[1], op):
            raise _Unknown
        return f"({one[0]} {op} {other[0]})"

    def value(self, node: exp.Expr) -> tuple[str, Kind] | None:
        """A column or what is calculated from some; None for what may be a constant."""
        node = plain(node)
        if isinstance(node, exp.Column):
            return self.column(node)
        if type(node) not in _SIGNS:
            return None
        (one, first), (other, second) = (
            self.value(each) or _small(each) for each in (node.this, node.expression)
        )
        if first.name not in _CALCULATED or second.name not in _CALCULATED:
            raise _Unknown
        kind = max(first, second, key=lambda each: each.digits)
        return f"({one} {_SIGNS[type(node)]} {other})", kind

    def column(self, node: exp.Column) -> tuple[str, Kind]:
        found = self._columns.get(fold(node.name))
        if found is None or node.table:
            raise _Unknown
        return identifier(found[0]), found[1]


def _same(one: Kind, other: Kind, op: str) -> bool:
    """Texts compare as the collation says, and short fractions of a second are rounded first."""
    if any(each.family == "text" or _is_short(each) for each in (one, other)):
        return False
    return comparable(one, other, op)


def _small(node: exp.Expr) -> tuple[str, Kind]:
    node = plain(node)
    value = _decimal(node)
    if value is None or value != int(value) or not -_LARGEST_INT < value < _LARGEST_INT:
        raise _Unknown
    return _digits(value), Kind("constant", "whole", 10)


def _constant_of(kind: Kind, node: exp.Expr) -> tuple[str, Kind] | None:
    """A constant beside a value of that kind, and the kind it has."""
    if kind.family in ("whole", "decimal"):
        value = _decimal(node)
        if value is None:
            return None
        scale = max(-int(value.as_tuple().exponent), 0)
        digits = max(len(value.as_tuple().digits), scale)
        return _digits(value), Kind("constant", "decimal" if scale else "whole", digits, scale)
    found = _constant_for(kind, node)
    return None if found is None else (found, kind)


def _constant_for(kind: Kind, node: exp.Expr) -> str | None:
    """A constant as the column of that kind keeps it."""
    made = _BY_FAMILY.get(kind.family)
    if made is not None:
        return made(kind, node)
    if kind.family in _TYPES:
        given = _text(_unconverted(kind.family, node))
        found = None if given is None else written(given, kind.family)
        if found is None or (_is_short(kind) and "." in found):
            return None
        return f"CAST({literal(found)} AS {_TYPES[kind.family]})"
    if kind.name.partition("(")[0] in _OTHER_TEXTS:
        return _string(kind, node)
    if kind.name in ("varbinary", "binary") and isinstance(node, exp.HexString):
        return literal(bytes.fromhex(node.name if len(node.name) % 2 == 0 else "0" + node.name))
    return None


def _is_short(kind: Kind) -> bool:
    """Whether it rounds a second to fewer digits than DuckDB has."""
    return kind.family in ("moment", "zoned", "time") and kind.scale < _MICROSECONDS


def _unconverted(family: Family, node: exp.Expr) -> exp.Expr:
    """The text within CONVERT or CAST to the same family; a text in ISO 8601 needs no style."""
    if isinstance(node, exp.Convert):
        to, inner = node.this, node.expression
    elif type(node) is exp.Cast:
        to, inner = node.to, node.this
    else:
        return node
    kind = kind_of(to.sql("tsql"))
    return node if kind.family != family or _is_short(kind) else plain(inner)


def _text(node: exp.Expr) -> str | None:
    if isinstance(node, exp.National) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.name)
    return None


def _decimal(node: exp.Expr) -> Decimal | None:
    if isinstance(node, exp.Neg):
        inner = _decimal(plain(node.this))
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string:
        # With an exponent it is a float, which is another comparison.
        return Decimal(node.name) if node.name.replace(".", "", 1).isdecimal() else None
    return None


def _digits(value: Decimal) -> str:
    return f"{value:f}"


def _whole(kind: Kind, node: exp.Expr) -> str | None:
    value = _decimal(node)
    # SQL Server cuts off what DuckDB would round.
    return None if value is None or value != int(value) else str(int(value))


def _exact(kind: Kind, node: exp.Expr) -> str | None:
    value = _decimal(node)
    if value is None or -int(value.as_tuple().exponent) > kind.scale:
        return None
    return _digits(value)


def _float(kind: Kind, node: exp.Expr) -> str | None:
    sign, inner = ("-", plain(node.this)) if isinstance(node, exp.Neg) else ("", node)
    if not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    return sign + inner.name


def _truth(kind: Kind, node: exp.Expr) -> str | None:
    value = _decimal(node)
    # Beside a bit 2 is a number that it never equals.
    return literal(bool(value)) if value in (0, 1) else None


def _string(kind: Kind, node: exp.Expr) -> str | None:
    given = _text(node)
    return None if given is None else literal(given)


_BY_FAMILY: Mapping[Family, Callable[[Kind, exp.Expr], str | None]] = {
    "whole": _whole,
    "decimal": _exact,
    "float": _float,
    "real": _float,
    "bit": _truth,
    "text": _string,
}
_CONDITIONS: Mapping[type[exp.Expr], Callable[[_ConstraintParser, Any], str]] = {
    exp.And: _ConstraintParser.joined,
    exp.Or: _ConstraintParser.joined,
    exp.Not: _ConstraintParser.negated,
    exp.Is: _ConstraintParser.is_null,
}
