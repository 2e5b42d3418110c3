"""DuckDB's own plans as a source of real filter JSON.

`json_serialize_plan` writes the same bound expressions the Airport client sends. Its columns are
positions in the scan's `column_indexes` (BOUND_COLUMN_REF, or BOUND_REF once optimized); they are
given the client's shape here.
"""

import json
from collections.abc import Iterator
from typing import Any

import duckdb

# What keeps a filter where it is and as it is: above the scan, not judged by statistics.
KEPT = "filter_pushdown,statistics_propagation,unused_columns,column_lifetime,in_clause,join_order"


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET disabled_optimizers = '{KEPT}'")
    return connection


def _nodes(tree: Any, kind: str) -> Iterator[dict[str, Any]]:
    if isinstance(tree, list):
        for item in tree:
            yield from _nodes(item, kind)
    elif isinstance(tree, dict):
        if tree.get("type") == kind:
            yield tree
        for item in tree.values():
            yield from _nodes(item, kind)


def _as_sent(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_as_sent(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    sent = {key: _as_sent(item) for key, item in tree.items()}
    if sent.get("expression_class") == "BOUND_REF":
        position = sent.pop("index")
        sent |= {"expression_class": "BOUND_COLUMN_REF", "type": "BOUND_COLUMN_REF", "depth": 0}
        sent["binding"] = {"table_index": 0, "column_index": position}
    return sent


def pushed_json(
    connection: duckdb.DuckDBPyConnection, table: str, where: str, optimize: bool
) -> str | None:
    """What the client would push for the predicate; None if DuckDB cannot serialise the plan."""
    statement = f"SELECT * FROM {table} WHERE {where}"
    found = connection.execute(
        f"SELECT json_serialize_plan(?, optimize := {optimize})", [statement]
    ).fetchone()
    plan = json.loads(found[0]) if found and found[0] else {"error": True}
    if plan["error"]:
        return None
    gets = list(_nodes(plan["plans"], "LOGICAL_GET"))
    filters = [e for node in _nodes(plan["plans"], "LOGICAL_FILTER") for e in node["expressions"]]
    if len(gets) != 1:
        return None
    names = [gets[0]["names"][column["index"]] for column in gets[0]["column_indexes"]]
    return json.dumps({"filters": _as_sent(filters), "column_binding_names_by_index": names})


def constant_json(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any] | None:
    """The serialised Value of a constant expression; None if DuckDB cannot write it."""
    found = connection.execute(
        "SELECT json_serialize_plan(?, optimize := true)", [f"SELECT {sql}"]
    ).fetchone()
    if not found or not found[0]:
        return None
    value: dict[str, Any] | None = json.loads(found[0])["plans"][0]["expressions"][0].get("value")
    return value
