import duckdb
import pytest

from jetbridge.duckdb_engine.statements import (
    CREATE,
    REWRITTEN,
    check_expression_text,
    execute,
    in_brackets,
    kind_of_statement,
    parsed,
)
from jetbridge.errors import BadRequest


@pytest.fixture
def cursor():
    with duckdb.connect(":memory:") as connection:
        yield connection


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("CREATE TABLE t (a INT); DROP TABLE t", "CREATE and DROP"),
        ("CREATE TABLE t (x INT, y INT AS (MAP {#1: 2})); CHECKPOINT; --#}))", "CREATE and CALL"),
        ("SELECT 1", "SELECT"),
        ("PRAGMA show_tables", "MULTI"),
        ("", "none"),
        ("-- CREATE TABLE t (a INT)", "none"),
    ],
)
def test_execute_refuses_all_but_one_statement_of_the_kind(cursor, text, found):
    with pytest.raises(BadRequest, match=f"expected one CREATE statement, found {found}"):
        execute(cursor, text, CREATE)
    assert cursor.execute("SHOW TABLES").fetchall() == []


def test_execute_runs_what_was_parsed(cursor):
    execute(cursor, "CREATE TABLE t (a INT)", CREATE)
    assert execute(cursor, "SELECT ? + 1", parameters=[41]).fetchall() == [(42,)]
    assert execute(cursor, "SHOW TABLES;").fetchall() == [("t",)]


@pytest.mark.parametrize("text", ["SELECT 1\0; DROP TABLE t", "SELECT '\ud800'"])
def test_text_that_is_cut_or_no_unicode_is_refused(cursor, text):
    with pytest.raises(BadRequest, match="NUL|Unicode"):
        parsed(cursor, text)
    with pytest.raises(BadRequest, match="NUL|Unicode"):
        kind_of_statement(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("FROM t", "SELECT"),
        ("MERGE INTO a USING b ON true WHEN MATCHED THEN DELETE", "MERGE_INTO"),
        ("TRUNCATE t", "DELETE"),
        ("SELECT 1;", "SELECT"),
        ("-- nothing", ""),
        ("PIVOT t ON b USING sum(a)", REWRITTEN),
        ("PRAGMA table_info('t')", REWRITTEN),
        ("IMPORT DATABASE '/'", REWRITTEN),
    ],
)
def test_kind_is_what_duckdb_calls_it(text, kind):
    assert kind_of_statement(text) == kind


def test_two_statements_have_no_kind():
    with pytest.raises(BadRequest, match="found SELECT and DROP"):
        kind_of_statement("SELECT 1; DROP TABLE t")


EXPRESSIONS = [
    "1",
    "(SELECT max(a) FROM t)",
    "sum(a) OVER (PARTITION BY b)",
    "list_transform([1], lambda x: x + 1)",
    "CASE WHEN a THEN b END",
    "$$ ) ; $$",
    "e'\\') '",
    "CAST(a AS STRUCT(x INT)[])",
    "/* a comment */ 1",
    "DEFAULT",
]
NO_EXPRESSIONS = [
    "",
    "1) FROM t; --",
    "1), (2",
    "1) || (2",
    "1, 2",
    "1 -- a comment",
    "1 /*",
    "1; SELECT 2",
    "1 AS a",
    "1 a",
    "a: 1",
    "1 FROM t",
    "1 UNION SELECT 2",
    "1 ORDER BY 1",
    "DISTINCT 1",
    "'a",
    "$a$ ) ; $b$",
    "[1",
    "1\0",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression_stays_what_it_is(text):
    assert check_expression_text(text) == text


@pytest.mark.parametrize("text", NO_EXPRESSIONS)
def test_text_that_is_no_expression_is_refused(text):
    with pytest.raises(BadRequest):
        check_expression_text(text)


@pytest.mark.parametrize("text", ["(a INT)", "(a INT DEFAULT (1 + (2)), CHECK (a > ')'))  "])
def test_list_in_brackets(text):
    assert in_brackets(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "a", "(a INT", "(a INT))", "(a INT) AS SELECT 1", "(a) (b)", "AS (SELECT 1)", "(a) -- )"],
)
def test_text_that_is_no_list_in_brackets_is_refused(text):
    with pytest.raises(BadRequest, match="one list in brackets"):
        in_brackets(text)
