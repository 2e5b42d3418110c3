"""What a query needs of each table: DuckDB plans it over empty ones and says what it would read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jetbridge.duckdb_engine.planner import StatementConnection
from jetbridge.duckdb_syntax.plans import read_table_filter
from jetbridge.expr import And, Column, Expr, Or
from jetbridge.pipeline.name_resolution import Path


@dataclass(frozen=True)
class TableScan:
    """The columns that are read; rows for which `filter` is not TRUE are not wanted."""

    columns: tuple[str, ...]
    filter: Expr | None = None


def table_scans(desk: StatementConnection, query: str) -> Mapping[Path, TableScan]:
    """By table; whatever is not told here is needed wholly. The tables are still empty."""
    found: dict[Path, TableScan] = {}
    for path, scan in desk.table_scans(query):
        need = _need(scan)
        found[path] = need if path not in found else _either(found[path], need)
    return found


def _need(scan: Mapping[str, Any]) -> TableScan:
    names = scan["names"]
    places = [each["index"] for each in scan["column_indexes"]]
    columns = tuple(names[place] for place in places if place < len(names))
    filters = [
        read_table_filter(Column(names[entry["key"]]), entry["value"])
        for entry in scan["table_filters"]["filters"]
        if entry["key"] < len(names)
    ]
    # Without those that cannot be read, more rows are copied than the query needs.
    known = tuple(expr for expr in filters if expr is not None)
    return TableScan(columns, And(known) if len(known) > 1 else known[0] if known else None)


def _either(one: TableScan, other: TableScan) -> TableScan:
    """Of a table that the query reads twice."""
    columns = tuple(dict.fromkeys((*one.columns, *other.columns)))
    if one.filter is None or other.filter is None:
        return TableScan(columns)
    return TableScan(columns, Or((one.filter, other.filter)))
