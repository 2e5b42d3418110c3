"""Translates CHECK and DEFAULT of SQL Server into DuckDB's SQL, for clients that evaluate them.

A client refuses rows by the constraints it knows and fills in the defaults it knows. So only
expressions that mean the same in DuckDB are translated. For others the result is None, and SQL
Server checks or fills in by itself.
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
from jetbridge.dialects.tsql.types import Family, Kind, canonical_constant, comparable, kind_of

_SIGNS: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_TYPES: Mapping[Family, str] = {
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "zoned": "TIMESTAMP WITH TIME ZONE",
    "time": "TIME",
    "uuid": "UUID",
}
# SQL Server and DuckDB calculate these in the same width. A smallint grows in SQL Server only.
_CALCULATED = ("int", "bigint", "constant")
_MICROSECONDS = 6
_OTHER_TEXTS = ("char", "nchar", "text", "ntext")
_LARGEST_INT = 2**31


class _Unknown(Exception):
    """Report an expression that may mean something else in DuckDB."""


def check(definition: str, columns: Mapping[str, str]) -> str | None:
    """Return a CHECK as DuckDB's SQL, or None. `columns` maps names to declared types."""
    known = {fold(name): (name, kind_of(declared_type)) for name, declared_type in columns.items()}
    try:
        return _ConstraintParser(known).condition(_parse(definition))
    except _Unknown:
        return None


def default(definition: str, declared_type: str) -> str | None:
    """Return a default as DuckDB's SQL if it is a constant that the column stores unchanged,
    else None.
    """
    try:
        node = plain(_parse(definition))
        return _constant_for(kind_of(declared_type), node)
    except _Unknown:
        return None


def _parse(definition: str) -> exp.Expr:
    try:
        node: exp.Expr = sqlglot.parse_one(definition, read="tsql")
    except (SqlglotError, RecursionError):
        raise _Unknown from None
    return node


class _ConstraintParser(Conditions):
    def __init__(self, columns: Mapping[str, tuple[str, Kind]]) -> None:
        self._columns = columns

    def condition(self, node: exp.Expr) -> str:
        node = plain(node)
        render = _CONDITIONS.get(type(node))
        if render is not None:
            return render(self, node)
        if type(node) in OPERATORS:
            return self.compare(node.this, OPERATORS[type(node)], node.expression)
        raise _Unknown

    def is_null(self, node: exp.Is, suffix: str = "IS NULL") -> str:
        child = plain(node.this)
        if not isinstance(child, exp.Column) or not isinstance(node.expression, exp.Null):
            raise _Unknown
        return f"({self.column(child)[0]} {suffix})"

    def compare(self, left: exp.Expr, op: str, right: exp.Expr) -> str:
        left, right = plain(left), plain(right)
        one, other = self.value(left), self.value(right)
        if one is None and other is not None:
            one = _constant_of(other[1], left)
        elif other is None and one is not None:
            other = _constant_of(one[1], right)
        if one is None or other is None or not _is_comparable(one[1], other[1], op):
            raise _Unknown
        return f"({one[0]} {op} {other[0]})"

    def value(self, node: exp.Expr) -> tuple[str, Kind] | None:
        """Translate a column or a calculation; return None for what may be a constant."""
        node = plain(node)
        if isinstance(node, exp.Column):
            return self.column(node)
        if type(node) not in _SIGNS:
            return None
        (one, first), (other, second) = (
            self.value(side) or _small_integer(side) for side in (node.this, node.expression)
        )
        if first.name not in _CALCULATED or second.name not in _CALCULATED:
            raise _Unknown
        result_type = max(first, second, key=lambda side: side.digits)
        return f"({one} {_SIGNS[type(node)]} {other})", result_type

    def column(self, node: exp.Column) -> tuple[str, Kind]:
        column = self._columns.get(fold(node.name))
        if column is None or node.table:
            raise _Unknown
        return identifier(column[0]), column[1]


def _is_comparable(one: Kind, other: Kind, op: str) -> bool:
    """Return whether both sides compare as in DuckDB.

    Strings do not, because they compare by their collation, and neither do types that round short
    fractions of a second.
    """
    if any(side.family == "text" or _is_short(side) for side in (one, other)):
        return False
    return comparable(one, other, op)


def _small_integer(node: exp.Expr) -> tuple[str, Kind]:
    node = plain(node)
    value = _decimal(node)
    if value is None or value != int(value) or not -_LARGEST_INT < value < _LARGEST_INT:
        raise _Unknown
    return _digits(value), Kind("constant", "whole", 10)


def _constant_of(column_type: Kind, node: exp.Expr) -> tuple[str, Kind] | None:
    """Return a constant beside a value of the given type, and the type of the constant."""
    if column_type.family in ("whole", "decimal"):
        value = _decimal(node)
        if value is None:
            return None
        scale = max(-int(value.as_tuple().exponent), 0)
        digits = max(len(value.as_tuple().digits), scale)
        return _digits(value), Kind("constant", "decimal" if scale else "whole", digits, scale)
    constant = _constant_for(column_type, node)
    return None if constant is None else (constant, column_type)


def _constant_for(column_type: Kind, node: exp.Expr) -> str | None:
    """Return a constant as a column of the given type stores it."""
    render = _BY_FAMILY.get(column_type.family)
    if render is not None:
        return render(column_type, node)
    if column_type.family in _TYPES:
        text = _text(_unwrap_conversion(column_type.family, node))
        constant = None if text is None else canonical_constant(text, column_type.family)
        if constant is None or (_is_short(column_type) and "." in constant):
            return None
        return f"CAST({literal(constant)} AS {_TYPES[column_type.family]})"
    if column_type.name.partition("(")[0] in _OTHER_TEXTS:
        return _string(column_type, node)
    if column_type.name in ("varbinary", "binary") and isinstance(node, exp.HexString):
        return literal(bytes.fromhex(node.name if len(node.name) % 2 == 0 else "0" + node.name))
    return None


def _is_short(column_type: Kind) -> bool:
    """Return whether the type keeps fewer digits of a second than DuckDB."""
    return (
        column_type.family in ("timestamp", "zoned", "time") and column_type.scale < _MICROSECONDS
    )


def _unwrap_conversion(family: Family, node: exp.Expr) -> exp.Expr:
    """Return the string in a CONVERT or CAST to the same family; ISO 8601 needs no style."""
    if isinstance(node, exp.Convert):
        to, inner = node.this, node.expression
    elif type(node) is exp.Cast:
        to, inner = node.to, node.this
    else:
        return node
    target_type = kind_of(to.sql("tsql"))
    return node if target_type.family != family or _is_short(target_type) else plain(inner)


def _text(node: exp.Expr) -> str | None:
    if isinstance(node, exp.National) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.name)
    return None


def _decimal(node: exp.Expr) -> Decimal | None:
    if isinstance(node, exp.Neg):
        inner = _decimal(plain(node.this))
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string:
        # A number with an exponent is a float, which compares in another way.
        return Decimal(node.name) if node.name.replace(".", "", 1).isdecimal() else None
    return None


def _digits(value: Decimal) -> str:
    return f"{value:f}"


def _whole(column_type: Kind, node: exp.Expr) -> str | None:
    value = _decimal(node)
    # SQL Server truncates a fraction that DuckDB would round.
    return None if value is None or value != int(value) else str(int(value))


def _exact(column_type: Kind, node: exp.Expr) -> str | None:
    value = _decimal(node)
    if value is None or -int(value.as_tuple().exponent) > column_type.scale:
        return None
    return _digits(value)


def _float(column_type: Kind, node: exp.Expr) -> str | None:
    sign, inner = ("-", plain(node.this)) if isinstance(node, exp.Neg) else ("", node)
    if not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    return sign + inner.name


def _truth(column_type: Kind, node: exp.Expr) -> str | None:
    value = _decimal(node)
    # A bit never equals any other number.
    return literal(bool(value)) if value in (0, 1) else None


def _string(column_type: Kind, node: exp.Expr) -> str | None:
    value = _text(node)
    return None if value is None else literal(value)


_BY_FAMILY: Mapping[Family, Callable[[Kind, exp.Expr], str | None]] = {
    "whole": _whole,
    "decimal": _exact,
    "float": _float,
    "real": _float,
    "bit": _truth,
    "text": _string,
}
_CONDITIONS: Mapping[type[exp.Expr], Callable[[_ConstraintParser, Any], str]] = {
    exp.And: _ConstraintParser.join,
    exp.Or: _ConstraintParser.join,
    exp.Not: _ConstraintParser.negate,
    exp.Is: _ConstraintParser.is_null,
}
