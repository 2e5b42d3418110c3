import duckdb
import pytest

from jetbridge.dialects.duckdb.predicates import render
from jetbridge.expr import (
    And,
    Between,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Function,
    In,
    IsNull,
    Not,
    Or,
)

A, ONE, TWO = Column("a b"), Constant("INTEGER", 1), Constant("INTEGER", 2)
I1, I2 = "CAST('1' AS INTEGER)", "CAST('2' AS INTEGER)"

NODES = [
    (A, '"a b"'),
    (Comparison("IS DISTINCT FROM", A, ONE), f'("a b" IS DISTINCT FROM {I1})'),
    (And((A, Not(A))), '("a b" AND (NOT "a b"))'),
    (
        Or((A, IsNull(A), IsNull(A, negated=True))),
        '("a b" OR ("a b" IS NULL) OR ("a b" IS NOT NULL))',
    ),
    (In(A, (ONE, TWO)), f'("a b" IN ({I1}, {I2}))'),
    (In(A, (ONE,), negated=True), f'("a b" NOT IN ({I1}))'),
    (Between(A, ONE, TWO), f'("a b" BETWEEN {I1} AND {I2})'),
    (Between(A, ONE, TWO, upper_inclusive=False), f'(("a b" >= {I1}) AND ("a b" < {I2}))'),
    (Between(A, ONE, TWO, lower_inclusive=False), f'(("a b" > {I1}) AND ("a b" <= {I2}))'),
    (Coalesce((A, ONE)), f'COALESCE("a b", {I1})'),
    (Case(((A, ONE),), TWO), f'(CASE WHEN "a b" THEN {I1} ELSE {I2} END)'),
    (Cast(A, "DATE"), 'CAST("a b" AS DATE)'),
    (Cast(A, "DATE", attempt=True), 'TRY_CAST("a b" AS DATE)'),
    (Function("lower", (A,)), '"lower"("a b")'),
    (Function("-", (A,), operator=True), '(- "a b")'),
    (Function("||", (A, A), operator=True), '("a b" || "a b")'),
    (Constant("NULL", None), "NULL"),
    (Constant("DATE", None), "CAST(NULL AS DATE)"),
    (Constant("BOOLEAN", True), "TRUE"),
    (Constant("DECIMAL(4,2)", -5), "CAST('-0.05' AS DECIMAL(4,2))"),
    (Constant("DATE", -719163), "CAST('0001-12-31 (BC)' AS DATE)"),
    (Constant("DATE", 2**31 - 1), "CAST('infinity' AS DATE)"),
]


@pytest.mark.parametrize(("node", "sql"), NODES)
def test_node_is_rendered_with_its_parentheses(node, sql):
    assert render(node) == sql


def test_dates_of_all_centuries_agree_with_duckdb():
    days = [*range(-1_000_000, 1_000_000, 997), -2147483646, 2147483646]
    dates = ", ".join(f"({day}, {render(Constant('DATE', day))})" for day in days)
    wrong = duckdb.sql(f"SELECT * FROM (VALUES {dates}) t(n, d) WHERE d - DATE '1970-01-01' <> n")
    assert wrong.fetchall() == []
