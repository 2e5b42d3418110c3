"""A statement of `run` computes what is ordinary, also with functions that make much of little."""

from collections.abc import Iterator

import duckdb
import pytest

from jetbridge.client import connect
from tests.security.sandbox.clients import Caller, serving

BARE = ("current_user", "session_user", "user", "current_role", "current_catalog", "current_schema")
ORDINARY = [
    "SELECT levenshtein(left(s, 1000), left('kitten', 1000)) AS d FROM (SELECT 'sitting' AS s)",
    "SELECT repeat('x', 3) AS a, lpad('x', 5, '-') AS b, rpad('x', 5, '-') AS c, range(3) AS d",
    "SELECT CAST(sum(length(repeat('x', 100000))) AS BIGINT) AS a FROM range(5000)",
    "SELECT repeat(i::VARCHAR, least(i, 100)) AS a FROM range(200) t(i) ORDER BY i",
    "SELECT CAST(sum(length(repeat('x', least(i, 100000)))) AS BIGINT) AS a FROM range(5) t(i)",
    "SELECT CAST(sum(x) AS BIGINT) AS a FROM (SELECT unnest(range(1000000)) AS x)",
    "SELECT CAST(sum(x) AS BIGINT) AS a FROM unnest(generate_series(1, 1000000)) u(x)",
    "SELECT CAST(sum(i) AS BIGINT) AS a FROM range(10000000) t(i)",
    "SELECT list_transform(range(1000), x -> x * 2) AS a, [x for x in range(9) if x % 2 = 0] AS b",
    "SELECT list_transform(range(100), x -> lpad(x::VARCHAR, 10, '0')) AS a",
    "SELECT list_reduce(['a', 'b', 'c'], (a, x) -> a || '-' || x) AS a",
    "SELECT printf('%05d|%s', 7, 'x') AS a, format('{:>10} {}', 'a', 'b') AS b",
    "SELECT replace(replace(replace('<&>', '&', '&amp;'), '<', '&lt;'), '>', '&gt;') AS a",
    "SELECT length(repeat(left(i::VARCHAR, 10), 2000)) AS a FROM range(9) t(i)",
    "SELECT [[x * y for y in [1, 2]] for x in [3, 4]] AS a",
    "SELECT list_reduce(range(9), (a, x) -> a + x) AS b",
    "SELECT " + " || ".join(["'a'"] * 300) + " AS a",
    "SELECT string_split('a,b,c', ',') AS a, array_to_string(['a', 'b'], ', ') AS b",
    "SELECT " + " || ".join(f"'{n}'" for n in range(100)) + " AS a",
    "SELECT range(2, 10, 3) AS a, generate_series(1, least(4, 9)) AS b, list_resize([1], 3) AS c",
    "SELECT string_agg(i::VARCHAR, ',' ORDER BY i) AS a FROM range(2000) t(i)",
    "WITH RECURSIVE r(n, s) AS (SELECT 1, 'a' UNION ALL SELECT n + 1, s || '/' || n FROM r "
    "WHERE n < 9) SELECT max(s) AS a FROM r",
    'SELECT "user", t."current_role" FROM (SELECT 1 AS "user", 2 AS "current_role") t',
]


@pytest.fixture(scope="module")
def ours() -> Iterator[Caller]:
    with serving() as (caller, _):
        yield caller


@pytest.mark.sampled(5)
@pytest.mark.parametrize("query", ORDINARY)
def test_1_3_run_computes_what_is_ordinary(ours: Caller, query: str) -> None:
    ours.reports(f"CREATE OR REPLACE TABLE mema.s.made AS {query}")
    with connect(ours.location, "mema", token=ours.token) as client:
        found = client.scan("s", "made").read_all().to_pylist()
    with duckdb.connect() as alone:
        assert found == alone.execute(query).to_arrow_table().to_pylist()


@pytest.mark.parametrize("name", BARE)
def test_1_3_a_column_with_the_name_of_a_value_needs_no_quotes(ours: Caller, name: str) -> None:
    """Without such a column these names tell nothing of the server."""
    ours.reports(f'CREATE OR REPLACE TABLE mema.s.named AS SELECT 7 AS "{name}"')
    ours.reports(f"CREATE OR REPLACE TABLE mema.s.read AS SELECT {name} AS v FROM mema.s.named")
    ours.reports(f"CREATE OR REPLACE TABLE mema.s.bare AS SELECT {name} AS v")
    with connect(ours.location, "mema", token=ours.token) as client:
        assert client.scan("s", "read").read_all().to_pylist() == [{"v": 7}]
        (row,) = client.scan("s", "bare").read_all().to_pylist()
    assert row["v"] in ("duckdb", "mema", "main", "jetbridge_work")


def test_1_6_a_table_may_have_many_columns(ours: Caller) -> None:
    """Arrow reserves memory for all rows of an answer, also of one without rows."""
    columns = ", ".join(f"c{i} BIGINT" for i in range(1000))
    ours.reports(f"CREATE OR REPLACE TABLE mema.s.wide ({columns})")
    ours.reports("INSERT INTO mema.s.wide (c0, c999) VALUES (1, 2)")
    with connect(ours.location, "mema", token=ours.token) as client:
        answer = client.scan("s", "wide").read_all()
    assert answer.schema.names == [f"c{i}" for i in range(1000)]
    assert answer.select(["c0", "c1", "c999"]).to_pylist() == [{"c0": 1, "c1": None, "c999": 2}]
