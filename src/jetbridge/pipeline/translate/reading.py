"""Whether our parser reads a query as DuckDB does.

Two parsers may part an expression differently, silently. So the tree is written again with all its
brackets, and DuckDB says what it makes of both texts. What it calls a function, and what it puts
around the function's arguments, may differ: the table of translations is about those.
"""

import json
from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from jetbridge.dialects.quoting import literal
from jetbridge.duckdb_engine.connection import StatementConnection

_OPERATORS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.DPipe, exp.Neg),
    *(exp.And, exp.Or, exp.Not, exp.Between, exp.In, exp.Is, exp.Like, exp.ILike),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
    *(exp.BitwiseLeftShift, exp.BitwiseRightShift),
)
# DuckDB makes one list of a AND b AND c, and one operator of IS NOT NULL, NOT IN, NOT LIKE.
_FLAT = (exp.And, exp.Or)
_NEGATED = (exp.Is, exp.In, exp.Between, exp.Like, exp.ILike)
_IGNORED = ("query_location", "alias", "catalog", "schema")
_LEAVES = ("CONSTANT", "COLUMN_REF")
# Operators that our parser takes for functions.
_CALLED = ("**", "^", "@", "^@")
# Parts of a date that our parser writes in another word.
_SYNONYMS = {"dow": "dayofweek", "doy": "dayofyear"}
# What DuckDB does where an order does not say it; our parser leaves it out.
_DIRECTIONS = {
    ("type", "ORDER_DEFAULT"): "ASCENDING",
    ("null_order", "ORDER_DEFAULT"): "NULLS LAST",
}
_ORDERS = frozenset(["ORDER_DEFAULT", "ASCENDING", "DESCENDING", "NULLS FIRST", "NULLS LAST"])
_TRUE = ("CAST", ("CONSTANT", "t"))


def misread(desk: StatementConnection, query: str, tree: exp.Expr) -> str | None:
    """In which piece the two parsers do not agree; None if they do."""
    ours = with_brackets(tree).sql("duckdb", copy=False)
    one, other = (_parsed(desk, text) for text in (query, ours))
    if one is None or other is None or _shape(one) != _shape(other):
        return "a query that is read in more than one way"
    if not set(_constants(one)) <= set(_constants(other)):
        return "a constant that is read in more than one way"
    return None


def with_brackets(tree: exp.Expr) -> exp.Expr:
    """A copy with every operator in brackets."""
    tree = tree.copy()
    for node in list(tree.find_all(*_OPERATORS)):
        parent = node.parent
        if parent is None or isinstance(parent, exp.Paren):
            continue
        if isinstance(node, _FLAT) and type(node) is type(parent):
            continue
        if isinstance(parent, exp.Not) and isinstance(node, _NEGATED):
            continue
        around = exp.Paren()
        node.replace(around)
        around.set("this", node)
    return tree


def _parsed(desk: StatementConnection, query: str) -> Any:
    """The tree of DuckDB's own parser."""
    ((text,),) = desk.fetch(f"SELECT json_serialize_sql({literal(query)})")
    found = json.loads(text, object_hook=_as_written)
    return None if found["error"] else found["statements"]


def _as_written(node: dict[str, Any]) -> dict[str, Any]:
    """DuckDB's parser makes list_sort(list(x), ...) of list(x ORDER BY x)."""
    if node.get("function_name") != "list_sort":
        return node
    inner, *order = node["children"]
    words = [each.get("value", {}).get("value") for each in order]
    if inner.get("function_name") != "list" or not _ORDERS.issuperset(words) or not words[1:]:
        return node
    key = {"type": words[0], "null_order": words[1], "expression": inner["children"][0]}
    return {**inner, "order_bys": {**inner["order_bys"], "orders": [key]}}


def _shape(node: Any) -> Any:
    """What must be the same."""
    if isinstance(node, list):
        return tuple(_shape(each) for each in node)
    if not isinstance(node, dict):
        return node
    kind = node.get("class")
    if kind in _SIMPLE:
        return _SIMPLE[kind](node)
    node = _usual(node)
    if kind in ("FUNCTION", "WINDOW") and not _is_operator(node):
        return _call_shape(node)
    rest = {key: _shape(value) for key, value in node.items() if key not in _IGNORED}
    if rest.get("type") == "JOIN" and rest.get("condition") == _TRUE:
        rest |= {"condition": None, "ref_type": "CROSS"}
    return tuple(sorted(rest.items(), key=lambda item: item[0]))


def _constant_shape(node: dict[str, Any]) -> Any:
    return "CONSTANT", _word(node)


def _word(node: dict[str, Any]) -> str:
    text = str(node["value"].get("value")).lower()
    return _SYNONYMS.get(text, text)


def _cast_shape(node: dict[str, Any]) -> Any:
    return "CAST", _shape(node["child"])


_SIMPLE = {"CONSTANT": _constant_shape, "CAST": _cast_shape}


def _usual(node: dict[str, Any]) -> dict[str, Any]:
    """One form of what may be said in two."""
    if "null_order" in node:
        return {key: _DIRECTIONS.get((key, str(each)), each) for key, each in node.items()}
    if node.get("class") == "FUNCTION" and node["function_name"] == "mod":
        return {**node, "function_name": "%", "is_operator": True}
    return _not_null(node) if node.get("type") == "OPERATOR_NOT" else node


def _is_operator(node: dict[str, Any]) -> bool:
    return bool(node.get("is_operator")) and node["function_name"] not in _CALLED


def _not_null(node: dict[str, Any]) -> dict[str, Any]:
    """NOT x IS NULL, which is x IS NOT NULL."""
    inner = node["children"][0]
    if inner.get("type") != "OPERATOR_IS_NULL":
        return node
    return {**inner, "type": "OPERATOR_IS_NOT_NULL"}


def _call_shape(node: dict[str, Any]) -> Any:
    """Of a function: the expressions in it, in any order; casts and single values may be added."""
    inside = [_peeled(each) for each in node["children"]]
    shapes = [_shape(each) for each in inside if each.get("class") not in _LEAVES]
    rest = [
        _shape(node.get(key))
        for key in ("filter", "filter_expr", "partitions", "orders", "order_bys", "distinct")
    ]
    return "call", tuple(sorted(shapes, key=repr)), tuple(rest)


def _peeled(node: dict[str, Any]) -> dict[str, Any]:
    while node.get("class") == "CAST":
        node = node["child"]
    return node


def _constants(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("class") == "CONSTANT":
            yield _word(node)
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _constants(each)
