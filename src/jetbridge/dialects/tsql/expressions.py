"""CHECK and DEFAULT of DuckDB as T-SQL: only what certainly means the same there.

SQL Server compares texts as their collation says and without trailing blanks, so equality of texts
is that of their code units and of their lengths. Anything that is not in the tables below is
refused by name.
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
from jetbridge.dialects.tsql.statements import bracketed, text
from jetbridge.dialects.tsql.types import (
    MOST_DIGITS,
    Family,
    Kind,
    comparable,
    kind_of,
    written,
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
    exp.DType.TIMESTAMP: "moment",
    exp.DType.TIMESTAMPNTZ: "moment",
    exp.DType.TIMESTAMPTZ: "zoned",
    exp.DType.TIME: "time",
}
_TRUTHS = {"t": "1", "true": "1", "f": "0", "false": "0"}
# ISO 8601, in which no language changes the order of day and month.
_CONSTANTS: Mapping[Family, str] = {
    "date": "CONVERT(date, {}, 23)",
    "moment": "CONVERT(datetime2(7), {}, 126)",
    "zoned": "CONVERT(datetimeoffset(7), {})",
    "time": "CONVERT(time(7), {})",
    "uuid": "CONVERT(uniqueidentifier, {})",
}
_CLOCK = frozenset({"now", "current_timestamp", "get_current_timestamp", "transaction_timestamp"})
_RANDOM = frozenset({"uuid", "gen_random_uuid", "uuidv4"})


def plain(node: exp.Expr) -> exp.Expr:
    """Without its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


class Conditions:
    """AND, OR and NOT, whatever the conditions in them are."""

    def condition(self, node: exp.Expr) -> str:
        raise NotImplementedError

    def is_null(self, node: exp.Is, words: str = "IS NULL") -> str:
        raise NotImplementedError

    def joined(self, node: exp.Expr) -> str:
        word = " AND " if isinstance(node, exp.And) else " OR "
        # Flat: SQL Server keeps a list of IN as a chain of OR, however long.
        return f"({word.join(self.condition(each) for each in node.flatten(unnest=False))})"

    def negated(self, node: exp.Not) -> str:
        inner = plain(node.this)
        if isinstance(inner, exp.Is):
            return self.is_null(inner, "IS NOT NULL")
        return f"(NOT {self.condition(inner)})"


def check(expression: str, columns: Mapping[str, str]) -> str:
    """The condition in T-SQL. `columns` are the declared types of the columns, by their names.

    Raises NotSupported that names the piece which has no certain translation.
    """
    known = {fold(name): (name, kind_of(declared)) for name, declared in columns.items()}
    return _Writer(f"CHECK {_short(expression)}", known).condition(_parsed(expression))


def default(expression: str, declared: str, column: str) -> str:
    """A default that is another value each time; constants are for `tsql_ddl.constant`."""
    node = plain(_parsed(expression))
    called = fold(node.name if isinstance(node, exp.Anonymous | exp.Column) else node.key)
    kind = kind_of(declared)
    if kind.family == "zoned" and called.replace("currenttimestamp", "now") in _CLOCK:
        return "SYSDATETIMEOFFSET()"
    if kind.family == "uuid" and called in _RANDOM:
        return "NEWID()"
    raise NotSupported(
        f"the default {_short(expression)} of column {column!r} cannot be written for SQL Server; "
        "create it in SQL Server itself"
    )


def is_cast_of(expression: str, column: str, kind: str) -> bool:
    """Whether it is the column itself, or its cast to that type of DuckDB."""
    try:
        node = plain(_parsed(expression))
    except NotSupported:
        return False
    if type(node) is exp.Cast:
        if node.to != exp.DataType.build(kind, dialect="duckdb"):
            return False
        node = plain(node.this)
    return isinstance(node, exp.Column) and not node.table and fold(node.name) == fold(column)


def _parsed(expression: str) -> exp.Expr:
    if _TEMPLATE.search(expression):  # sqlglot would skip it, and DuckDB did not
        raise NotSupported(f"{_short(expression)} cannot be written for SQL Server: it has braces")
    try:
        found: exp.Expr = sqlglot.parse_one(expression, read="duckdb")
    except (SqlglotError, RecursionError):
        raise NotSupported(
            f"{_short(expression)} cannot be written for SQL Server; create it there itself"
        ) from None
    return found


def _short(expression: str) -> str:
    return expression if len(expression) <= 120 else expression[:117] + "..."  # noqa: PLR2004


_TEMPLATE = re.compile(r"\{[#%{]|[#%}]\}")


@dataclass(frozen=True)
class _Value:
    """`given` is the text of a constant that is still to be read as the other side needs it."""

    sql: str
    kind: Kind
    constant: bool = False
    given: str | None = None


@dataclass(frozen=True)
class _Writer(Conditions):
    what: str
    columns: Mapping[str, tuple[str, Kind]]

    def refusal(self, node: exp.Expr) -> NotSupported:
        piece = _short(node.sql("duckdb"))
        return NotSupported(
            f"{self.what}: {piece} cannot be written for SQL Server with certainty; "
            "create the constraint in SQL Server itself"
        )

    def condition(self, node: exp.Expr) -> str:
        node = plain(node)
        made = _CONDITIONS.get(type(node))
        if made is not None:
            return made(self, node)
        if type(node) in OPERATORS:
            return self.compared(node.this, OPERATORS[type(node)], node.expression, node)
        value = self.value(node)
        if value.kind.family != "bit":
            raise self.refusal(node)
        return f"({value.sql} = 1)"

    def is_null(self, node: exp.Is, words: str = "IS NULL") -> str:
        if not isinstance(node.expression, exp.Null):
            raise self.refusal(node)
        return f"({self.value(node.this).sql} {words})"

    def one_of(self, node: exp.In) -> str:
        if not node.expressions or node.args.get("query") or node.args.get("unnest"):
            raise self.refusal(node)
        tests = [self.compared(node.this, "=", each, node) for each in node.expressions]
        return f"({' OR '.join(tests)})"

    def between(self, node: exp.Between) -> str:
        low = self.compared(node.this, ">=", node.args["low"], node)
        high = self.compared(node.this, "<=", node.args["high"], node)
        return f"({low} AND {high})"

    def compared(self, left: exp.Expr, op: str, right: exp.Expr, whole: exp.Expr) -> str:
        one, other = self.value(left), self.value(right)
        one, other = self.suited(one, other), self.suited(other, one)
        if not comparable(one.kind, other.kind, op):
            raise self.refusal(whole)
        if one.kind.family == "text":
            return _texts(one, op, other)
        return f"({one.sql} {op} {other.sql})"

    def suited(self, value: _Value, other: _Value) -> _Value:
        """A constant as the type of the other side."""
        family = other.kind.family
        if value.given is not None and other.given is None:
            return _constant(value.given, family) or value
        if value.constant and value.kind.family in ("whole", "decimal"):
            if family == "float":
                return replace(value, sql=_as_float(value.sql), kind=other.kind)
            # A decimal constant becomes a real there as well.
            return replace(value, kind=other.kind) if family == "real" else value
        return value

    def value(self, node: exp.Expr) -> _Value:
        node = plain(node)
        made = _VALUES.get(type(node))
        if made is not None:
            found = made(self, node)
        elif type(node) in _SIGNS:
            found = self.calculated(node)
        else:
            found = None
        if found is None:
            raise self.refusal(node)
        return found

    def column(self, node: exp.Column) -> _Value | None:
        name, kind = self.columns.get(fold(node.name), ("", None))
        if kind is None or node.table:
            return None
        return _Value(bracketed(name), kind)

    def literal(self, node: exp.Literal) -> _Value | None:
        if node.is_string:
            return _Value(text(node.name), Kind("nvarchar", "text"), constant=True, given=node.name)
        return _number(node.name)

    def negative(self, node: exp.Neg) -> _Value | None:
        inner = self.value(node.this)
        if not inner.constant or inner.kind.family not in ("whole", "decimal"):
            return None
        return replace(inner, sql=f"(-{inner.sql})") if inner.sql[0] != "(" else None

    def truth(self, node: exp.Boolean) -> _Value:
        return _Value("1" if node.this else "0", Kind("bit", "bit"), constant=True)

    def cast(self, node: exp.Cast) -> _Value | None:
        """Of constants only; numbers keep their value or are refused."""
        inner, family = self.value(node.this), _FAMILIES.get(node.to.this)
        if not inner.constant or family is None or type(node) is not exp.Cast:
            return None
        if inner.given is None:
            return inner if family == inner.kind.family == "whole" else None
        found = _constant(inner.given, family)
        return None if found is None else replace(found, given=None)

    def calculated(self, node: exp.Expr) -> _Value | None:
        """Exact numbers, as long as SQL Server keeps all digits of the result."""
        left, right = self.value(node.this), self.value(node.expression)
        if not {left.kind.family, right.kind.family} <= {"whole", "decimal"}:
            return None
        kind = _result(node, left.kind, right.kind)
        sql = f"({left.sql} {_SIGNS[type(node)]} {right.sql})"
        return _Value(sql, kind) if kind.digits <= MOST_DIGITS else None


def _result(node: exp.Expr, left: Kind, right: Kind) -> Kind:
    family: Family = "whole" if left.family == right.family == "whole" else "decimal"
    if family == "whole":
        # It stays a whole number of the wider type; beyond that both servers raise an error.
        return Kind("", family, max(left.digits, right.digits))
    if isinstance(node, exp.Mul):
        digits, scale = left.digits + right.digits + 1, left.scale + right.scale
    else:
        scale = max(left.scale, right.scale)
        digits = scale + max(left.digits - left.scale, right.digits - right.scale) + 1
    return Kind("", family, digits, scale)


def _number(written_as: str) -> _Value | None:
    if not written_as.replace(".", "", 1).isdecimal():
        return None
    _, digits, exponent = Decimal(written_as).as_tuple()
    scale = -int(exponent)
    width = max(len(digits), scale)
    kind = Kind("", "decimal" if "." in written_as else "whole", width, scale)
    return _Value(written_as, kind, constant=True) if width <= MOST_DIGITS else None


def _as_float(sql: str) -> str:
    return f"{sql[:-1]}E0)" if sql.endswith(")") else f"{sql}E0"


def _constant(given: str, family: Family) -> _Value | None:
    if family == "text":
        return _Value(text(given), Kind("nvarchar", "text"), constant=True, given=given)
    if family == "bit" and given.lower() in _TRUTHS:
        return _Value(_TRUTHS[given.lower()], Kind("bit", "bit"), constant=True)
    found = written(given, family)
    if found is None:
        return None
    return _Value(_CONSTANTS[family].format(text(found)), Kind("", family), constant=True)


def _texts(one: _Value, op: str, other: _Value) -> str:
    """`=` takes 'a' and 'a ' for equal even there, hence the lengths."""
    left, right = _code_units(one), _code_units(other)
    word = "AND" if op == "=" else "OR"
    lengths = f"DATALENGTH({left}) {op} DATALENGTH({right})"
    return f"({left} {_EXACT} {op} {right} {_EXACT} {word} {lengths})"


def _code_units(value: _Value) -> str:
    """COLLATE would turn the bytes of a varchar into those of another code page."""
    return f"CONVERT(nvarchar(max), {value.sql})" if value.kind.name == "varchar" else value.sql


_CONDITIONS: Mapping[type[exp.Expr], Callable[[_Writer, Any], str]] = {
    exp.And: _Writer.joined,
    exp.Or: _Writer.joined,
    exp.Not: _Writer.negated,
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
