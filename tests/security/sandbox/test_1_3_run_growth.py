"""A statement of `run` cannot fill the memory of the server with strings made in expressions.

DuckDB does not count them in its memory_limit. Attacked: `run`, with functions that make much of
little, alone and in each other, in lambdas, subqueries, WITH, aliases, joins, UPDATE and INSERT.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from jetbridge.client import connect
from tests.security.sandbox.clients import Caller, serving

MANY = "range(8) t(i)"
WIDE = "repeat('x', 100000)"
# By the function that the refusal has to tell.
BOMBS = [
    ("repeat", f"SELECT sum(length(repeat('x', 50000000 + i))) FROM {MANY}"),
    ("repeat", "SELECT list_transform(range(100), x -> repeat('x', 1000000000))"),
    ("repeat", "SELECT length(repeat('x', 1000000000))"),
    ("repeat", f"SELECT length(repeat('x', greatest(i, 1000000000))) FROM {MANY}"),
    ("repeat", f"SELECT length(repeat('x', (SELECT 1000000000) + i)) FROM {MANY}"),
    ("repeat", f"SELECT length(repeat({WIDE}, 10000))"),
    ("repeat", f"SELECT length(repeat(s, 10000)) FROM (SELECT {WIDE} AS s)"),
    ("repeat", f"WITH w AS (SELECT {WIDE} AS s) SELECT length(repeat(s, 10000)) FROM w"),
    ("repeat", f"SELECT {WIDE} AS s, length(repeat(s, 10000))"),
    ("repeat", f"SELECT 1 FROM (SELECT {WIDE} AS s) a, (SELECT length(repeat(s, 10000))) b"),
    ("repeat", f"SELECT (SELECT length(repeat(s, 10000))) FROM (SELECT {WIDE} AS s)"),
    ("repeat", f"SELECT 1 FROM {MANY} ORDER BY repeat('x', 1000000000 + i)"),
    ("repeat", f"SELECT max(i) FILTER (repeat('x', 1000000000 + i) > '') FROM {MANY}"),
    ("repeat", "SELECT ('x').repeat(1000000000).length()"),
    ("repeat", "SELECT length(repeat(b, 100000)) FROM mema.s.t"),
    ("repeat", "SELECT length(repeat(left(b, -1), 100000)) FROM mema.s.t"),
    ("repeat", "UPDATE mema.s.t SET b = repeat('x', 1000000000 + a)"),
    ("repeat", "INSERT INTO mema.s.t SELECT 1, repeat('x', 1000000000)"),
    ("repeat", "DELETE FROM mema.s.t WHERE length(repeat('x', 1000000000 + a)) > 1"),
    ("list_transform", f"SELECT list_transform(range(1000), x -> {WIDE})"),
    ("list_apply", f"SELECT len([{WIDE} || x for x in range(1000)])"),
    ("lpad", f"SELECT length(lpad('x', 1000000000 + i::INT, 'y')) FROM {MANY}"),
    ("rpad", "SELECT length(rpad('x', 1000000000, 'y'))"),
    ("range", f"SELECT len(range(1000000000 + i)) FROM {MANY}"),
    ("range", "SELECT len(range(-1000000000, 0))"),
    ("range", f"SELECT len(range(i - 1000000000, 5)) FROM {MANY}"),
    ("range", "SELECT count(*) FROM (SELECT unnest(range(1000000000)))"),
    ("generate_series", "SELECT len(generate_series(1, 1000000000))"),
    ("list_resize", "SELECT len(list_resize([1], 1000000000))"),
    ("array_resize", "SELECT len(array_resize(['x'], 1000000000, 'y'))"),
    ("bitstring", "SELECT bit_length(bitstring('1', 1000000000))"),
    ("levenshtein", "SELECT levenshtein(b, b) FROM mema.s.t"),
    ("levenshtein", "SELECT levenshtein(repeat('a', 100000), 'b')"),
    ("damerau_levenshtein", "SELECT damerau_levenshtein(repeat('a', 14000), repeat('b', 14000))"),
    ("jaro_similarity", "SELECT jaro_similarity(left(b, 1000), b) FROM mema.s.t"),
    ("printf", "SELECT length(printf('%1000000000d', 1))"),
    ("format", "SELECT length(format('{:1000000000d}', 1))"),
    ("format", f"SELECT length(format('{{:{{}}d}}', 1, i)) FROM {MANY}"),
    ("replace", f"SELECT length(replace({WIDE}, 'x', {WIDE}))"),
    ("regexp_replace", f"SELECT length(regexp_replace({WIDE}, 'x', {WIDE}, 'g'))"),
    ("array_to_string", f"SELECT length(array_to_string(range(1000), {WIDE}))"),
    ("list_reduce", "SELECT length(list_reduce(['x' for i in range(40)], (a, x) -> a || a))"),
    ("concat", f"SELECT {', '.join(['concat(s, 1)'] * 40)} FROM (SELECT {WIDE} AS s)"),
    ("repeat", f"SELECT length(repeat('x', least(NULL, i + 1000000000))) FROM {MANY}"),
    ("repeat", "SELECT list_reduce([b, b], (a, x) -> repeat(x, 100000)) FROM mema.s.t"),
    ("list_transform", f"SELECT list_transform([{WIDE}], x -> list_transform(range(999), y -> x))"),
    ("||", "SELECT s FROM " + "(SELECT s || s AS s FROM " * 30 + "(SELECT 'x' AS s)" + ")" * 30),
]  # fmt: skip
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


def resident() -> int:
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    [line] = [each for each in lines if each.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "query"), BOMBS)
def test_1_3_run_refuses_what_would_fill_the_memory(ours: Caller, name: str, query: str) -> None:
    before, began = resident(), time.monotonic()
    answer = ours.run(query)
    assert (answer.status, f"{name}()" in answer.message) == ("PERMISSION_DENIED", True), answer
    assert time.monotonic() - began < 15
    assert resident() - before < 200_000_000
    assert ours.run("SELECT 1").status == "OK"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("query", ORDINARY)
def test_1_3_run_computes_what_is_ordinary(ours: Caller, query: str) -> None:
    before = resident()
    ours.reports(f"CREATE OR REPLACE TABLE mema.s.made AS {query}")
    assert resident() - before < 400_000_000
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
