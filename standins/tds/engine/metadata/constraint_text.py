"""Defaults and checks as the catalog shows them: SQL Server does not keep the text, it writes anew.

DEFAULT 0 becomes ((0)), CHECK (a > 0 AND b IN (1, 2)) becomes ([a]>(0) AND ([b]=(2) OR [b]=(1))).
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from standins.tds.engine.errors import error, quoted
from standins.tds.engine.parse.dialect import parse_condition, parse_expression
from standins.tds.engine.storage.catalog import ColumnDef, Table

OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
}  # fmt: skip


class Unwritten(Exception):
    """Not known how SQL Server would write it: the text stays as it was given."""


def default_shown(text: str) -> str:
    return f"({_or_as_given(text, lambda: _written(_bare(parse_expression(text))))})"


def check_shown(text: str) -> str:
    return f"({_or_as_given(text, lambda: _written(_bare(parse_condition(text))))})"


def fit_for_key(column: ColumnDef, table: Table) -> int:
    """Its number; what has no limit cannot be in a key."""
    endless = ("nvarchar", "varchar", "varbinary")
    if column.type.name in ("text", "ntext", "image", "xml") or (
        column.type.name in endless and column.type.length is None
    ):
        raise error(1919, column.name, table.full_name)
    return column.column_id


def _or_as_given(text: str, written: Callable[[], str]) -> str:
    try:
        return written()
    except Unwritten:
        return text


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _written(node: exp.Expr) -> str:
    sign = OPERATORS.get(type(node))
    if sign is not None:
        return f"{_written(node.this)}{sign}{_written(node.expression)}"
    writer = WRITERS.get(type(node))
    if writer is None:
        raise Unwritten
    return writer(node)


def _literal(node: Any) -> str:
    return quoted(node.name) if node.is_string else f"({node.name})"


def _negative(node: Any) -> str:
    if not isinstance(node.this, exp.Literal):
        return f"-{_written(node.this)}"
    return f"(-{node.this.name})"


def _column(node: Any) -> str:
    name = str(node.name).replace("]", "]]")
    return f"[{name}]"


def _not(node: Any) -> str:
    inner = _bare(node.this)
    if isinstance(inner, exp.Is):
        return f"{_written(inner.this)} IS NOT NULL"
    return f"NOT {_written(node.this)}"


def _like(node: Any) -> str:
    word = "not like" if node.args.get("negate") else "like"
    return f"{_written(node.this)} {word} {_written(node.expression)}"


def _in(node: Any) -> str:
    if node.args.get("query") is not None:
        raise Unwritten
    value = _written(node.this)
    tests = [f"{value}={_written(each)}" for each in reversed(node.expressions)]
    return tests[0] if len(tests) == 1 else "(" + " OR ".join(tests) + ")"


def _between(node: Any) -> str:
    value = _written(node.this)
    return f"{value}>={_written(node.args['low'])} AND {value}<={_written(node.args['high'])}"


def _grouped(node: exp.Expr) -> str:
    """A constant has its own parentheses already."""
    number = isinstance(node, exp.Literal) and not node.is_string
    negative = isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
    return _written(node) if number or negative else f"({_written(node)})"


def _function(node: Any) -> str:
    return f"{node.name.lower()}({','.join(_written(each) for each in node.expressions)})"


WRITERS: dict[type[exp.Expr], Callable[[Any], str]] = {
    exp.Literal: _literal,
    exp.National: lambda node: f"N{quoted(node.name)}",
    exp.HexString: lambda node: f"0x{node.name}",
    exp.Null: lambda node: "NULL",
    exp.Neg: _negative,
    exp.Column: _column,
    exp.Paren: lambda node: _grouped(_bare(node)),
    exp.And: lambda node: " AND ".join(_written(each) for each in node.flatten(unnest=False)),
    exp.Or: lambda node: " OR ".join(_written(each) for each in node.flatten(unnest=False)),
    exp.Not: _not,
    exp.Is: lambda node: f"{_written(node.this)} IS NULL",
    exp.Like: _like,
    exp.In: _in,
    exp.Between: _between,
    exp.Anonymous: _function,
}
