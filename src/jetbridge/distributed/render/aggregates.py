"""Aggregates and window functions as SQL."""

from collections.abc import Sequence

from jetbridge.dialects.quoting import identifier
from jetbridge.distributed.expressions import Aggregate, Bound, Window
from jetbridge.distributed.render.expressions import (
    Columns,
    expression_sql,
    list_sql,
    orders_sql,
)
from jetbridge.distributed.types import type_sql

_NAMES = {
    "sum_no_overflow": "sum",
    "rank_dense": "dense_rank",
    "percent_rank": "percent_rank",
    "count_star": "count",
}
_EXCLUDED = {"CURRENT_ROW": "CURRENT ROW", "GROUP": "GROUP", "TIES": "TIES"}


def _arguments(value: Aggregate | Window, columns: Columns, orders: str) -> str:
    if value.name == "count_star":
        return "*"
    distinct = "DISTINCT " if value.distinct else ""
    return distinct + " ".join(filter(None, (list_sql(value.children, columns), orders)))


def aggregate_sql(value: Aggregate, columns: Columns) -> str:
    """Return an aggregate with its DISTINCT, ORDER BY and FILTER."""
    name = identifier(_NAMES.get(value.name, value.name))
    text = f"{name}({_arguments(value, columns, orders_sql(value.orders, columns))})"
    if value.filter is not None:
        text += f" FILTER (WHERE {expression_sql(value.filter, columns)})"
    if value.type.name == "DECIMAL":
        return f"CAST({text} AS {type_sql(value.type)})"
    return text


def window_sql(value: Window, columns: Columns) -> str:
    """Return a window function with its partitions, order and frame."""
    name = identifier(_NAMES.get(value.name, value.name))
    arguments = _arguments(value, columns, orders_sql(value.argument_orders, columns))
    nulls = " IGNORE NULLS" if value.ignore_nulls else ""
    text = f"{name}({arguments}{nulls})"
    if value.filter is not None:
        text += f" FILTER (WHERE {expression_sql(value.filter, columns)})"
    partitions = list_sql(value.partitions, columns)
    parts = (
        f"PARTITION BY {partitions}" if partitions else "",
        orders_sql(value.orders, columns),
        _frame(value, columns),
    )
    text = f"{text} OVER ({' '.join(filter(None, parts))})"
    if value.type.name == "DECIMAL":
        return f"CAST({text} AS {type_sql(value.type)})"
    return text


def _frame(value: Window, columns: Columns) -> str:
    bounds = [_bound(bound, columns) for bound in (value.start, value.end)]
    excluded = _EXCLUDED.get(value.exclude)
    tail = f" EXCLUDE {excluded}" if excluded else ""
    return f"{value.unit} BETWEEN {bounds[0]} AND {bounds[1]}{tail}"


def _bound(bound: Bound, columns: Columns) -> str:
    if bound.offset is None:
        return bound.kind
    return f"{expression_sql(bound.offset, columns)} {bound.kind}"


def aggregates_sql(values: Sequence[Aggregate], columns: Columns) -> list[str]:
    """Return the SQL of each aggregate."""
    return [aggregate_sql(value, columns) for value in values]
