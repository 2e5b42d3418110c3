"""Reads the filters of a table scan in a plan that DuckDB has written as JSON.

They have a form of their own, `{"filter_type": "CONSTANT_COMPARISON", …}`, and apply to one column
each. The plan filters again, so a filter may let too many rows through but never too few: a part
without an exact equal in `expr` becomes TRUE.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jetbridge.duckdb_syntax.types import MAX_DEPTH, Node, UnsupportedFilter, member, members
from jetbridge.duckdb_syntax.values import constant
from jetbridge.expr import And, Column, Comparison, ComparisonOp, Expr, In, IsNull, Or

_COMPARISONS: Mapping[str, ComparisonOp] = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}


def read_table_filter(column: Column, node: Node, depth: int = 0) -> Expr | None:
    """Return the filter on the column, or a weaker one; None is TRUE."""
    read = _READERS.get(str(node.get("filter_type")))
    if read is None or depth > MAX_DEPTH:
        return None
    try:
        return read(column, node, depth + 1)
    except UnsupportedFilter:
        return None


def _comparison(column: Column, node: Node, depth: int) -> Expr:
    operator = _COMPARISONS.get(member(node, "comparison_type", str))
    if operator is None:
        raise UnsupportedFilter("comparison")
    return Comparison(operator, column, constant(member(node, "constant", dict), depth))


def _in(column: Column, node: Node, depth: int) -> Expr:
    items = tuple(constant(value, depth) for value in members(node, "values"))
    if not items:
        raise UnsupportedFilter("IN without items")
    return In(column, items)


def _and(column: Column, node: Node, depth: int) -> Expr | None:
    children = [read_table_filter(column, c, depth) for c in members(node, "child_filters")]
    known = tuple(child for child in children if child is not None)
    return And(known) if len(known) > 1 else known[0] if known else None


def _or(column: Column, node: Node, depth: int) -> Expr | None:
    children = [read_table_filter(column, c, depth) for c in members(node, "child_filters")]
    known = tuple(child for child in children if child is not None)
    return Or(known) if known and len(known) == len(children) else None


def _optional(column: Column, node: Node, depth: int) -> Expr | None:
    return read_table_filter(column, member(node, "child_filter", dict), depth)


_READERS: Mapping[str, Callable[[Column, dict[str, Any], int], Expr | None]] = {
    "CONSTANT_COMPARISON": _comparison,
    "CONJUNCTION_AND": _and,
    "CONJUNCTION_OR": _or,
    "OPTIONAL_FILTER": _optional,
    "IN_FILTER": _in,
    "IS_NULL": lambda column, *_: IsNull(column),
    "IS_NOT_NULL": lambda column, *_: IsNull(column, negated=True),
}
