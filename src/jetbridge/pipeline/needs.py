"""What a query needs of each table: DuckDB plans it over empty ones and says what it would read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jetbridge.embedded.workbench import Desk
from jetbridge.errors import BadRequest
from jetbridge.expr import And, Column, Comparison, Expr, In, IsNull, Or
from jetbridge.expr.nodes import ComparisonOp
from jetbridge.pipeline.places import Path
from jetbridge.wire.constants import constant

_OPERATORS: Mapping[str, ComparisonOp] = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}


@dataclass(frozen=True)
class Need:
    """The columns that are read; rows for which `filter` is not TRUE are not wanted."""

    columns: tuple[str, ...]
    filter: Expr | None = None


def needs(desk: Desk, query: str) -> Mapping[Path, Need]:
    """By table; whatever is not told here is needed wholly. The tables are still empty."""
    found: dict[Path, Need] = {}
    for path, scan in desk.scans(query):
        need = _need(scan)
        found[path] = need if path not in found else _either(found[path], need)
    return found


def _need(scan: Mapping[str, Any]) -> Need:
    names = scan["names"]
    places = [each["index"] for each in scan["column_indexes"]]
    columns = tuple(names[place] for place in places if place < len(names))
    conditions = [
        _condition(Column(names[each["key"]]), each["value"])
        for each in scan["table_filters"]["filters"]
        if each["key"] < len(names)
    ]
    return Need(columns, _all(conditions))


def _either(one: Need, other: Need) -> Need:
    """Of a table that the query reads twice."""
    columns = tuple(dict.fromkeys((*one.columns, *other.columns)))
    if one.filter is None or other.filter is None:
        return Need(columns)
    return Need(columns, Or((one.filter, other.filter)))


def _all(conditions: Iterable[Expr | None]) -> Expr | None:
    """Those that are known: fewer of them keep more rows."""
    known = tuple(each for each in conditions if each is not None)
    return None if not known else known[0] if len(known) == 1 else And(known)


def _condition(column: Column, node: Mapping[str, Any]) -> Expr | None:
    """None for what only DuckDB understands."""
    make = _FILTERS.get(node["filter_type"])
    return None if make is None else make(column, node)


def _compared(column: Column, node: Mapping[str, Any]) -> Expr | None:
    operator = _OPERATORS.get(node["comparison_type"])
    try:
        value = constant(node["constant"])
    except BadRequest:
        return None
    return None if operator is None else Comparison(operator, column, value)


def _one_of(column: Column, node: Mapping[str, Any]) -> Expr | None:
    try:
        return In(column, tuple(constant(each) for each in node["values"]))
    except BadRequest:
        return None


def _conjoined(column: Column, node: Mapping[str, Any]) -> Expr | None:
    return _all(_condition(column, each) for each in node["child_filters"])


def _disjoined(column: Column, node: Mapping[str, Any]) -> Expr | None:
    parts = [_condition(column, each) for each in node["child_filters"]]
    known = tuple(each for each in parts if each is not None)
    return Or(known) if known and len(known) == len(parts) else None


def _optional(column: Column, node: Mapping[str, Any]) -> Expr | None:
    child = node.get("child_filter")
    return None if child is None else _condition(column, child)


_FILTERS: Mapping[str, Callable[[Column, Mapping[str, Any]], Expr | None]] = {
    "CONSTANT_COMPARISON": _compared,
    "CONJUNCTION_AND": _conjoined,
    "CONJUNCTION_OR": _disjoined,
    "OPTIONAL_FILTER": _optional,
    "IN_FILTER": _one_of,
    "IS_NULL": lambda column, _: IsNull(column),
    "IS_NOT_NULL": lambda column, _: IsNull(column, negated=True),
}
