"""Only one module runs SQL in DuckDB."""

import ast
from collections.abc import Iterator
from pathlib import Path

import jetbridge

SOURCE = Path(jetbridge.__file__).parent
# The only module that runs text in DuckDB.
ONE_PLACE = SOURCE / "duckdb_engine" / "statements.py"
# Methods of DuckDB's connection that run a text, or look up a name in one.
RUNNING = {"execute", "executemany", "sql", "from_query", "view", "get_table_names", "query_df"}
OPENING = {"connect", "sql", "execute", "query", "from_query", "default_connection"}


def modules_with_duckdb() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = {
            alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        if "duckdb" in names:
            yield path, tree


def calls(tree: ast.Module) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func


def test_1_2_only_one_module_runs_text_in_duckdb() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{call.lineno} {call.attr}"
        for path, tree in modules_with_duckdb()
        for call in calls(tree)
        if path != ONE_PLACE and call.attr in RUNNING
    ]
    assert not found


def test_1_2_only_duckdb_engine_opens_duckdb() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{call.lineno} {call.attr}"
        for path, tree in modules_with_duckdb()
        for call in calls(tree)
        if "duckdb_engine" not in path.parts
        and isinstance(call.value, ast.Name)
        and call.value.id == "duckdb"
        and call.attr in OPENING
    ]
    assert not found
