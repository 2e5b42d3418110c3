"""Filters of a table scan in DuckDB's own plans: what cannot be read exactly is left out."""

import json
from typing import Any

import duckdb
import pytest

from jetbridge.dialects.duckdb.predicates import render
from jetbridge.duckdb_syntax.plans import read_table_filter
from jetbridge.expr import Column

UNREADABLE = {"filter_type": "CONSTANT_COMPARISON", "comparison_type": "COMPARE_EQUAL"}
IS_NULL = {"filter_type": "IS_NULL"}


@pytest.fixture(scope="module")
def planner():
    with duckdb.connect() as connection:
        # They would see that the table is empty.
        connection.execute("SET disabled_optimizers = 'statistics_propagation,empty_result_pullup'")
        connection.execute("CREATE TABLE t (i INTEGER, b BIT, tns TIMESTAMP_NS, n BIGNUM)")
        yield connection


def filters_of(planner: Any, condition: str) -> list[str | None]:
    """One for each column that the condition filters."""
    sql = "SELECT json_serialize_plan(?, optimize := true)"
    (text,) = planner.execute(sql, [f"SELECT 1 FROM t WHERE {condition}"]).fetchone()
    (scan,) = [node for node in nodes(json.loads(text)) if node.get("type") == "LOGICAL_GET"]
    entries = scan["table_filters"]["filters"]
    assert entries
    filters = [read_table_filter(Column("c"), entry["value"]) for entry in entries]
    return [None if expr is None else render(expr) for expr in filters]


def nodes(tree: Any):
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(child, dict | list):
            yield from nodes(child)


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("i > 5", """("c" > CAST('5' AS INTEGER))"""),
        ("tns > '1677-09-21 00:12:43.145225'::TIMESTAMP_NS", None),
        (
            "tns > '1677-09-22'::TIMESTAMP_NS",
            """("c" > CAST('1677-09-22 00:00:00.000000000' AS TIMESTAMP_NS))""",
        ),
        ("b = '00100010'::BIT", None),
        ("b IN ('00100010'::BIT, '00100011'::BIT)", None),
    ],
)
def test_constants(planner, condition, read):
    (found,) = filters_of(planner, condition)
    assert found == read


def joined(kind: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"filter_type": kind, "child_filters": list(children)}


def test_an_and_keeps_what_can_be_read():
    found = read_table_filter(Column("c"), joined("CONJUNCTION_AND", UNREADABLE, IS_NULL))
    assert found is not None
    assert render(found) == '("c" IS NULL)'


def test_an_or_with_a_part_that_cannot_be_read_lets_everything_through():
    assert read_table_filter(Column("c"), joined("CONJUNCTION_OR", UNREADABLE, IS_NULL)) is None
    either = joined("CONJUNCTION_OR", joined("CONJUNCTION_AND", UNREADABLE, IS_NULL), IS_NULL)
    assert read_table_filter(Column("c"), either) is not None


@pytest.mark.parametrize(
    "node",
    [
        {},
        UNREADABLE,
        {"filter_type": "CONJUNCTION_AND"},
        {"filter_type": "CONJUNCTION_OR", "child_filters": [None]},
        {"filter_type": "OPTIONAL_FILTER", "child_filter": None},
        {"filter_type": "IN_FILTER", "values": []},
        {"filter_type": ["IS_NULL"]},
    ],
)
def test_what_is_no_filter_lets_everything_through(node):
    assert read_table_filter(Column("c"), node) is None
