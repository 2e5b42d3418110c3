"""Expressions of users that take too long or too much."""

import time

import pyarrow as pa
import pytest

from jetbridge.embedded import check_expression, default_values, evaluate, first_violation, mask, row_expression
from jetbridge.embedded.sandbox import query
from jetbridge.errors import BadRequest, LimitExceeded

# Each row is quick, all of them are not.
SLOW = "len(list_transform(range(500 + n % 10), x -> x * n)) > 0"
ROWS = pa.table({"n": pa.array(range(1_000_000), pa.int64())})


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: first_violation(SLOW, ROWS, seconds=0.2), "CHECK"),
        (lambda: evaluate(SLOW, ROWS, pa.field("b", pa.bool_()), seconds=0.2), "column 'b'"),
        (lambda: mask(SLOW, ROWS, seconds=0.2), "filter"),
    ],
)
def test_slow_expressions_are_interrupted_by_name(call, named):
    start = time.monotonic()
    with pytest.raises(LimitExceeded, match=named):
        call()
    assert time.monotonic() - start < 10


def test_the_watchdog_costs_next_to_nothing_and_interrupts_no_one_else():
    query("SELECT 1")
    with pytest.raises(LimitExceeded):
        mask(SLOW, ROWS, seconds=0.05)
    for _ in range(50):
        assert query("SELECT 1 AS a", seconds=5).column(0).to_pylist() == [1]


def test_constant_work_is_limited_while_it_is_bound():
    slow = "len(list_transform(range(3000), x -> list_reduce(range(9000), (a, b) -> a + b + x)))"
    with pytest.raises(LimitExceeded, match="expression"):
        row_expression(f"{slow} > n", ROWS.schema, seconds=0.1)


@pytest.mark.parametrize("function", ["levenshtein", "damerau_levenshtein", "jaro_similarity"])
def test_functions_that_cannot_be_interrupted_are_refused(function):
    schema = pa.schema([("s", pa.string())])
    with pytest.raises(BadRequest, match=function):
        check_expression(f"{function}(s, repeat(s, 400000)) >= 0", schema)


def test_too_much_memory_is_a_limit():
    with pytest.raises(LimitExceeded, match="memory"):
        default_values("repeat('x', 1000000)", pa.field("s", pa.string()), 3000)
