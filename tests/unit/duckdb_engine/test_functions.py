"""Each function of DuckDB is judged: a new version of DuckDB brings names that nobody has seen."""

from collections.abc import Iterator

import duckdb
import pytest

from jetbridge.duckdb_engine import functions
from jetbridge.duckdb_engine.instance import EXTENSIONS, extension_file
from jetbridge.duckdb_engine.stored_expressions.call_growth import RULES
from tools.functions_page import GROUPS, PAGE, page

CALLS = {
    "stored": frozenset(functions.SIZES),
    "changing": functions.CHANGING,
    "aggregates": functions.AGGREGATES,
    "run": functions.RUN,
    "refused": frozenset(functions.REFUSED_FUNCTIONS),
}
TABLES = {
    "rows": functions.ROW_TABLE_FUNCTIONS,
    "files": functions.FILE_TABLE_FUNCTIONS,
    "far files": functions.REMOTE_FILE_TABLE_FUNCTIONS,
    "refused": frozenset(functions.REFUSED_TABLE_FUNCTIONS),
}


@pytest.fixture(scope="module")
def catalog() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name in EXTENSIONS:
            connection.execute(f"LOAD '{extension_file(name)}'")
        yield connection


def known(catalog: duckdb.DuckDBPyConnection, *kinds: str) -> frozenset[str]:
    asked = "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ?"
    names = {name for (name,) in catalog.execute(asked, [list(kinds)]).fetchall()}
    return frozenset(name for name in names if not functions.is_collation(name))


@pytest.mark.parametrize(
    ("judged", "kinds"),
    [(CALLS, ("scalar", "aggregate", "macro")), (TABLES, ("table", "table_macro"))],
)
def test_every_function_is_judged_once(catalog, judged, kinds):
    names = known(catalog, *kinds)
    everything = frozenset().union(*judged.values())
    assert sorted(names - everything) == [], "judge them in duckdb_engine/functions.py"
    assert sorted(everything - names) == [], "DuckDB no longer has them"
    twice = [name for name in everything if sum(name in each for each in judged.values()) > 1]
    assert twice == []


def test_a_pragma_is_no_function_of_queries(catalog):
    """It is a statement of its own, which is not supported; so none of them is judged."""
    assert not known(catalog, "pragma") & functions.ROW_TABLE_FUNCTIONS
    assert not known(catalog, "pragma") & functions.FILE_TABLE_FUNCTIONS
    assert {
        kind
        for (kind,) in catalog.execute(
            "SELECT DISTINCT function_type FROM duckdb_functions()"
        ).fetchall()
    } == {"scalar", "aggregate", "macro", "table", "table_macro", "pragma"}


def test_stored_expressions_call_nothing_with_side_effects(catalog):
    rows = catalog.execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
        "WHERE has_side_effects OR stability <> 'CONSISTENT'"
    ).fetchall()
    assert {name for (name,) in rows} & functions.SIZES.keys() <= {"age"}, "with one argument"


def test_every_size_has_its_rule():
    assert set(RULES) == set(functions.Size)
    assert set(functions.SIZES.values()) == set(functions.Size)


def test_the_page_lists_them():
    assert set(GROUPS) == set(functions.Size)
    assert PAGE.read_text() == page(), "run: python tools/functions_page.py"
