"""Queries that use many parts of SQL at once, and what both engines refuse to answer."""

from collections.abc import Iterator

import duckdb
import pytest

from jetbridge.spark.errors import is_from_spark
from tests.helpers.lakes import engine
from tests.integration.translate.translated import Engines, opened

pytestmark = pytest.mark.lake

MIXED = [
    (
        "SELECT dt + INTERVAL 1 DAY, dt - INTERVAL '2' MONTH, ts + INTERVAL 3 HOUR FROM t "
        "WHERE dt >= DATE '1998-12-01' - INTERVAL 90 DAY AND dt < DATE '9000-01-01'"
    ),
    ("SELECT l = [1], st = {'x': 1, 'y': 'p'}, {'a': i, 'b c': s} AS z, [i, 2, NULL], [s] FROM t"),
    "SELECT s NOT LIKE 'a%', s LIKE '%ß', NOT s LIKE 'b' FROM t",
    "SELECT i, list(dt ORDER BY s), list(b ORDER BY s DESC) FROM t GROUP BY i",
    "SELECT i, list(s ORDER BY s), list(d ORDER BY d DESC NULLS LAST) FROM t GROUP BY i",
    (
        "SELECT i, list(dt ORDER BY s) FILTER (WHERE f), string_agg(s, ',' ORDER BY s) "
        "FROM t GROUP BY i"
    ),
    "SELECT sum(b ORDER BY i), count(DISTINCT s ORDER BY s) FROM t",
    "SELECT sum(x) FROM (SELECT unnest(l) AS x FROM t)",
    (
        "SELECT first_value(s) OVER (PARTITION BY i ORDER BY b, s ROWS BETWEEN UNBOUNDED "
        "PRECEDING AND UNBOUNDED FOLLOWING), lead(s, 1) OVER (ORDER BY b, s), ntile(2) "
        "OVER (ORDER BY b, s), nth_value(b, 2) OVER (PARTITION BY i ORDER BY b, s) FROM t"
    ),
    (
        "SELECT last_value(s IGNORE NULLS) OVER (ORDER BY b, i, s), dense_rank() OVER "
        "(PARTITION BY i ORDER BY s DESC) FROM t"
    ),
    "SELECT -i AS i FROM t WHERE i > 1",
    "SELECT i AS b, b AS i FROM t GROUP BY i, b",
    "SELECT i + 1 AS j, j * 2 AS k, k + j FROM t WHERE k > 4",
    "SELECT CASE WHEN count(*) > 1 THEN max(s) ELSE min(s) END FROM t GROUP BY i",
    "SELECT count(*) FILTER (WHERE i > (SELECT min(i) FROM u)) FROM t",
    "SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.i = t.i) THEN 1 ELSE 0 END) FROM t",
    "SELECT max(i) OVER (), (SELECT max(v) FROM u) FROM t ORDER BY ALL",
    (
        "SELECT a.i FROM t a WHERE a.b = (SELECT max(x.b) FROM t x WHERE x.i = a.i AND "
        "x.s IN (SELECT name FROM u UNION ALL SELECT 'a'))"
    ),
    (
        "SELECT * FROM (SELECT i, rank() OVER (PARTITION BY s ORDER BY i, b) AS r FROM t) "
        "WHERE r = 1"
    ),
    ("SELECT s, sum(b) FROM t GROUP BY s HAVING sum(b) > (SELECT avg(v) / 20 FROM u) ORDER BY s"),
    "SELECT i, s FROM t WHERE st.x > 1 AND l[1] = 1",
    "SELECT l[1], l[2], l[5] FROM t",
    "SELECT EXTRACT(year FROM dt) AS y, count(*) FROM t GROUP BY y ORDER BY y",
    (
        "SELECT coalesce(i, 0), coalesce(s, 'none'), coalesce(b, i), coalesce(dt, DATE "
        "'2000-01-01'), coalesce(NULL, i), greatest(i, 2), least(b, 7, i), nullif(i, 2), "
        "ifnull(i, 9) FROM t"
    ),
    (
        "SELECT t.i, u.i FROM t LEFT JOIN u ON t.i = u.i AND t.s = 'a' WHERE u.i IS NULL "
        "OR u.v > 100"
    ),
    "SELECT s, upper(s), length(s), substring(s, 1, 1), s || '-' || s, trim(s) FROM t",
    "SELECT count(*) FROM t a JOIN t b ON a.l = b.l",
    "SELECT count(*) FROM t a JOIN t b ON a.st = b.st",
    "SELECT DISTINCT r, d FROM t ORDER BY 1, 2",
    (
        "SELECT x.i, y.n FROM t x JOIN (SELECT i, count(*) AS n FROM t GROUP BY i) y ON "
        "x.i IS NOT DISTINCT FROM y.i"
    ),
    "SELECT i FROM t WHERE s IN (SELECT s FROM t GROUP BY s HAVING count(*) > 1)",
    "SELECT i FROM t WHERE f IS TRUE OR f IS NOT FALSE",
    "SELECT (SELECT i FROM u ORDER BY v LIMIT 1) FROM t",
    ("SELECT i, (SELECT name FROM u WHERE u.i = t.i ORDER BY v DESC LIMIT 1) FROM t WHERE i = 1"),
    (
        "SELECT t.i, x.name FROM t, LATERAL (SELECT name FROM u WHERE u.i = t.i ORDER BY "
        "name LIMIT 1) x"
    ),
    "SELECT i, sum(b) FROM t GROUP BY GROUPING SETS ((i), (i), ())",
    "SELECT DISTINCT ON (s) s, i, b FROM t WHERE s IS NOT NULL ORDER BY s, i DESC, b DESC",
    "SELECT DISTINCT ON (i + 1) i, b FROM t ORDER BY i + 1, b DESC, s",
    "SELECT DISTINCT unnest(l) AS e FROM t",
    "SELECT unnest(l) AS e, i FROM t ORDER BY e, i",
    "SELECT unnest([1, 2, NULL]) AS e",
    "SELECT i, count(*) FROM t GROUP BY i ORDER BY row_number() OVER (ORDER BY count(*), i)",
    "SELECT s, i FROM t WHERE i = 2 GROUP BY ALL ORDER BY ALL",
    "SELECT i, s FROM t WHERE i = -1 OR i = -2147483648 OR b > -9223372036854775808",
    (
        "SELECT date_part('year', dt), date_trunc('month', ts), EXTRACT(dow FROM dt), "
        "DATE_PART('MONTH', dt) FROM t WHERE dt < DATE '9000-01-01'"
    ),
    "SELECT x.c FROM (SELECT count(*) AS c FROM t) x JOIN (SELECT 6 AS c) y ON x.c = y.c",
    "SELECT t.i, v.k FROM t JOIN (VALUES (1, 'one'), (2, 'two')) v(n, k) ON t.i = v.n",
    (
        "WITH a AS (SELECT i, sum(b) AS x FROM t GROUP BY i), m AS (SELECT max(x) AS x "
        "FROM a) SELECT a.i FROM a, m WHERE a.x = m.x"
    ),
    ("SELECT a.i, (SELECT count(*) FROM (SELECT DISTINCT name FROM u WHERE u.i = a.i) z) FROM t a"),
    (
        "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.i = t.i GROUP BY u.i "
        "HAVING count(*) > 1)"
    ),
    "SELECT i, EXISTS (SELECT 1 FROM u WHERE u.i > t.i) FROM t",
    "SELECT i FROM t WHERE i = (SELECT i FROM u WHERE name = 'none')",
    (
        "SELECT TRY_CAST(x AS TINYINT), TRY_CAST(x AS SMALLINT), TRY_CAST(x AS INTEGER), "
        "TRY_CAST(x AS BIGINT), TRY_CAST(x::FLOAT AS TINYINT) FROM (VALUES (-128.5::DOUBLE), "
        "(-128), (127.4), (128), (-32768.5), (32767.4), (-2147483648.5), (2147483647.4), "
        "(2147483648), (-9223372036854775808), (9223372036854775808), ('nan'), ('-inf')) v(x)"
    ),
    (
        "SELECT TRY_CAST(x AS BOOLEAN), CAST(y AS INTEGER), CAST(y AS DOUBLE), CAST(z AS DATE) "
        "FROM (VALUES ('YES', '12', '2020-01-02'), ('?', ' 7.5', NULL)) v(x, y, z)"
    ),
]


@pytest.fixture(scope="module")
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    with opened(request) as made:
        yield made


@pytest.mark.sampled(6)
@pytest.mark.parametrize("checked", MIXED)
def test_spark_answers_what_duckdb_answers(engines: Engines, checked: str) -> None:
    engines.check(checked)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT i FROM t WHERE i > (SELECT i FROM u)",
        "SELECT (SELECT v FROM u WHERE u.i = t.i) FROM t",
        "SELECT ti * 100 FROM t",
        "SELECT CAST(b * 1000 AS TINYINT) FROM t",
        "SELECT CAST(d - 129 AS TINYINT) FROM t WHERE d = 0.5",
        "SELECT CAST('x' || s AS INTEGER) FROM t",
    ],
)
def test_what_duckdb_refuses_to_answer_spark_refuses_too(engines: Engines, query: str) -> None:
    text = engines.translate(query)
    with pytest.raises(duckdb.Error):
        engines.rows.execute(query).fetchall()
    with engine().session() as session, pytest.raises(Exception) as failure:  # noqa: PT011
        session.sql(text).collect()
    assert is_from_spark(failure.value)
