"""Constants: serialised by DuckDB, read, rendered, evaluated: the same value of the same type."""

from typing import Any

import pytest

from jetbridge.dialects.duckdb.predicates import render
from jetbridge.duckdb_syntax.types import MAX_DEPTH, UnsupportedFilter, type_name
from jetbridge.duckdb_syntax.values import constant
from tests.unit.duckdb_syntax import plans

EXACT = """
true | false | NULL::INTEGER | NULL::STRUCT(a INTEGER[], "b c" VARCHAR) | NULL
(-128)::TINYINT | 32767::SMALLINT | (-2147483648)::INTEGER | (-9223372036854775808)::BIGINT
255::UTINYINT | 65535::USMALLINT | 4294967295::UINTEGER | 18446744073709551615::UBIGINT
(-170141183460469231731687303715884105728)::HUGEINT | (-1)::HUGEINT | 7::HUGEINT
340282366920938463463374607431768211455::UHUGEINT
'nan'::DOUBLE | '-inf'::DOUBLE | 'inf'::FLOAT | 'nan'::FLOAT | 0.1::FLOAT | 3.4028235e38::FLOAT
1e308::DOUBLE | 5e-324::DOUBLE | 0.1::DOUBLE | 1e22::DOUBLE | 0::DOUBLE
1.25::DECIMAL(4,2) | (-0.01)::DECIMAL(9,2) | 5::DECIMAL(18,0) | (-1.25)::DECIMAL(38,2)
'99999999999999999999999999999999999999'::DECIMAL(38,0) | 0.5::DECIMAL(1,1)
'' | 'a''b' | 'é☃😀' | chr(0) || 'x' || chr(1) | '\\x41' | E'a\\nb"'
''::BLOB | '\\xAA\\x00ab"\\x5C'::BLOB | 'it''s'::BLOB
DATE '2026-01-02' | DATE '1969-12-31' | DATE '0001-01-01' | DATE '0044-03-15 (BC)'
'infinity'::DATE | '-infinity'::DATE | DATE '5877642-06-25 (BC)' | DATE '5881580-07-10'
TIME '03:04:05.678901' | TIME '24:00:00' | TIME_NS '03:04:05.678901234' | TIME_NS '24:00:00'
TIMETZ '03:04:05.678901+02:30' | TIMETZ '24:00:00-15:59:59' | TIMETZ '00:00:00+15:59:59'
TIMESTAMP '2026-01-02 03:04:05.678901' | 'infinity'::TIMESTAMP | '-infinity'::TIMESTAMP
TIMESTAMP '290309-12-22 (BC) 00:00:00' | TIMESTAMP '294247-01-10 04:00:54.775806'
TIMESTAMP_S '1960-01-02 03:04:05' | 'infinity'::TIMESTAMP_S | TIMESTAMP_MS '2026-01-02 03:04:05.123'
'-infinity'::TIMESTAMP_MS | TIMESTAMP_NS '2026-01-02 03:04:05.123456789' | 'infinity'::TIMESTAMP_NS
TIMESTAMP_NS '1677-09-22 00:00:00' | TIMESTAMP_NS '2262-04-11 23:47:16.854775806'
TIMESTAMPTZ '2026-01-02 03:04:05+02' | 'infinity'::TIMESTAMPTZ | '-infinity'::TIMESTAMPTZ
INTERVAL '1 month -2 days 3 microseconds' | INTERVAL '-5 years 100 hours' | INTERVAL '0 days'
UUID '12345678-1234-5678-1234-567812345678' | UUID 'ffffffff-ffff-ffff-ffff-ffffffffffff'
UUID '00000000-0000-0000-0000-000000000000' | UUID '80000000-0000-0000-0000-000000000001'
[1, 2, NULL] | []::INTEGER[] | [[1], [], NULL] | [1, 2]::INTEGER[2] | [DATE '2020-01-01', NULL]
['\\xAA'::BLOB] | array_value(array_value(1)) | {'a': 1, 'b': 'x'} | {'a b': [{'x': 1.5}]}
MAP {'k': 1, 'l': NULL} | MAP {}::MAP(INTEGER, VARCHAR) | MAP {1: {'a': [1.5]}}
'b'::ENUM('a', 'b') | 'it''s'::ENUM('it''s') | '{"a":1}'::JSON
"""
SQL = [sql.strip() for line in EXACT.strip().splitlines() for sql in line.split(" | ")]

REFUSED = ["row(1, 2)", "union_value(num := 2)", "'POINT(1 2)'::GEOMETRY", "1::VARIANT", "[row(1)]"]

CONNECTION = plans.connect()


@pytest.mark.parametrize("sql", SQL)
def test_constant_keeps_value_and_type(sql):
    sent = plans.constant_json(CONNECTION, sql)
    assert sent
    text = render(constant(sent))
    # As text too: nan, -0.0 and the fields of an INTERVAL hide behind equality.
    same = CONNECTION.execute(
        f"SELECT {sql} IS NOT DISTINCT FROM {text}, typeof({sql}) = typeof({text}), "
        f"({sql})::VARCHAR IS NOT DISTINCT FROM ({text})::VARCHAR"
    ).fetchone()
    assert same == (True, True, True) or (sql, same) == ("NULL", (True, False, True))


@pytest.mark.parametrize("sql", REFUSED)
def test_constant_without_a_name_for_its_type_is_unencodable(sql):
    sent = plans.constant_json(CONNECTION, sql)
    assert sent
    with pytest.raises(UnsupportedFilter):
        constant(sent)


@pytest.mark.parametrize("sql", ["'1010'::BIT", "1::BIGNUM"])
def test_duckdb_cannot_write_raw_bytes(sql):
    assert plans.constant_json(CONNECTION, sql) is None


def plain(kind, value):
    return {"type": {"id": kind, "type_info": None}, "is_null": False, "value": value}


def nested(kind, value, **info):
    return {"type": {"id": kind, "type_info": info}, "is_null": False, "value": value}


INTEGER = {"id": "INTEGER", "type_info": None}
PAIR = {"id": "STRUCT", "type_info": {"child_types": [
    {"first": "key", "second": INTEGER}, {"first": "value", "second": INTEGER}
]}}  # fmt: skip
ONE_FIELD = [{"first": "a", "second": INTEGER}]
BROKEN = [
    {},
    {"type": INTEGER},
    plain("INTEGER", 2**31),
    plain("INTEGER", True),
    plain("INTEGER", "1"),
    plain("INTEGER", {"upper": 0}),
    plain("BOOLEAN", 1),
    plain("DOUBLE", "1"),
    plain("VARCHAR", "\ud800"),
    plain("VARCHAR", None),
    plain("BLOB", "é"),
    plain("BLOB", "\\x0"),
    plain("UUID", {"upper": 2**63, "lower": 0}),
    plain("INTERVAL", {"months": 2**31, "days": 0, "micros": 0}),
    plain("TIME WITH TIME ZONE", 2**63),
    plain("TIMESTAMP", -(2**63)),
    plain("DATE", -(2**31)),
    plain("BIT", "x"),
    plain("NOTHING", 1),
    {"type": {"id": "INTEGER", "type_info": "x"}, "is_null": False, "value": 1},
    nested("INTEGER", 1, alias="mine"),
    nested("DECIMAL", 100, width=2, scale=1),
    nested("DECIMAL", 1, width="2", scale=1),
    nested("DECIMAL", 1, width=10**9, scale=1),
    nested("ENUM", 1, values=["a"]),
    nested("ENUM", 0, values=["a\0"]),
    nested("ENUM", 0, values=[1]),
    nested("LIST", {"children": [1]}, child_type=INTEGER),
    nested("STRUCT", {"children": []}, child_types=ONE_FIELD),
    nested("STRUCT", {"children": []}, child_types=[]),
    nested("MAP", {"children": [plain("INTEGER", 1)]}, child_type=PAIR),
    nested("MAP", {"children": []}, child_type={"type_info": {"child_types": ONE_FIELD}}),
]  # fmt: skip


@pytest.mark.parametrize("node", BROKEN, ids=repr)
def test_broken_constant_is_unencodable(node):
    with pytest.raises(UnsupportedFilter):
        constant(node)


def test_types_and_values_nest_to_a_bound():
    kind: Any = INTEGER
    value = plain("INTEGER", 1)
    for _ in range(MAX_DEPTH + 2):
        kind = {"id": "LIST", "type_info": {"child_type": kind}}
        # Lies about its type, which alone would be too deep.
        value = nested("LIST", {"children": [value]}, child_type=INTEGER)
    with pytest.raises(UnsupportedFilter):
        type_name(kind)
    with pytest.raises(UnsupportedFilter):
        constant(value)
