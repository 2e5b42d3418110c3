"""Rows, joins and set operations: Spark answers what DuckDB answers."""

from collections.abc import Iterator

import pytest

from tests.integration.translate.translated import Engines, opened

pytestmark = pytest.mark.lake

ROWS = [
    "SELECT i, b, s FROM t",
    "SELECT * FROM t",
    "SELECT i + 1 AS x, b * 2, m + 1, -i FROM t WHERE i > 1 AND s = 'a' OR m IS NULL",
    "SELECT DISTINCT i, s FROM t",
    "SELECT DISTINCT d FROM t",
    "SELECT DISTINCT ON (i) i, s, b FROM t ORDER BY i, s, b",
    "SELECT i, s FROM t ORDER BY ALL",
    "SELECT d FROM t ORDER BY d",
    "SELECT d FROM t ORDER BY d DESC",
    "SELECT i, s FROM t ORDER BY b DESC NULLS FIRST, s LIMIT 3",
    "SELECT i, s FROM t ORDER BY 2, 1 LIMIT 2 OFFSET 1",
    "SELECT i AS a, a + 1 AS c FROM t WHERE a > 1",
    "SELECT * EXCLUDE (l, st) REPLACE (i + 1 AS i) FROM t",
    (
        "SELECT CASE WHEN i = 1 THEN 'one' WHEN i = 2 THEN 'two' END AS c, CASE i WHEN 1 "
        "THEN 10 ELSE b END FROM t"
    ),
    (
        "SELECT s FROM t WHERE i BETWEEN 1 AND 2 AND dt < '2020-02-01' AND dt IN "
        "('2020-01-01', '1999-12-31')"
    ),
    "SELECT st.x, st.y, t.st.x AS z FROM t",
    "SELECT unnest(l) AS e, i FROM t",
    "SELECT e FROM UNNEST([1,2,3]) AS u(e)",
    "SELECT s FROM t WHERE i IS DISTINCT FROM b AND NOT (f IS NULL)",
    (
        "SELECT 1, 1.5, 'x', DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00', true, "
        "NULL, 1e3, -5, 99999999999"
    ),
    "SELECT ti + 1, ti * 2 FROM t",
    "SELECT -i AS i, s FROM t ORDER BY i, s, b",
    "SELECT DISTINCT i, b FROM t ORDER BY b DESC, i",
    "SELECT i FROM t ORDER BY b + 1, i DESC",
    "SELECT i FROM t ORDER BY i LIMIT 0",
    'SELECT "I" AS "Odd Name", S AS "b`q", 1 AS "a.b" FROM T AS "x y"',
    "SELECT 'it''s', 'back\\slash', 'new\nline', 'ünï', '`', '\"', '{0}' AS z",
    "SELECT unnest(l) FROM t WHERE i = 1",
    "SELECT i, i IN (1, NULL), i NOT IN (1, NULL), b IN (10, 20.5), s IN ('a', 'ß') FROM t",
    "SELECT i FROM t WHERE (f OR i > 1) AND NOT f",
    (
        "SELECT i, CASE WHEN f THEN i ELSE d END, CASE WHEN f THEN m ELSE 0 END, CASE "
        "WHEN NULL THEN 1 END FROM t"
    ),
    "SELECT if(f, 1, 2), CASE s WHEN 'a' THEN 1 WHEN NULL THEN 2 END FROM t",
    (
        "SELECT d BETWEEN 0 AND 10, i BETWEEN 0.5 AND 2.5, dt BETWEEN '2020-01-01' AND "
        "DATE '2020-12-31', s BETWEEN 'A' AND 'b' FROM t"
    ),
    (
        "SELECT dt = '2020-01-01', ts > '2020-01-01', m = '1.5', i = '1', b > 1.5, d > "
        "0.25, m < 2, ti < 1000, f = true FROM t"
    ),
    "SELECT st FROM t",
    "SELECT l FROM t",
    "SELECT l = [1], st = {'x': 1, 'y': 'p'} FROM t",
    "SELECT DISTINCT l FROM t",
    "SELECT DISTINCT st FROM t",
    "FROM t",
    "FROM t SELECT i WHERE i > 1",
    "SELECT s || 'x' FROM t",
    (
        "SELECT CAST(i AS BIGINT), i::DOUBLE, CAST('5' AS INTEGER), m::INTEGER, "
        "NULL::DATE, b::INTEGER FROM t"
    ),
    "SELECT i FROM t WHERE true",
    "SELECT t.s AS s FROM t ORDER BY t.i, t.s, t.b",
    "SELECT DISTINCT s FROM t ORDER BY s DESC",
    "SELECT CAST(b AS VARCHAR) AS x FROM t ORDER BY x",
    "SELECT i FROM t WHERE st.x = 1 OR st.y = 'p'",
    (
        "SELECT m * 2, m * m, m + m, m - 1.5, i + m, b * m, m / 2, i / 2, i // 2, i % 2, "
        "d / 0, i / 0 FROM t"
    ),
]
JOINS = [
    "SELECT t.i, u.name FROM t JOIN u ON t.i = u.i",
    "SELECT * FROM t JOIN u USING (i)",
    "SELECT * FROM t LEFT JOIN u USING (i)",
    "SELECT * FROM t RIGHT JOIN u USING (i)",
    "SELECT * FROM t FULL JOIN u USING (i)",
    "SELECT i, x.name FROM t FULL JOIN u x USING (i)",
    "SELECT t.s, u.name FROM t CROSS JOIN u",
    "SELECT s FROM t SEMI JOIN u USING (i)",
    "SELECT s FROM t ANTI JOIN u USING (i)",
    "SELECT t.* FROM t, u WHERE t.i = u.i",
    "SELECT i, u.e FROM t, UNNEST(t.l) AS u(e)",
    "SELECT a.i, b2.name FROM (t a JOIN u b2 ON a.i = b2.i) LEFT JOIN none ON true",
    "SELECT a.d, b.d FROM t a JOIN t b ON a.d = b.d",
    "SELECT a.r, b.r FROM t a JOIN t b USING (r)",
    "SELECT t.*, u.* FROM t JOIN u USING (i)",
    "SELECT t.i, u.i, i FROM t RIGHT JOIN u USING (i)",
    "SELECT t.i, z.e FROM t LEFT JOIN UNNEST(t.l) AS z(e) ON true",
    "SELECT a.i FROM t a, t b, u WHERE a.i = b.i AND b.i = u.i",
    "SELECT * FROM t JOIN u ON t.i < u.i AND t.s <> u.name",
    "SELECT a.i AS x, b.i AS y FROM t a LEFT JOIN t b ON a.i = b.b WHERE b.i IS NULL",
    "SELECT u.i, count(t.b) FROM u LEFT JOIN t ON t.i = u.i GROUP BY u.i",
    "SELECT count(*) FROM t LEFT JOIN none ON true",
    "SELECT count(*) FROM t FULL JOIN none ON t.i = none.i",
    "SELECT a.*, b.* EXCLUDE (i) FROM u a JOIN u b ON a.i = b.i",
]
SETS = [
    "SELECT i FROM t UNION SELECT i FROM u",
    "SELECT i FROM t UNION ALL SELECT v FROM u",
    "SELECT i FROM t INTERSECT ALL SELECT i FROM u",
    "SELECT i FROM t EXCEPT SELECT i FROM u",
    "SELECT i FROM t EXCEPT ALL SELECT i FROM u",
    "SELECT i, s FROM t UNION ALL BY NAME SELECT name AS s, v FROM u",
    "VALUES (1, 'a'), (2, NULL)",
    "SELECT * FROM (VALUES (1, 'a'), (2.5, NULL)) v(x, y)",
    "SELECT i FROM t UNION ALL SELECT d FROM t",
    "SELECT i FROM t UNION ALL SELECT m FROM t",
    "SELECT m FROM t UNION ALL SELECT d FROM t",
    "SELECT dt FROM t UNION SELECT ts FROM t",
    "SELECT NULL AS x UNION ALL SELECT dt FROM t",
    "SELECT ti FROM t UNION ALL SELECT 1",
    (
        "WITH a AS (SELECT i FROM t), b AS (SELECT i FROM a UNION ALL SELECT i FROM a) "
        "SELECT b.i, a.i FROM b JOIN a ON a.i = b.i"
    ),
    "VALUES (3, 'a'), (1, 'b') ORDER BY 1",
    "(SELECT i FROM t ORDER BY i LIMIT 2) UNION ALL SELECT i FROM u ORDER BY 1",
    "SELECT i FROM t INTERSECT SELECT i FROM u UNION SELECT 9",
    "SELECT i FROM t EXCEPT SELECT 2.0",
    (
        "SELECT s FROM t WHERE EXISTS (SELECT i FROM u WHERE u.i = t.i UNION ALL SELECT i "
        "FROM t z WHERE z.i = t.i)"
    ),
    "SELECT s FROM t WHERE i = 1 UNION SELECT name FROM u WHERE i = 2 ORDER BY 1 LIMIT 2",
    "SELECT i AS x FROM t UNION ALL SELECT i FROM u ORDER BY x DESC NULLS FIRST",
    "SELECT sum(n) FROM (SELECT count(*) AS n FROM t GROUP BY i UNION ALL SELECT 1)",
]


@pytest.fixture(scope="module")
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    with opened(request) as made:
        yield made


@pytest.mark.sampled(8)
@pytest.mark.parametrize("checked", [*ROWS, *JOINS, *SETS])
def test_spark_answers_what_duckdb_answers(engines: Engines, checked: str) -> None:
    engines.check(checked)
