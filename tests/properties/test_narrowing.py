"""A filter may keep more rows than DuckDB would, never fewer."""

import math
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.memory.value_order import NO_BOUNDS, bounds_of, comparable
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.dialects.duckdb import predicates as dialect
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.expr import And, Between, Column, Comparison, Constant, Expr, Function, In, Or
from tests.conformance.harness import insert, read

LARGEST = 2**63 - 1


def _table(array):
    schema = MemoryCatalog().create_schema(SchemaInfo("s"))
    table = schema.create_table(CreateTable("t", pa.schema([("c", array.type)])))
    insert(table, {"c": array})
    return schema.load_table("t")


def _kept(table, condition: Expr) -> set[int]:
    return set(read(table, ("rowid",), filter=condition).column("rowid").to_pylist())


def _decimals(precision: int) -> list[int]:
    largest = 10**precision - 1
    odd = int("1234567890" * 4) % 10**precision
    return sorted({-largest, -odd, -1, 0, 1, odd - 1, odd, odd + 1, largest - 1, largest})


@pytest.mark.parametrize("precision", range(29, 39))
@pytest.mark.parametrize("part", [0, 1])
def test_long_decimals_are_compared_to_the_last_digit(precision, part):
    scale = int(precision * part)
    numbers = _decimals(precision)[:2]
    kind, name = pa.decimal128(precision, scale), f"DECIMAL({precision},{scale})"
    spelled = [Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)) for n in numbers]
    for i, value in enumerate(numbers):
        # One row by itself: nothing but its bounds says whether it is looked at.
        table, c = _table(pa.array([spelled[i]], kind)), Column("c", name)
        constant = Constant(name, value)
        for condition in (
            Comparison("=", c, constant),
            Comparison("<=", c, constant),
            Comparison(">=", c, constant),
            In(c, (constant,)),
            Between(c, constant, constant),
        ):
            assert _kept(table, condition) == {0}, condition
        above, below = Constant(name, value + 1), Constant(name, value - 1)
        for condition, other in (
            (Comparison("<", c, above), value + 1),
            (Comparison(">", c, below), value - 1),
        ):
            if abs(other) < 10**precision:
                assert _kept(table, condition) == {0}


def test_zero_is_zero_whatever_its_sign():
    table = _table(pa.array([0.0, -0.0, 1.0]))
    for zero in (0.0, -0.0):
        constant = Constant("DOUBLE", zero)
        assert _kept(table, In(Column("c"), (constant, Constant("DOUBLE", 7.0)))) == {0, 1}
        assert _kept(table, Comparison("=", Column("c"), constant)) == {0, 1}


@pytest.mark.parametrize(
    ("constant", "kind"),
    [
        (Constant("FLOAT", 0.1), pa.float64()),
        (Constant("DOUBLE", 0.1), pa.float32()),
        (Constant("FLOAT", 1e300), pa.float32()),
        (Constant("TIMESTAMP", LARGEST), pa.timestamp("ns")),
        (Constant("TIMESTAMP_S", -LARGEST), pa.timestamp("us")),
        (Constant("VARCHAR", "\ud800"), pa.string()),
        (Constant("HUGEINT", 5), pa.decimal128(38, 0)),
        (Constant("HUGEINT", 5), pa.int64()),
    ],
)
def test_what_would_be_compared_otherwise_is_left_to_duckdb(constant, kind):
    assert comparable(constant, kind) is None


def test_a_filter_that_cannot_be_interrupted_is_left_to_the_client():
    table = _table(pa.array(["a" * 400_000, "b"]))
    distance = Function("levenshtein", (Column("c"), Column("c")))
    assert _kept(table, Comparison(">", distance, Constant("BIGINT", 5))) == {0, 1}


def test_text_that_is_no_utf8_has_no_bounds():
    offsets, data = pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")
    assert bounds_of(pa.Array.from_buffers(pa.string(), 1, [None, offsets, data])) == NO_BOUNDS


_INSTANTS = [0, 1, -1, 999, 1000, 86_400, -86_400_000_001, 10**15 + 1, 4_102_444_800]
_WIDE = [*_INSTANTS, LARGEST, -LARGEST]
_FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, 1.7e308, 0.1, 2.0**53]
_SINGLES = [0.0, -0.0, 0.10000000149011612, math.inf, -math.inf, math.nan, 1.401298464324817e-45]
_TEXTS = ["", "\0", "a", "A", "aa", "z", "ä", "\uffff", "\U0001f600", "a\0b", "a ", "~"]


def _ints(kind: pa.DataType, signed: bool) -> list[int]:
    bits = kind.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return sorted({low, low + 1, 0, 1, 5, high // 2, high // 2 + 1, high - 1, high})


# Type of the column and the values it holds, as a filter spells them.
CASES: list[tuple[pa.DataType, list]] = [
    *((k, _ints(k, True)) for k in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((k, _ints(k, False)) for k in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float64(), _FLOATS),
    (pa.float32(), _SINGLES),
    (pa.string(), _TEXTS),
    (pa.large_string(), _TEXTS),
    (pa.date32(), [0, 1, -1, 20_000, -1_000_000, 2**31 - 1, -(2**31) + 1]),
    *((pa.timestamp(unit), _WIDE) for unit in ("us", "ns")),
    (pa.timestamp("ms"), _INSTANTS),
    (pa.timestamp("s"), [i for i in _INSTANTS if i < 10**15]),
    (pa.timestamp("us", "Europe/Berlin"), _WIDE),
    (pa.bool_(), [True, False]),
    *((pa.decimal128(p, s), _decimals(p)) for p, s in ((4, 1), (18, 6), (29, 3), (38, 38))),
]


def _array(kind: pa.DataType, values: list) -> pa.Array:
    if pa.types.is_decimal(kind):
        spelled = [
            None if v is None else Decimal((v < 0, tuple(map(int, str(abs(v)))), -kind.scale))
            for v in values
        ]
        return pa.array(spelled, kind)
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind == pa.date32() else pa.int64()
        return pa.array(values, width).view(kind)
    return pa.array(values, kind)


@pytest.fixture(scope="module")
def oracle():
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def _conditions(name: str, values: list):
    column = Column("c", name)
    constants = st.sampled_from(values).map(lambda value: Constant(name, value))
    compared = st.builds(
        Comparison, st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]), st.just(column), constants
    )
    flipped = st.builds(Comparison, st.sampled_from(["=", "<", ">="]), constants, st.just(column))
    among = st.lists(constants | st.just(Constant(name, None)), min_size=1, max_size=3).map(
        lambda items: In(column, tuple(items))
    )
    between = st.builds(
        Between, st.just(column), constants, constants, st.booleans(), st.booleans()
    )
    single = compared | flipped | among | between
    several = st.lists(single, min_size=2, max_size=3)
    parts = single | several.map(lambda parts: And(tuple(parts)))
    # One side of an OR says nothing about the rows that the other side keeps.
    either = st.lists(parts, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts)))
    both = st.tuples(either, single).map(And)
    return parts | either | both


@pytest.mark.parametrize(("kind", "values"), CASES, ids=[str(kind) for kind, _ in CASES])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_row_duckdb_keeps_is_kept(kind, values, oracle, data):
    held = data.draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=6))
    condition = data.draw(_conditions(duckdb_type(pa.field("c", kind)), values))
    array = _array(kind, held)
    oracle.register("sent", pa.table({"i": range(len(held)), "c": array}))
    # In a table of its own, because filters over Arrow data are run by pyarrow.
    oracle.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM sent")
    sql = f"SELECT i FROM t WHERE {dialect.render(condition)}"
    wanted = {row[0] for row in oracle.execute(sql).fetchall()}
    assert wanted <= _kept(_table(array), condition)
