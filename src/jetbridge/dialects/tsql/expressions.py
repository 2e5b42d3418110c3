"""Translates CHECK and DEFAULT of DuckDB into T-SQL that certainly means the same.

SQL Server compares strings by their collation and ignores trailing blanks, so equality of strings
is written as equality of their code units and lengths. An expression outside the tables below
raises an error that names it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql.statements import bracket, text
from jetbridge.dialects.tsql.types import (
    MOST_DIGITS,
    Family,
    Kind,
    canonical_constant,
    comparable,
    kind_of,
)
from jetbridge.errors import NotSupported

OPERATORS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_EXACT = "COLLATE Latin1_General_100_BIN2"
_SIGNS: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_FAMILIES: Mapping[exp.DType, Family] = {
    **dict.fromkeys(
        (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT), "whole"
    ),
    exp.DType.BOOLEAN: "bit",
    exp.DType.TEXT: "text",
    exp.DType.VARCHAR: "text",
    exp.DType.UUID: "uuid",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp",
    exp.DType.TIMESTAMPTZ: "zoned",
    exp.DType.TIME: "time",
}
_TRUTHS = {"t": "1", "true": "1", "f": "0", "false": "0"}
# ISO 8601, in which no language changes the order of day and month.
_CONSTANTS: Mapping[Family, str] = {
    "date": "CONVERT(date, {}, 23)",
    "timestamp": "CONVERT(datetime2(7), {}, 126)",
    "zoned": "CONVERT(datetimeoffset(7), {})",
    "time": "CONVERT(time(7), {})",
    "uuid": "CONVERT(uniqueidentifier, {})",
}
_CLOCK = frozenset({"now", "current_timestamp", "get_current_timestamp", "transaction_timestamp"})
_RANDOM = frozenset({"uuid", "gen_random_uuid", "uuidv4"})


def plain(node: exp.Expr) -> exp.Expr:
    """Return the node without its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


class Conditions:
    """Render AND, OR and NOT; subclasses render the conditions within them."""

    def condition(self, node: exp.Expr) -> str:
        raise NotImplementedError

    def is_null(self, node: exp.Is, suffix: str = "IS NULL") -> str:
        raise NotImplementedError

    def join(self, node: exp.Expr) -> str:
        separator = " AND " if isinstance(node, exp.And) else " OR "
        # Flat, because SQL Server stores IN as a chain of OR of any length.
        return f"({separator.join(self.condition(child) for child in node.flatten(unnest=False))})"

    def negate(self, node: exp.Not) -> str:
        inner = plain(node.this)
        if isinstance(inner, exp.Is):
            return self.is_null(inner, "IS NOT NULL")
        return f"(NOT {self.condition(inner)})"


def check(expression: str, columns: Mapping[str, str]) -> str:
    """Return the condition in T-SQL. `columns` maps names of columns to their declared types.

    Raises NotSupported, which names the part that has no exact translation.
    """
    known = {fold(name): (name, kind_of(declared_type)) for name, declared_type in columns.items()}
    return _Writer(f"CHECK {_short(expression)}", known).condition(_parse(expression))


def default(expression: str, declared_type: str, column: str) -> str:
    """Return the T-SQL of a default that is a new value for each row.

    Constants are written by `ddl.constant`. Raises NotSupported for anything else.
    """
    node = plain(_parse(expression))
    called = fold(node.name if isinstance(node, exp.Anonymous | exp.Column) else node.key)
    column_type = kind_of(declared_type)
    if column_type.family == "zoned" and called.replace("currenttimestamp", "now") in _CLOCK:
        return "SYSDATETIMEOFFSET()"
    if column_type.family == "uuid" and called in _RANDOM:
        return "NEWID()"
    raise NotSupported(
        f"the default {_short(expression)} of column {column!r} cannot be translated to T-SQL; "
        "create it in SQL Server"
    )


def is_cast_of(expression: str, column: str, data_type: str) -> bool:
    """Return whether an expression is the column itself, or its cast to the given DuckDB type."""
    try:
        node = plain(_parse(expression))
    except NotSupported:
        return False
    if type(node) is exp.Cast:
        if node.to != exp.DataType.build(data_type, dialect="duckdb"):
            return False
        node = plain(node.this)
    return isinstance(node, exp.Column) and not node.table and fold(node.name) == fold(column)


def _parse(expression: str) -> exp.Expr:
    if _TEMPLATE.search(expression):  # sqlglot ignores these braces, DuckDB does not
        raise NotSupported(f"{_short(expression)} cannot be translated to T-SQL: it has braces")
    try:
        node: exp.Expr = sqlglot.parse_one(expression, read="duckdb")
    except (SqlglotError, RecursionError):
        raise NotSupported(
            f"{_short(expression)} cannot be translated to T-SQL; create it in SQL Server"
        ) from None
    return node


def _short(expression: str) -> str:
    return expression if len(expression) <= 120 else expression[:117] + "..."  # noqa: PLR2004


_TEMPLATE = re.compile(r"\{[#%{]|[#%}]\}")


@dataclass(frozen=True)
class _Value:
    """Hold one side of a condition.

    `raw` is the string of a constant that is still to be read as the type of the other side.
    """

    sql: str
    kind: Kind
    constant: bool = False
    raw: str | None = None


@dataclass(frozen=True)
class _Writer(Conditions):
    what: str
    columns: Mapping[str, tuple[str, Kind]]

    def refusal(self, node: exp.Expr) -> NotSupported:
        piece = _short(node.sql("duckdb"))
        return NotSupported(
            f"{self.what}: {piece} has no exact translation to T-SQL; "
            "create the constraint in SQL Server"
        )

    def condition(self, node: exp.Expr) -> str:
        node = plain(node)
        render = _CONDITIONS.get(type(node))
        if render is not None:
            return render(self, node)
        if type(node) in OPERATORS:
            return self.compare(node.this, OPERATORS[type(node)], node.expression, node)
        value = self.value(node)
        if value.kind.family != "bit":
            raise self.refusal(node)
        return f"({value.sql} = 1)"

    def is_null(self, node: exp.Is, suffix: str = "IS NULL") -> str:
        if not isinstance(node.expression, exp.Null):
            raise self.refusal(node)
        return f"({self.value(node.this).sql} {suffix})"

    def one_of(self, node: exp.In) -> str:
        if not node.expressions or node.args.get("query") or node.args.get("unnest"):
            raise self.refusal(node)
        tests = [self.compare(node.this, "=", item, node) for item in node.expressions]
        return f"({' OR '.join(tests)})"

    def between(self, node: exp.Between) -> str:
        low = self.compare(node.this, ">=", node.args["low"], node)
        high = self.compare(node.this, "<=", node.args["high"], node)
        return f"({low} AND {high})"

    def compare(self, left: exp.Expr, op: str, right: exp.Expr, whole: exp.Expr) -> str:
        one, other = self.value(left), self.value(right)
        one, other = self.match_type(one, other), self.match_type(other, one)
        if not comparable(one.kind, other.kind, op):
            raise self.refusal(whole)
        if one.kind.family == "text":
            return _texts(one, op, other)
        return f"({one.sql} {op} {other.sql})"

    def match_type(self, value: _Value, other: _Value) -> _Value:
        """Return a constant as the type of the other side."""
        family = other.kind.family
        if value.raw is not None and other.raw is None:
            return _constant(value.raw, family) or value
        if value.constant and value.kind.family in ("whole", "decimal"):
            if family == "float":
                return replace(value, sql=_as_float(value.sql), kind=other.kind)
            # SQL Server converts a decimal constant to a real, too.
            return replace(value, kind=other.kind) if family == "real" else value
        return value

    def value(self, node: exp.Expr) -> _Value:
        node = plain(node)
        render = _VALUES.get(type(node))
        if render is not None:
            value = render(self, node)
        elif type(node) in _SIGNS:
            value = self.calculation(node)
        else:
            value = None
        if value is None:
            raise self.refusal(node)
        return value

    def column(self, node: exp.Column) -> _Value | None:
        name, column_type = self.columns.get(fold(node.name), ("", None))
        if column_type is None or node.table:
            return None
        return _Value(bracket(name), column_type)

    def literal(self, node: exp.Literal) -> _Value | None:
        if node.is_string:
            return _Value(text(node.name), Kind("nvarchar", "text"), constant=True, raw=node.name)
        return _number(node.name)

    def negative(self, node: exp.Neg) -> _Value | None:
        inner = self.value(node.this)
        if not inner.constant or inner.kind.family not in ("whole", "decimal"):
            return None
        return replace(inner, sql=f"(-{inner.sql})") if inner.sql[0] != "(" else None

    def truth(self, node: exp.Boolean) -> _Value:
        return _Value("1" if node.this else "0", Kind("bit", "bit"), constant=True)

    def cast(self, node: exp.Cast) -> _Value | None:
        """Render a cast of a constant; a number keeps its value, or the result is None."""
        inner, family = self.value(node.this), _FAMILIES.get(node.to.this)
        if not inner.constant or family is None or type(node) is not exp.Cast:
            return None
        if inner.raw is None:
            return inner if family == inner.kind.family == "whole" else None
        constant = _constant(inner.raw, family)
        return None if constant is None else replace(constant, raw=None)

    def calculation(self, node: exp.Expr) -> _Value | None:
        """Render arithmetic on exact numbers if SQL Server keeps all digits of the result."""
        left, right = self.value(node.this), self.value(node.expression)
        if not {left.kind.family, right.kind.family} <= {"whole", "decimal"}:
            return None
        result_type = _result(node, left.kind, right.kind)
        sql = f"({left.sql} {_SIGNS[type(node)]} {right.sql})"
        return _Value(sql, result_type) if result_type.digits <= MOST_DIGITS else None


def _result(node: exp.Expr, left: Kind, right: Kind) -> Kind:
    family: Family = "whole" if left.family == right.family == "whole" else "decimal"
    if family == "whole":
        # The result has the wider type; both servers raise an error if it overflows.
        return Kind("", family, max(left.digits, right.digits))
    if isinstance(node, exp.Mul):
        digits, scale = left.digits + right.digits + 1, left.scale + right.scale
    else:
        scale = max(left.scale, right.scale)
        digits = scale + max(left.digits - left.scale, right.digits - right.scale) + 1
    return Kind("", family, digits, scale)


def _number(digits_text: str) -> _Value | None:
    if not digits_text.replace(".", "", 1).isdecimal():
        return None
    _, digits, exponent = Decimal(digits_text).as_tuple()
    scale = -int(exponent)
    width = max(len(digits), scale)
    number_type = Kind("", "decimal" if "." in digits_text else "whole", width, scale)
    return _Value(digits_text, number_type, constant=True) if width <= MOST_DIGITS else None


def _as_float(sql: str) -> str:
    return f"{sql[:-1]}E0)" if sql.endswith(")") else f"{sql}E0"


def _constant(constant: str, family: Family) -> _Value | None:
    if family == "text":
        return _Value(text(constant), Kind("nvarchar", "text"), constant=True, raw=constant)
    if family == "bit" and constant.lower() in _TRUTHS:
        return _Value(_TRUTHS[constant.lower()], Kind("bit", "bit"), constant=True)
    canonical = canonical_constant(constant, family)
    if canonical is None:
        return None
    return _Value(_CONSTANTS[family].format(text(canonical)), Kind("", family), constant=True)


def _texts(one: _Value, op: str, other: _Value) -> str:
    """Compare strings. `=` considers 'a' and 'a ' equal even in a binary collation, hence the
    lengths.
    """
    left, right = _code_units(one), _code_units(other)
    word = "AND" if op == "=" else "OR"
    lengths = f"DATALENGTH({left}) {op} DATALENGTH({right})"
    return f"({left} {_EXACT} {op} {right} {_EXACT} {word} {lengths})"


def _code_units(value: _Value) -> str:
    """Return the value as nvarchar: COLLATE would convert the bytes of a varchar to another code
    page.
    """
    return f"CONVERT(nvarchar(max), {value.sql})" if value.kind.name == "varchar" else value.sql


_CONDITIONS: Mapping[type[exp.Expr], Callable[[_Writer, Any], str]] = {
    exp.And: _Writer.join,
    exp.Or: _Writer.join,
    exp.Not: _Writer.negate,
    exp.Is: _Writer.is_null,
    exp.In: _Writer.one_of,
    exp.Between: _Writer.between,
}
_VALUES: Mapping[type[exp.Expr], Callable[[_Writer, Any], _Value | None]] = {
    exp.Column: _Writer.column,
    exp.Literal: _Writer.literal,
    exp.Neg: _Writer.negative,
    exp.Boolean: _Writer.truth,
    exp.Cast: _Writer.cast,
}
