"""Expressions of users that take too long or too much."""

import time

import duckdb
import pyarrow as pa
import pytest

from jetbridge.duckdb_engine import (
    check_expression,
    default_values,
    evaluate,
    expands,
    first_violation,
    mask,
    plain_bytes,
    row_expression,
)
from jetbridge.duckdb_engine.sandbox import query, refusal
from jetbridge.errors import BadRequest, LimitExceeded

# Each row is quick, all of them are not.
SLOW = f"len({'sha256(' * 40}n::VARCHAR{')' * 40}) > 0"
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


def test_constant_work_is_judged_before_it_is_done():
    """DuckDB computes what is constant when it binds an expression."""
    for slow in ("len(repeat(repeat('x', 100000), 100000))", "len(range(100000000000))"):
        with pytest.raises(BadRequest, match="expression"):
            row_expression(f"{slow} > n", ROWS.schema)


@pytest.mark.parametrize("function", ["levenshtein", "damerau_levenshtein", "jaro_similarity"])
def test_functions_that_cannot_be_interrupted_are_refused(function):
    schema = pa.schema([("s", pa.string())])
    with pytest.raises(BadRequest, match=function):
        check_expression(f"{function}(s, repeat(s, 400000)) >= 0", schema)


def test_too_much_memory_is_a_limit():
    error = refusal(duckdb.OutOfMemoryException("Out of Memory Error: no"), "CHECK (x)")
    assert isinstance(error, LimitExceeded)


def test_long_defaults_stop_at_the_limit():
    field = pa.field("s", pa.string())
    with pytest.raises(LimitExceeded, match="'s'"):
        default_values("repeat('x', 100000)", field, 100_000, most_bytes=1_000_000)
    assert len(default_values("repeat('x', 100000)", field, 300)) == 300
    assert default_values("upper('x')", field, 0).to_pylist() == []


VIEW = pa.string_view()


def _union(mode):
    members = [pa.array([1, 2, 3]), pa.array(["x" * 1000, "y", None])]
    if mode == "sparse":
        return pa.UnionArray.from_sparse(pa.array([0, 1, 1], pa.int8()), members)
    tags, places = pa.array([0, 1, 1, 1], pa.int8()), pa.array([2, 0, 0, 0], pa.int32())
    return pa.UnionArray.from_dense(tags, places, members)


def _strings(kind):
    return pa.array(["x" * 1000, None, ""], kind)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.nulls(1000), pa.int64()),
        (pa.nulls(1000), pa.list_(pa.int64(), 7)),
        (pa.DictionaryArray.from_arrays(pa.array([0, 0, None] * 9), _strings(pa.string())), None),
        (pa.RunEndEncodedArray.from_arrays([50, 60, 70], _strings(pa.string())), pa.string()),
        (pa.RunEndEncodedArray.from_arrays([50, 60], pa.array([1, 2])), pa.int64()),
        (_strings(pa.string_view()), pa.string()),
        (pa.ListArray.from_arrays([0, 5000, 5000], pa.nulls(5000)), pa.list_(pa.int64())),
        (pa.array([["a" * 99], None, ["b"] * 9], pa.list_(VIEW)), pa.list_(pa.string())),
        (pa.array([["a" * 99], None, ["b"]], pa.list_(VIEW, 1)), pa.list_(pa.string(), 1)),
        (pa.array([["a" * 99], [], None], pa.list_view(pa.string())), pa.list_(pa.string())),
        (pa.array([[("a", "b" * 99)], []], pa.map_(pa.string(), pa.string())), None),
        (
            pa.array([{"a": "x" * 99}], pa.struct([("a", VIEW), ("b", pa.null())])),
            pa.struct([("a", pa.string()), ("b", pa.int64())]),
        ),
    ],
)
def test_sizes_are_never_underestimated(array, kind):
    kind = kind or array.type
    for part in (array, array.slice(1), array.slice(0, 0)):
        plain = pa.array(part.to_pylist(), _plain(kind))
        assert plain_bytes(part, kind) >= plain.nbytes - 8
        assert plain_bytes(part, kind) <= 30 * len(part) + 3 * plain.nbytes


def _plain(kind):
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


@pytest.mark.parametrize(("mode", "texts"), [("dense", 3), ("sparse", 0)])
def test_the_member_of_a_union_counts_for_each_row_that_names_it(mode, texts):
    union = _union(mode)
    assert expands(union.type) is (mode == "dense")
    for part, skipped in ((union, 0), (union.slice(2), 1), (union.slice(0, 0), 3)):
        times = max(0, texts - skipped)
        assert 1000 * times <= plain_bytes(part, union.type) < 1000 * times + 200


def test_a_view_counts_every_time_it_is_meant():
    once = pa.array(["x" * 1_000_000], pa.string_view())
    many = pa.array(["x" * 1_000_000], pa.string()).dictionary_encode().take(pa.array([0] * 1000))
    assert plain_bytes(many, pa.string()) > 1_000_000_000
    assert expands(many.type)
    assert expands(pa.struct([("a", pa.list_(once.type))]))
    assert not expands(pa.struct([("a", pa.list_(pa.string()))]))
