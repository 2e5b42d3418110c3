"""What a query names: its tables, its functions, and types that may not run for a client."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from jetbridge.duckdb_engine.functions import JSON_TYPED_FUNCTIONS
from jetbridge.duckdb_engine.statements import query_tree
from jetbridge.errors import BadRequest

# Nobody nests the type of a JSON function deeper than this.
_MOST_LEVELS = 100
# `[3]` in the name of a type, with whatever DuckDB may skip inside.
_ARRAY_SIZE = re.compile(r"\[[^\d\]]*(\d+)")
_MOST_VALUES = 1_000_000


@dataclass(frozen=True)
class QueryReferences:
    """Hold the names in a query: tables (each as its parts), functions, and CTEs.

    `table_functions` stand in FROM. `refused_type` says why a client may not run the query because
    of a type in it; "" if it may.
    """

    tables: frozenset[tuple[str, ...]]
    table_functions: frozenset[str]
    called_functions: frozenset[str]
    cte_names: frozenset[str]
    refused_type: str


def query_references(query: str) -> QueryReferences:
    """Return what a query names; raise BadRequest for anything but one query."""
    tree = query_tree(query)
    table_functions, called_functions, cte_names = set(), set(), set()
    in_from = set()
    for node in nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            table_functions.add(str(node["function"]["function_name"]).lower())
            in_from.add(id(node["function"]))
        elif node.get("class") in ("FUNCTION", "WINDOW") and id(node) not in in_from:
            called_functions.add(str(node["function_name"]).lower())
        for entry in (node.get("cte_map") or {}).get("map") or ():
            cte_names.add(str(entry["key"]).lower())
    return QueryReferences(
        frozenset(map(_parts, base_tables(tree))),
        frozenset(table_functions),
        frozenset(called_functions),
        frozenset(cte_names),
        next(filter(None, map(_refused_type, nodes(tree))), ""),
    )


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in what DuckDB writes as JSON, however deep."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending += reversed(node.values())
        elif isinstance(node, list):
            pending += reversed(node)


def base_tables(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield the nodes that name a table."""
    return (node for node in nodes(tree) if node.get("type") == "BASE_TABLE")


def _parts(table: dict[str, Any]) -> tuple[str, ...]:
    parts = (table["catalog_name"], table["schema_name"], table["table_name"])
    if not parts[-1]:
        raise BadRequest("the name of a table is empty")
    return tuple(part for part in parts if part)


def _refused_type(node: Mapping[str, Any]) -> str:
    """Return why a type in a node is refused: one value of it may fill the memory."""
    if node.get("id") == "VARIANT":
        return "type VARIANT is not supported in run(); use another one"
    size, data_type = 1, node
    while (data_type.get("type_info") or {}).get("type") == "ARRAY_TYPE_INFO":
        size *= data_type["type_info"]["size"]
        data_type = data_type["type_info"]["child_type"]
    if size > _MOST_VALUES:
        return f"an ARRAY of {size} values is not supported in run(); use a list"
    is_json = str(node.get("function_name")).lower() in JSON_TYPED_FUNCTIONS
    return _refused_json_type(node) if is_json else ""


def _refused_json_type(call: Mapping[str, Any]) -> str:
    """Return why the type of a JSON function is refused: DuckDB reads it recursively."""
    for argument in call["children"][1:]:
        text = argument.get("value", {}).get("value")
        if not isinstance(text, str):
            return f"{call['function_name']} needs its type as a string in run()"
        # An escaped character could stand for any other one.
        is_deep = "\\" in text or text.count("[") + text.count("{") > _MOST_LEVELS
        sizes = map(int, _ARRAY_SIZE.findall(text))
        if is_deep or "VARIANT" in text.upper() or prod(sizes) > _MOST_VALUES:
            name = call["function_name"]
            return f"the type of {name} is too large for run(); use a smaller one"
    return ""
