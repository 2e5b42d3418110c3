"""Groups, windows and subqueries: Spark answers what DuckDB answers."""

from collections.abc import Iterator

import pytest

from tests.integration.translate.translated import Engines, opened

pytestmark = pytest.mark.lake

GROUPS = [
    (
        "SELECT i, count(*) AS n, sum(b), avg(b), min(s), max(dt) FROM t GROUP BY i ORDER "
        "BY n DESC, i"
    ),
    "SELECT d, count(*) FROM t GROUP BY d",
    "SELECT i, sum(b) FROM t GROUP BY ROLLUP (i) ORDER BY 1, 2",
    "SELECT i, s, sum(b), grouping(i, s), grouping(s) FROM t GROUP BY CUBE (i, s)",
    "SELECT i, s, count(*) FROM t GROUP BY GROUPING SETS ((i, s), (i), ())",
    (
        "SELECT i, count(DISTINCT s), sum(b) FILTER (WHERE s = 'a') FROM t GROUP BY i "
        "HAVING count(*) > 1"
    ),
    "SELECT count(*), sum(i), min(d) FROM none",
    "SELECT i, count(*) FROM none GROUP BY i",
    "SELECT -i AS i, count(*) FROM t GROUP BY i ORDER BY 1, 2",
    "SELECT i % 2 AS k, count(*) FROM t GROUP BY k ORDER BY k",
    "SELECT i AS k, sum(b) AS x FROM t GROUP BY k HAVING x > 10 ORDER BY x, k",
    "SELECT i AS k, sum(b) AS x, x + 1 AS y FROM t GROUP BY k ORDER BY y",
    "SELECT r, count(*) FROM t GROUP BY r ORDER BY r",
    "SELECT i, s, count(*) FROM t GROUP BY GROUPING SETS ((i), (s)) HAVING grouping(i) = 0",
    "SELECT i + 1 AS k, s, sum(i) FROM t GROUP BY ROLLUP (i + 1, s)",
    "SELECT i, s, sum(i) FROM t GROUP BY i, ROLLUP (s)",
    "SELECT i, i, sum(i) FROM t GROUP BY CUBE (i, i)",
    "SELECT i FROM t GROUP BY i ORDER BY count(*) DESC, i",
    "SELECT count(*) FROM t HAVING count(*) > 100",
    "SELECT sum(i) AS x, x + 1 FROM t",
    "SELECT l, count(*) FROM t GROUP BY l",
    (
        "SELECT count(DISTINCT d), count(DISTINCT i), sum(DISTINCT b), avg(DISTINCT i), "
        "avg(b) FILTER (i > 1) FROM t"
    ),
    "SELECT sum(i) FILTER (WHERE f) FROM t GROUP BY ()",
    "SELECT 5 AS k, count(*) FROM t GROUP BY k",
    "SELECT 'x' AS k, i, count(*) FROM t GROUP BY ALL",
    "SELECT i + 1 AS a, sum(b) + i + 1 FROM t GROUP BY i",
    'SELECT sum(b) AS "select", i AS "from" FROM t GROUP BY "from"',
    "SELECT i, count(*) FILTER (WHERE f) AS n, count(*) - n FROM t GROUP BY i",
    "SELECT count(*) FROM t, none",
    "SELECT s, i FROM t GROUP BY s, i HAVING max(b) IS NOT NULL ORDER BY max(b), s, i",
    (
        "SELECT sum(m), sum(i), sum(d), avg(m), avg(i), min(m), max(ts), count(f), "
        "bool_and(f), bool_or(f) FROM t WHERE d <> 'inf' AND d <> 'nan'"
    ),
    "SELECT s, count(*) FROM t GROUP BY s ORDER BY count(*), s",
    "SELECT 1 AS c, i, count(*) FROM none GROUP BY ALL",
    "SELECT count(*), sum(b) + 1 FROM none GROUP BY ALL",
    "SELECT count(DISTINCT i), sum(DISTINCT i) FROM t",
    "SELECT string_agg(s, ',' ORDER BY s DESC NULLS LAST) FROM t",
    "SELECT count(*) FILTER (WHERE s <> '{0}'), sum(b) FILTER (WHERE s <> '{0}{type}') FROM t",
]
WINDOWS = [
    (
        "SELECT i, row_number() OVER (PARTITION BY i ORDER BY s, b) AS rn, sum(b) OVER "
        "(PARTITION BY i) FROM t"
    ),
    (
        "SELECT i, s, sum(b) OVER (ORDER BY s, b ROWS BETWEEN 1 PRECEDING AND CURRENT "
        "ROW) FROM t WHERE s IS NOT NULL"
    ),
    "SELECT i, s FROM t QUALIFY row_number() OVER (PARTITION BY i ORDER BY s, b) = 1",
    "SELECT i, rank() OVER w FROM t WINDOW w AS (ORDER BY i) ORDER BY 1, 2",
    "SELECT i, sum(sum(b)) OVER () FROM t GROUP BY i",
    (
        "SELECT i, s, first_value(s) OVER (PARTITION BY i ORDER BY s, b), lag(s) OVER "
        "(ORDER BY s, b, i) FROM t"
    ),
    (
        "SELECT i, count(*) OVER (ORDER BY i RANGE BETWEEN UNBOUNDED PRECEDING AND "
        "CURRENT ROW), max(b) OVER (ORDER BY i ROWS UNBOUNDED PRECEDING) FROM t WHERE i "
        "<> 2"
    ),
    "SELECT DISTINCT i FROM t QUALIFY count(*) OVER (PARTITION BY i) > 1 ORDER BY i",
    "SELECT avg(b) OVER (PARTITION BY i), sum(m) OVER (PARTITION BY s) FROM t",
    "SELECT b, rank() OVER (ORDER BY sum(i)) FROM t GROUP BY b",
    (
        "SELECT i, sum(b) OVER (PARTITION BY s <> '{0}' ORDER BY i DESC NULLS LAST) FROM t "
        "ORDER BY i ASC NULLS LAST, 2 DESC NULLS LAST"
    ),
]
SUBQUERIES = [
    "SELECT s FROM t WHERE i IN (SELECT i FROM u)",
    "SELECT s FROM t WHERE i NOT IN (SELECT i FROM u WHERE i IS NOT NULL)",
    "SELECT s FROM t WHERE i NOT IN (SELECT i FROM u)",
    "SELECT s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.i)",
    "SELECT s, (SELECT max(v) FROM u WHERE u.i = t.i) AS mx FROM t",
    "SELECT s, (SELECT count(*) FROM u WHERE u.i = t.i) AS mx FROM t",
    "SELECT s FROM t WHERE b > (SELECT avg(v) FROM u) - 200",
    (
        "WITH q AS (SELECT i, count(*) AS n FROM t GROUP BY ALL), z(k) AS MATERIALIZED "
        "(SELECT n FROM q) SELECT * FROM q, z WHERE q.n = z.k"
    ),
    "SELECT (SELECT max(i) FROM none)",
    "SELECT x.n FROM (SELECT i, count(*) AS n FROM t GROUP BY i) AS x WHERE x.n > 1",
    "SELECT t.i FROM t, LATERAL (SELECT u.v FROM u WHERE u.i = t.i) x",
    "SELECT t.i, x.v FROM t LEFT JOIN LATERAL (SELECT u.v FROM u WHERE u.i = t.i) x ON true",
    "SELECT i FROM t WHERE i = ANY (SELECT i FROM u)",
    "SELECT i FROM t WHERE i <> ALL (SELECT i FROM u WHERE i > 1)",
    (
        "SELECT s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.i AND EXISTS (SELECT "
        "1 FROM t z WHERE z.i = u.i))"
    ),
    "SELECT s, EXISTS (SELECT 1 FROM u WHERE u.i = t.i) AS e FROM t",
    "SELECT s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.i = t.i)",
    "SELECT i, (SELECT max(v) FROM u WHERE u.i = t.i) AS x, count(*) FROM t GROUP BY i",
    (
        "SELECT i, count(*) FROM t GROUP BY i HAVING count(*) > (SELECT count(*) FROM u "
        "WHERE u.i = t.i)"
    ),
    "SELECT i, sum(b) FROM t GROUP BY i HAVING i IN (SELECT i FROM u)",
    "SELECT t.s, u.name FROM t LEFT JOIN u ON t.i = u.i AND u.v > (SELECT min(v) FROM u)",
    "SELECT s FROM t WHERE b = (SELECT max(b) FROM t z WHERE z.i = t.i)",
    "SELECT s, (SELECT v FROM u WHERE u.i = t.i AND u.v IS NOT NULL) FROM t WHERE i < 2",
    "SELECT s, (SELECT u.v + t.i FROM u WHERE u.i = t.i AND u.v = 100) FROM t",
    "SELECT * FROM (SELECT i, s FROM t) a NATURAL JOIN (SELECT i, name FROM u) b",
    "SELECT * FROM (SELECT i, s FROM t) a NATURAL LEFT JOIN (SELECT i, name FROM u) b",
    "WITH t AS (SELECT i + 1 AS i FROM t) SELECT * FROM t",
    (
        "SELECT * FROM (WITH a AS (SELECT i FROM u) SELECT * FROM a) x WHERE i IN (WITH a "
        "AS (SELECT 2 AS z) SELECT z FROM a)"
    ),
    "SELECT x.y AS z FROM (SELECT st AS x FROM t)",
    "SELECT min(x) FROM (SELECT i AS x FROM t WHERE i > 100)",
    ("SELECT t1.i FROM t t1 WHERE t1.i = (SELECT t2.i FROM u t2 WHERE t2.i = t1.i AND t2.v = 100)"),
    "SELECT max(i) FROM t WHERE i > (SELECT i FROM u WHERE name = 'x')",
    "SELECT u.v, (SELECT count(*) FROM t WHERE t.i = u.i GROUP BY t.i) FROM u",
    "SELECT (SELECT sum(v) FROM u WHERE u.i <= t.i) FROM t",
    "SELECT s FROM t WHERE (i IN (SELECT i FROM u)) OR f",
    "SELECT s FROM t WHERE NOT (i IN (SELECT i FROM u)) AND i > 0",
    "SELECT s FROM t WHERE i NOT IN (SELECT u.i FROM u WHERE u.v > t.b)",
    "SELECT s FROM t WHERE i IN (SELECT u.i FROM u WHERE u.v > t.b)",
    "SELECT (SELECT x FROM (SELECT max(v) AS x FROM u WHERE u.i = t.i) z) FROM t",
    "SELECT s FROM t WHERE i > (SELECT count(*) FROM u WHERE u.i = t.i HAVING count(*) > 1)",
    "SELECT s, (SELECT count(*) FROM u WHERE u.i = t.i HAVING count(*) > 1) FROM t",
    "SELECT s, (SELECT sum(v) FROM u WHERE u.i = t.i AND u.v > t.b) FROM t",
    "SELECT s, (SELECT count(DISTINCT u.name) + t.i FROM u WHERE u.i < t.i) FROM t",
    "SELECT i, (SELECT sum(x.b) FROM t x WHERE x.i = t.i) - sum(b) FROM t GROUP BY i",
    "SELECT s FROM t WHERE i = (SELECT max(i) FROM u WHERE u.i <= t.i)",
    "SELECT t.i, x.m FROM t, (SELECT max(v) AS m FROM u WHERE u.i = t.i) x",
    "SELECT t.i, x.c FROM t, LATERAL (SELECT count(*) AS c FROM u WHERE u.i = t.i) x",
    "SELECT count(*) FROM (SELECT DISTINCT i, s FROM t)",
    "SELECT i, b FROM t WHERE i IN (SELECT v FROM u)",
]


@pytest.fixture(scope="module")
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    with opened(request) as made:
        yield made


@pytest.mark.sampled(8)
@pytest.mark.parametrize("checked", [*GROUPS, *WINDOWS, *SUBQUERIES])
def test_spark_answers_what_duckdb_answers(engines: Engines, checked: str) -> None:
    engines.check(checked)
