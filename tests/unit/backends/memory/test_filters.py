"""Filters are split into simple conditions, and constants take the form of their column."""

from decimal import Decimal

import pyarrow as pa
import pytest

from jetbridge.backends.memory.scan import split_filter
from jetbridge.backends.memory.store import MemoryTableVersion
from jetbridge.backends.memory.value_order import NO_BOUNDS, bounds_of, comparable
from jetbridge.backends.tables.definition import Definition
from jetbridge.expr import And, Between, Column, Comparison, Constant, In, IsNull, Or

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("u", pa.uuid())])
STATE = MemoryTableVersion(Definition("t", SCHEMA))


@pytest.mark.parametrize(
    ("constant", "data_type", "value"),
    [
        (Constant("INTEGER", 5), pa.int32(), 5),
        (Constant("VARCHAR", "5"), pa.int32(), None),
        (Constant("BOOLEAN", True), pa.int32(), None),
        (Constant("INTEGER", None), pa.int32(), None),
        (Constant("DATE", 7), pa.date32(), 7),
        (Constant("TIMESTAMP", 7), pa.date32(), None),
        (Constant("TIMESTAMP", 7_000_000), pa.timestamp("s"), 7),
        (Constant("TIMESTAMP", 7_000_001), pa.timestamp("s"), None),
        (Constant("TIMESTAMP_NS", 7), pa.timestamp("ns"), 7),
        (Constant("TIMESTAMP WITH TIME ZONE", 7), pa.timestamp("us", "UTC"), 7),
        (Constant("TIMESTAMP WITH TIME ZONE", 7), pa.timestamp("ns", "UTC"), None),
        (Constant("DATE", 7), pa.timestamp("us"), None),
        (Constant("DOUBLE", 0.5), pa.float64(), 0.5),
        (Constant("DOUBLE", float("nan")), pa.float64(), None),
        (Constant("FLOAT", 0.1), pa.float32(), 0.10000000149011612),
        (Constant("INTEGER", 1), pa.float64(), None),
        (Constant("VARCHAR", "x"), pa.large_string(), "x"),
        (Constant("BLOB", b"x"), pa.string(), None),
        (Constant("DECIMAL(9,2)", 150), pa.decimal128(9, 2), Decimal("1.5")),
        (Constant("DECIMAL(9,3)", 150), pa.decimal128(9, 2), None),
        (Constant("UUID", "x"), pa.uuid(), None),
    ],
)
def test_constants_take_the_form_of_the_column(constant, data_type, value):
    assert comparable(constant, data_type) == value


@pytest.mark.parametrize(
    ("array", "bounds"),
    [
        (pa.array([3, None, 1]), (1, 3)),
        (pa.array([3, 1], pa.timestamp("ns")), (1, 3)),
        (pa.array([3, 1], pa.date32()), (1, 3)),
        (pa.array(["b", "a"]), ("a", "b")),
        (pa.array([1.5, -2.0]), (-2.0, 1.5)),
        (pa.array([1.5, float("nan")]), NO_BOUNDS),
        (pa.array([None, None], pa.int8()), NO_BOUNDS),
        (pa.array([True]), NO_BOUNDS),
        (pa.array([[1]]), NO_BOUNDS),
        (pa.array([Decimal("1.5")]), (Decimal("1.5"), Decimal("1.5"))),
    ],
)
def test_bounds_are_the_smallest_and_largest_value(array, bounds):
    assert bounds_of(array) == bounds


def _a(op, value):
    return Comparison(op, Column("A"), Constant("BIGINT", value))


@pytest.mark.parametrize(
    ("node", "ops", "complete"),
    [
        (_a("=", 1), ["="], True),
        (Comparison(">", Constant("BIGINT", 1), Column("a")), ["<"], True),
        (_a("<>", 1), [], False),
        (_a("=", None), [], False),
        (And((_a(">", 1), And((_a("<", 5), IsNull(Column("b")))))), ["<", ">"], False),
        (Between(Column("a"), Constant("BIGINT", 1), Constant("BIGINT", 2)), ["<=", ">="], True),
        (In(Column("a"), (Constant("BIGINT", 1), Constant("BIGINT", None))), ["in"], True),
        (In(Column("a"), (Column("a"),)), [], False),
        (In(Column("nope"), (Constant("BIGINT", 1),)), [], False),
        (Comparison("=", Column("nope"), Constant("BIGINT", 1)), [], False),
        (Comparison("=", Column("u"), Constant("UUID", "x")), [], False),
        (Comparison("=", Column("rowid"), Constant("BIGINT", 1)), ["="], True),
    ],
)
def test_simple_conditions_are_split_off(node, ops, complete):
    parts, is_complete = split_filter(STATE, node)
    assert (sorted(part.op for part in parts), is_complete) == (ops, complete)


@pytest.mark.parametrize(
    "other",
    [
        IsNull(Column("u")),
        Comparison("=", Column("b"), Constant("VARCHAR", "x")),
        And((Comparison("=", Column("b"), Constant("VARCHAR", "x")), IsNull(Column("u")))),
    ],
)
def test_an_or_is_not_narrowed_by_one_of_its_sides(other):
    above = Comparison(">", Column("a"), Constant("BIGINT", 5))
    for either in (Or((above, other)), Or((other, above))):
        assert split_filter(STATE, either) == ([], False)
        parts, complete = split_filter(STATE, And((either, above)))
        assert [(part.column, part.op, part.value) for part in parts] == [(0, ">", 5)]
        assert not complete
