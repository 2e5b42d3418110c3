"""Plans rendered as one stage: the same rows, names of types and errors as of the query."""

import random
from collections import Counter

import duckdb
import pytest

from jetbridge.distributed.expressions import BoundConstant
from jetbridge.distributed.render.averages import average_sql
from jetbridge.distributed.render.constants import constant_sql
from jetbridge.distributed.types import Type
from tests.distributed import shop
from tests.distributed.local_run import LocalRun

VALUES = [
    "NULL",
    "NULL::INTEGER",
    "true",
    "(-128)::TINYINT",
    "255::UTINYINT",
    "18446744073709551615::UBIGINT",
    "(-170141183460469231731687303715884105727)::HUGEINT",
    "340282366920938463463374607431768211455::UHUGEINT",
    "1.5::FLOAT",
    "1e-310::DOUBLE",
    "'inf'::DOUBLE",
    "'-inf'::FLOAT",
    "'nan'::DOUBLE",
    "'-0.0'::DOUBLE",
    "-0.05::DECIMAL(4, 2)",
    "-99999999999999999999999999999999.123456::DECIMAL(38, 6)",
    "12::DECIMAL(9, 0)",
    "''",
    "'it''s \"quoted\"; -- text'",
    "chr(0) || 'a'",
    "'\\x00\\xFF'::BLOB",
    "DATE '0001-01-01'",
    "DATE '294247-01-10'",
    "'infinity'::DATE",
    "TIMESTAMP '1969-12-31 23:59:59.999999'",
    "'-infinity'::TIMESTAMP",
    "'2024-02-29 01:02:03'::TIMESTAMP_S",
    "'2024-02-29 01:02:03.004'::TIMESTAMP_MS",
    "'2024-02-29 01:02:03.000000007'::TIMESTAMP_NS",
    "TIME '24:00:00'",
    "'01:02:03.000004-05:30'::TIMETZ",
    "INTERVAL '-14 months 3 days -5 microseconds'",
    "'47183823-2574-4bfd-b411-99ed177d3e43'::UUID",
    "'00000000-0000-0000-0000-000000000000'::UUID",
    "'b'::ENUM('a', 'b''s', 'b')",
    "[1, NULL, 3]",
    "[]::INTEGER[]",
    "[1, 2]::INTEGER[2]",
    "[[DATE '2024-01-01'], NULL, []]",
    "{'a': 1, 'B c': [{'d\"': NULL::DATE}]}",
    "MAP {'k': 1, 'l': NULL}",
    "MAP {}::MAP(INTEGER, VARCHAR)",
    "'{\"a\": [1]}'::JSON",
]
EXPRESSIONS = [
    "id + 1, -id, id // 7, id % 7, id / 7, id ** 2, id & 5, id | 5, id << 2",
    "state LIKE 'o%', state NOT LIKE '%n', state ILIKE 'P%', state SIMILAR TO 'o.*'",
    "state GLOB 'o*', state || '!' || id, state[1], state[2:3]",
    "id BETWEEN 5 AND 9, id NOT BETWEEN 5 AND 9, id IN (1, 2, NULL), id NOT IN (1, 2)",
    "state IS NULL, state IS NOT NULL, NOT (id > 5), state IS DISTINCT FROM 'open'",
    "CASE state WHEN 'open' THEN 1 ELSE NULL END, coalesce(state, 'none'), if(id > 5, 1, 2)",
    "TRY_CAST(state AS DATE), TRY(CAST(state AS INTEGER)), CAST(weight AS DECIMAL(9, 1))",
    "amount * 1.10, amount + amount, amount - 1, amount * amount, amount / 4, -amount",
    "round(amount, 1), sum(amount) OVER (PARTITION BY state) * 2",
    "date_trunc('month', placed), date_part('hour', placed), placed - TIMESTAMP '2020-01-01'",
    "placed + INTERVAL 3 DAY, strftime(placed, '%Y-%m'), CAST(placed AS DATE), epoch_ms(placed)",
    "{'a': id, 'b': state}.b, struct_pack(x := id), struct_insert({'a': 1}, b := id)",
    "row(id, state) = row(5, 'paid'), row(id, 1) IN (row(2, 1), NULL)",
    "placed::TIMESTAMPTZ < '2024-01-09 01:02:03.5+02'::TIMESTAMPTZ",
    "[id, 2, NULL], list_value(), [id, 3][1]",
    "[1, 2, id][2:], [1, 2, id][:-2], [1, 2, 3, id][1:4:2]",
    "list_transform([1, id], lambda x: x + id), list_transform([5, 6], lambda x, i: x * i + id)",
    "list_filter([1, 2, id], lambda x: x > 1), list_reduce([1, id], lambda a, b: a * 10 + b)",
    "list_reduce([1, id], lambda a, b, i: a - b * i, 100), list_sort([3, id]), list_sum([id])",
    "list_transform([[1, id]], lambda x: list_transform(x, lambda y: y + len(x) + id))",
    "list_aggregate([1, id], 'string_agg', '|'), list_aggr([1, 2, id], 'quantile_cont', 0.5)",
    "list_median([1, id]), list_mode([id]), list_string_agg(['a', state])",
    "list_aggregate([1, id], 'max'), list_distinct([1, 1, id]), array_value(1, id)",
    "MAP([id], [state]), MAP {'a': id}['a'], map_keys(MAP([id], [1])), cardinality(MAP([id], [1]))",
    "array_distance([1, id]::FLOAT[2], [2.0, 3.5]::FLOAT[2])",
    "concat_ws('-', id, state), printf('%d', id), md5(state), regexp_replace(state, 'o', '0', 'g')",
    "greatest(id, 5), least(id, 5), hash(id) % 7, bit_count(id), (id)::BIT, CAST(id AS VARCHAR)",
    "json_object('a', id), json_extract('{\"a\": [1, 2]}'::JSON, '$.a[' || (id % 2) || ']')",
    "count(*) OVER w, lag(id, 2, -1) OVER w, nth_value(id, 2) OVER w, ntile(3) OVER w "
    "FROM orders WINDOW w AS (PARTITION BY state ORDER BY id DESC)",
    "rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w, "
    "first_value(id IGNORE NULLS) OVER w FROM orders WINDOW w AS (ORDER BY amount)",
    "sum(id) OVER (ORDER BY id RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING)",
    "sum(id) OVER (ORDER BY id DESC GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES)",
    "string_agg(state, '; ' ORDER BY id), list(id ORDER BY id), first(id ORDER BY id)",
    "quantile_cont(weight, 0.25), quantile_disc(id, [0.1, 0.9]), median(id), mode(state), mad(id)",
    "quantile_cont(weight, -0.25), approx_quantile(id, 0.5), bitstring_agg(id, 0, 1000)",
    "count(DISTINCT state), sum(DISTINCT customer), arg_min(id, amount), max(id, 3)",
    "product(1 + id % 2), bit_xor(id), histogram(state), entropy(state), skewness(id)",
]


def check(connection: duckdb.DuckDBPyConnection, query: str):
    staged = shop.stager(connection).stage_whole(query)
    assert staged.reason == ""
    answer = connection.execute(query).fetchall()
    rows = LocalRun(connection, 1).rows(staged)
    assert Counter(map(repr, rows)) == Counter(map(repr, answer))


@pytest.mark.parametrize("value", VALUES)
def test_constants(connection: duckdb.DuckDBPyConnection, value: str):
    check(connection, f"SELECT id, {value} AS v FROM excluded")


@pytest.mark.parametrize("expressions", EXPRESSIONS)
def test_expressions(connection: duckdb.DuckDBPyConnection, expressions: str):
    source = "" if " FROM orders" in expressions else " FROM orders"
    check(connection, f"SELECT {expressions}{source}")


def test_names_of_users_are_not_in_the_way():
    schema = '"s ""1"""'
    with duckdb.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        columns = '"c1" INTEGER, "select" VARCHAR, "l.c0" INT'
        connection.execute(f'CREATE TABLE {schema}."c0" ({columns})')
        connection.execute(f"""INSERT INTO {schema}."c0" VALUES (1, 'a', 2), (2, NULL, 3)""")
        check(connection, f'SELECT a."c1", b."select" FROM {schema}."c0" a, {schema}."c0" b')


@pytest.mark.parametrize("right", ["excluded", "excluded WHERE id > 0", "excluded WHERE false"])
@pytest.mark.parametrize("test", ["IN", "NOT IN", "= ALL", "< ANY", ">= ALL", "<> ANY"])
def test_marks_follow_three_valued_logic(
    connection: duckdb.DuckDBPyConnection, test: str, right: str
):
    left = "(SELECT nullif(id, 5) AS id FROM customers WHERE id < 9)"
    check(connection, f"SELECT id, id {test} (SELECT id FROM {right}) FROM {left}")


@pytest.mark.parametrize("test", ["IN", "NOT IN"])
def test_marks_by_two_columns(connection: duckdb.DuckDBPyConnection, test: str):
    pairs = "(SELECT id, nullif(id, 7) FROM excluded)"
    check(connection, f"SELECT id, (id, nullif(id, 3)) {test} {pairs} FROM customers WHERE id < 9")


def test_second_partner_of_a_single_join_is_an_error(connection: duckdb.DuckDBPyConnection):
    query = "SELECT id, (SELECT o.id FROM orders o WHERE o.customer = c.id) FROM customers c"
    staged = shop.stager(connection).stage_whole(query)
    assert staged.reason == ""
    with pytest.raises(duckdb.Error, match="More than one row"):
        connection.execute(query).fetchall()
    with pytest.raises(duckdb.Error, match="More than one row"):
        LocalRun(connection, 1).rows(staged)


@pytest.mark.parametrize(("type", "scale"), [("BIGINT", 0), ("DECIMAL(18, 3)", 3), ("SMALLINT", 0)])
def test_averages_of_sum_and_count_are_those_of_avg(type: str, scale: int):
    """The quotients that two roundings make different from one are about one in 4096."""
    generator = random.Random(7)
    largest = 2**15 - 1 if type == "SMALLINT" else 2**40
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(f"CREATE TABLE t (k INTEGER, v {type})")
        rows = [
            f"({i % 8000}, {generator.randint(-largest, largest) / 10**scale:.{scale}f})"
            for i in range(24_000)
        ]
        connection.execute(f"INSERT INTO t VALUES {', '.join(rows)}")
        assert differing_averages(connection, scale, short=type == "SMALLINT") == []


def differing_averages(connection: duckdb.DuckDBPyConnection, scale: int, *, short: bool):
    average = average_sql("total", "rows", scale, short=short)
    return connection.execute(
        "SELECT total, expected FROM (SELECT sum(v) AS total, count(v) AS rows, avg(v) AS expected "
        f"FROM t GROUP BY k) WHERE expected IS DISTINCT FROM {average}"
    ).fetchall()


def test_average_of_sums_above_64_bits():
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i % 500 AS k, (hash(i) // 2)::BIGINT * 32767::HUGEINT "
            "* (CASE WHEN i % 3 = 0 THEN -1 ELSE 1 END) AS v FROM range(9000) t(i)"
        )
        assert differing_averages(connection, 0, short=False) == []


# The units since 1970 of a constant.
UNITS = {
    "TIMESTAMP_S": "epoch_us(CAST({} AS TIMESTAMP)) // 1000000",
    "TIMESTAMP_MS": "epoch_us(CAST({} AS TIMESTAMP)) // 1000",
    "TIMESTAMP": "epoch_us({})",
    "TIMESTAMP_NS": "epoch_ns({})",
    "TIMESTAMP WITH TIME ZONE": "epoch_us({})",
}


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31 - 1)])
@pytest.mark.parametrize("name", UNITS)
def test_moments_of_as_many_units_as_infinity_has_days_are_finite(
    connection: duckdb.DuckDBPyConnection, name: str, value: int
):
    text = constant_sql(BoundConstant(Type(name), value))
    assert connection.sql(f"SELECT {UNITS[name].format(text)}").fetchall() == [(value,)]


@pytest.mark.parametrize("name", ["DATE", *UNITS])
def test_largest_values_are_infinite(connection: duckdb.DuckDBPyConnection, name: str):
    largest = 2**31 - 1 if name == "DATE" else 2**63 - 1
    for value, word in ((largest, "infinity"), (-largest, "-infinity")):
        text = constant_sql(BoundConstant(Type(name), value))
        assert connection.sql(f"SELECT CAST({text} AS VARCHAR)").fetchall() == [(word,)]


def test_constant_of_the_last_second_is_not_infinite(connection: duckdb.DuckDBPyConnection):
    query = "SELECT count(*) FROM orders WHERE '2038-01-19 03:14:07'::TIMESTAMP_S > placed"
    staged = shop.stager(connection).stage(query, shop.BY_KEYS)
    assert "2038-01-19 03:14:07" in staged.stages[0].sql
