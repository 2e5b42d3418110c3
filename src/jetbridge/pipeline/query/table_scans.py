"""Finds what a query reads of each table, from DuckDB's plan over empty tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.duckdb_syntax.plans import read_table_filter
from jetbridge.duckdb_syntax.types import Node, UnsupportedFilter, member, members, text
from jetbridge.expr import And, Column, Expr, Or
from jetbridge.pipeline.name_resolution import Path


@dataclass(frozen=True)
class TableScan:
    """Hold the columns that a query reads; it needs no row for which `filter` is not TRUE."""

    columns: tuple[str, ...]
    filter: Expr | None = None


def table_scans(connection: StatementConnection, query: str) -> Mapping[Path, TableScan]:
    """Return the scans by table, while the tables are still empty.

    A query may need all of a table that is not among them.
    """
    nodes: dict[Path, list[Node]] = {}
    for path, node in connection.table_scans(query):
        nodes.setdefault(path, []).append(node)
    scans = {path: read_scans(of_table) for path, of_table in nodes.items()}
    return {path: scan for path, scan in scans.items() if scan is not None}


def read_scans(nodes: Sequence[Node]) -> TableScan | None:
    """Return one scan for all scans of one table in a plan; None if one of them is unreadable."""
    try:
        return reduce(_union, map(_read_scan, nodes))
    except UnsupportedFilter:
        return None


def _read_scan(node: Node) -> TableScan:
    names = member(node, "names", list)
    indexes = [member(column, "index", int) for column in members(node, "column_indexes")]
    columns = tuple(text(names[index]) for index in indexes if 0 <= index < len(names))
    filters = []
    for entry in members(member(node, "table_filters", dict), "filters"):
        key = member(entry, "key", int)
        if 0 <= key < len(names):
            column = Column(text(names[key]))
            filters.append(read_table_filter(column, member(entry, "value", dict)))
    # Without a filter that cannot be read, more rows are copied than the query needs.
    known = tuple(expr for expr in filters if expr is not None)
    return TableScan(columns, And(known) if len(known) > 1 else known[0] if known else None)


def _union(one: TableScan, other: TableScan) -> TableScan:
    """Return one scan that returns the rows and columns of both."""
    columns = tuple(dict.fromkeys((*one.columns, *other.columns)))
    if one.filter is None or other.filter is None:
        return TableScan(columns)
    return TableScan(columns, Or((one.filter, other.filter)))
