"""Predicates for SQL Server: parameters, what is widened, what is left out."""

import datetime
from decimal import Decimal

import pytest

from jetbridge.dialects.tsql.predicates import Condition, condition
from jetbridge.expr import And, Between, Column, Comparison, Constant, Function, In, IsNull, Not, Or

KINDS = {
    "i": "int",
    "d": "decimal",
    "f": "float",
    "b": "bit",
    "s": "nvarchar",
    "u": "uniqueidentifier",
    "day": "date",
    "ts": "datetime2",
    "tz": "datetimeoffset",
    "t": "time",
    "x": "geography",
}
I_IS_1 = Comparison("=", Column("i"), Constant("INTEGER", 1))
S_IS_A = Comparison("=", Column("s"), Constant("VARCHAR", "a"))
ODD = Comparison("=", Function("length", (Column("s"),)), Constant("BIGINT", 1))


def rendered(expr):
    return condition(expr, KINDS)


def compared(op, name, kind, value):
    return rendered(Comparison(op, Column(name), Constant(kind, value)))


def test_numbers_are_parameters():
    assert rendered(I_IS_1) == Condition("([i] = ?)", (1,))
    assert compared("<>", "d", "DECIMAL(9,2)", -12345) == Condition(
        "([d] <> ?)", (Decimal("-123.45"),)
    )
    assert compared("=", "d", "DECIMAL(38,4)", 12345678901234567890123456789012345678) == Condition(
        "([d] = ?)", (Decimal("1234567890123456789012345678901234.5678"),)
    )
    assert compared("<=", "f", "DOUBLE", 1.5) == Condition("([f] <= ?)", (1.5,))
    assert compared("=", "b", "BOOLEAN", True) == Condition("([b] = ?)", (True,))


def test_constant_on_the_left_turns_the_comparison():
    turned = Comparison("<", Constant("INTEGER", 1), Column("I"))
    assert rendered(turned) == Condition("([I] > ?)", (1,))


@pytest.mark.parametrize(
    ("op", "name", "kind", "value"),
    [
        ("<", "s", "VARCHAR", "a"),
        ("<>", "s", "VARCHAR", "a"),
        ("=", "s", "VARCHAR", "a\0b"),
        ("=", "f", "DOUBLE", float("nan")),
        ("=", "f", "DOUBLE", float("inf")),
        ("=", "i", "HUGEINT", 2**70),
        ("=", "i", "INTEGER", None),
        ("=", "x", "INTEGER", 1),
        ("=", "nope", "INTEGER", 1),
        ("<", "u", "UUID", "00000000-0000-0000-0000-000000000001"),
        ("=", "day", "DATE", 2**31 - 1),
        ("=", "ts", "TIMESTAMP", 2**63 - 1),
        ("=", "t", "TIME", 86_399_999_999),
        ("<", "t", "TIME", 86_400_000_000),
        ("IS DISTINCT FROM", "i", "INTEGER", 1),
    ],
)
def test_what_sql_server_sees_otherwise_is_left_out(op, name, kind, value):
    assert compared(op, name, kind, value) is None


def test_equal_texts_are_not_exact():
    assert rendered(S_IS_A) == Condition("([s] = ?)", ("a",), exact=False)
    assert rendered(Not(S_IS_A)) is None
    assert rendered(Not(And((I_IS_1, S_IS_A)))) is None
    assert rendered(Not(I_IS_1)) == Condition("(NOT ([i] = ?))", (1,))


def test_a_part_that_is_left_out_takes_or_and_not_with_it():
    assert rendered(And((I_IS_1, ODD))) == Condition("(([i] = ?))", (1,), exact=False)
    assert rendered(Or((I_IS_1, ODD))) is None
    assert rendered(Not(And((I_IS_1, ODD)))) is None
    assert rendered(And((ODD,))) is None


def test_in_between_and_null():
    items = (Constant("INTEGER", 1), Constant("INTEGER", 2))
    assert rendered(In(Column("i"), items)) == Condition("(([i] = ?) OR ([i] = ?))", (1, 2))
    negated = rendered(In(Column("i"), items, negated=True))
    assert negated == Condition("(NOT (([i] = ?) OR ([i] = ?)))", (1, 2))
    assert rendered(In(Column("s"), (Constant("VARCHAR", "a"),), negated=True)) is None
    assert rendered(Between(Column("i"), *items, upper_inclusive=False)) == Condition(
        "(([i] >= ?) AND ([i] < ?))", (1, 2)
    )
    assert rendered(IsNull(Column("x"), negated=True)) == Condition("([x] IS NOT NULL)")


def test_a_moment_is_the_microsecond_that_begins_there():
    micros = int(datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.UTC).timestamp() * 1e6)
    low, high = "2024-02-29T01:02:03.000004", "2024-02-29T01:02:03.000005"
    mark = "CONVERT(datetime2(6), ?, 126)"
    equal = compared("=", "ts", "TIMESTAMP", micros)
    assert equal == Condition(f"([ts] >= {mark} AND [ts] < {mark})", (low, high))
    assert compared("<=", "ts", "TIMESTAMP", micros) == Condition(f"([ts] < {mark})", (high,))
    assert compared(">", "ts", "TIMESTAMP", micros) == Condition(f"([ts] >= {mark})", (high,))
    assert compared(">=", "ts", "TIMESTAMP", micros) == Condition(f"([ts] >= {mark})", (low,))
    zoned = compared("<", "tz", "TIMESTAMP WITH TIME ZONE", micros)
    assert zoned == Condition("([tz] < CONVERT(datetimeoffset(6), ?, 127))", (f"{low}+00:00",))


def test_dates_and_ids():
    assert compared("=", "day", "DATE", 0) == Condition(
        "([day] = CONVERT(date, ?, 23))", ("1970-01-01",)
    )
    text = "00112233-4455-6677-8899-aabbccddeeff"
    assert compared("=", "u", "UUID", text) == Condition(
        "([u] = CONVERT(uniqueidentifier, ?))", (text,)
    )


def test_too_many_parameters_are_not_sent():
    many = tuple(Constant("INTEGER", i) for i in range(1001))
    assert rendered(In(Column("i"), many)) is None
