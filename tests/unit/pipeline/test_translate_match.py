"""Patterns of the table, matched with pieces of a query."""

import pytest
import sqlglot

from jetbridge.pipeline.translate.entries import Entry
from jetbridge.pipeline.translate.match import Matcher, bracketed, filled, takes

TEXT = frozenset({"VARCHAR"})
NUMBER = frozenset({"INTEGER", "DECIMAL"})


def found(entry: Entry, text: str) -> list[str] | None:
    """The arguments of a call, if the entry is for it."""
    node = sqlglot.parse_one(text, read="duckdb")
    for _, arguments in Matcher([entry]).candidates(node, entry.kind):
        return [each.sql("duckdb") for each in arguments]
    return None


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("{0} + {1}", "a + b * 2", ["a", "b * 2"]),
        ("{0} + {1}", "a - b", None),
        ("{1} - {0}", "a - b", ["b", "a"]),
        ("date_part('dow', {0})", "date_part('dow', x)", ["x"]),
        ("date_part('dow', {0})", "date_part('day', x)", None),
        ("my_function({0})", "MY_Function(x)", ["x"]),
        ("my_function({0})", "other(x)", None),
        ("my_function({0})", "my_function(x, y)", None),
        ("CAST({0} AS DECIMAL)", "CAST(x AS DECIMAL(9, 2))", ["x"]),
        ("CAST({0} AS BIGINT)", "CAST(x AS INTEGER)", None),
        ("CAST({0} AS BIGINT)", "TRY_CAST(x AS BIGINT)", None),
        ("{0} + {0}", "a + a", ["a"]),
        ("{0} + {0}", "a + b", None),
        ("count(*)", "count(*)", []),
        ("count({0})", "count(x)", ["x"]),
        ("NOT {0}", "NOT (x)", ["(x)"]),
    ],
)
def test_a_pattern_matches_its_own_shape(
    pattern: str, text: str, expected: list[str] | None
) -> None:
    assert found(Entry(pattern, "spark"), text) == expected


def test_an_entry_takes_the_kinds_it_is_proved_for() -> None:
    entry = Entry("f({0}, {1})", "g({0}, {1})", (TEXT, NUMBER))
    assert takes(entry, ["VARCHAR", "DECIMAL(9,2)"], "VARCHAR")
    assert not takes(entry, ["VARCHAR", "DOUBLE"], "VARCHAR")
    assert not takes(entry, ["VARCHAR"], "VARCHAR")


def test_an_entry_may_refuse_types_that_do_not_fit() -> None:
    entry = Entry("f({0})", "g({0})", (NUMBER,), fits=lambda types, result: result == "INTEGER")
    assert takes(entry, ["INTEGER"], "INTEGER")
    assert not takes(entry, ["INTEGER"], "BIGINT")


def test_arguments_keep_together() -> None:
    entry = Entry("{0} * {1}", "CAST({0} * {1} AS {type})", (NUMBER, NUMBER))
    assert filled(entry, ["a + b", "f(c)"], "INTEGER") == "CAST((a + b) * f(c) AS INT)"


def test_a_count_of_a_regular_expression_is_no_argument() -> None:
    entry = Entry("f({0})", "{0} RLIKE '[0-9]{19}' AND CAST({0} AS {type})", (TEXT,))
    assert filled(entry, ["a"], "DATE") == "(a RLIKE '[0-9]{19}' AND CAST(a AS DATE))"


def test_what_stands_behind_a_call_is_left_as_it_is() -> None:
    entry = Entry("sum({0})", "sum({0})", (NUMBER,), kind="aggregate")
    text = filled(entry, ["a"], "INTEGER", "sum({0}){behind}", " FILTER (WHERE s = '{0}{type}')")
    assert text == "(sum(a) FILTER (WHERE s = '{0}{type}'))"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`t`.`a`", "`t`.`a`"),
        ("`t`.`a b`", "`t`.`a b`"),
        ("`a``b (c`", "`a``b (c`"),
        ("`a` + `b`", "(`a` + `b`)"),
        ("`a b` `c d`", "(`a b` `c d`)"),
        ("f(`a b`, (`(`))", "f(`a b`, (`(`))"),
        ("f(`(`) + g(`)`)", "(f(`(`) + g(`)`))"),
        ("'it\\'s'", "'it\\'s'"),
        ("f(a, (b))", "f(a, (b))"),
        ("(a) + (b)", "((a) + (b))"),
        ("f(a) + g(b)", "(f(a) + g(b))"),
        ("f(')') + g('(')", "(f(')') + g('('))"),
        ("'a' || 'b'", "('a' || 'b')"),
        ("-1", "(-1)"),
    ],
)
def test_brackets_are_put_where_they_are_needed(text: str, expected: str) -> None:
    assert bracketed(text) == expected
