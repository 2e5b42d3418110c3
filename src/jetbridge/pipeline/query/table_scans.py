"""What a query reads of each table, according to the plan that DuckDB makes over empty tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jetbridge.duckdb_engine.planner import StatementConnection
from jetbridge.duckdb_syntax.plans import read_table_filter
from jetbridge.expr import And, Column, Expr, Or
from jetbridge.pipeline.name_resolution import Path


@dataclass(frozen=True)
class TableScan:
    """Hold the columns that a query reads; it needs no row for which `filter` is not TRUE."""

    columns: tuple[str, ...]
    filter: Expr | None = None


def table_scans(connection: StatementConnection, query: str) -> Mapping[Path, TableScan]:
    """Return the scans by table, while the tables are still empty.

    A query needs all of a table that is not among them.
    """
    scans: dict[Path, TableScan] = {}
    for path, node in connection.table_scans(query):
        scan = _scan(node)
        scans[path] = scan if path not in scans else _union(scans[path], scan)
    return scans


def _scan(node: Mapping[str, Any]) -> TableScan:
    names = node["names"]
    indexes = [column["index"] for column in node["column_indexes"]]
    columns = tuple(names[index] for index in indexes if index < len(names))
    filters = [
        read_table_filter(Column(names[entry["key"]]), entry["value"])
        for entry in node["table_filters"]["filters"]
        if entry["key"] < len(names)
    ]
    # Without a filter that cannot be read, more rows are copied than the query needs.
    known = tuple(expr for expr in filters if expr is not None)
    return TableScan(columns, And(known) if len(known) > 1 else known[0] if known else None)


def _union(one: TableScan, other: TableScan) -> TableScan:
    """Return one scan for a table that the query reads twice."""
    columns = tuple(dict.fromkeys((*one.columns, *other.columns)))
    if one.filter is None or other.filter is None:
        return TableScan(columns)
    return TableScan(columns, Or((one.filter, other.filter)))
