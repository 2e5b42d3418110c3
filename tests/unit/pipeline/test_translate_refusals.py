"""What is not proved to be the same in Spark is refused, by name; and nothing else gets through."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from jetbridge.duckdb_engine.connection import DuckDBAccess, StatementConnection
from jetbridge.duckdb_engine.planner import PlannerDatabase
from jetbridge.pipeline.name_resolution import SearchPath
from jetbridge.pipeline.translate import Question, SparkTable, Untranslatable, translate

SCHEMA = pa.schema(
    [("i", pa.int32()), ("b", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int32()))]
)
TYPES = {"i": "INTEGER", "b": "BIGINT", "s": "VARCHAR", "l": "INTEGER[]"}
TABLES = {
    ("here", "main", "t"): SparkTable("spark_t", TYPES),
    ("here", "main", "u"): SparkTable("spark_u", TYPES, {"odd": "TIME"}),
}


@pytest.fixture(scope="module")
def desk() -> Iterator[StatementConnection]:
    bench = PlannerDatabase(["here"], DuckDBAccess())
    with bench.connect() as opened:
        opened.use("here", "main")
        opened.declare(("here", "main", "t"), SCHEMA)
        opened.declare(("here", "main", "u"), SCHEMA.append(pa.field("odd", pa.time64("us"))))
        yield opened
    bench.close()


def translated(desk: StatementConnection, query: str) -> str:
    found = desk.types(query)
    names, types = (tuple(each) for each in zip(*found, strict=True))
    return translate(Question(query, names, types, TABLES, SearchPath("here")), desk)


REFUSED = [
    ("SELECT random()", "rand"),
    ("SELECT uuid()", "uuid"),
    ("SELECT now()", "now"),
    ("SELECT i FROM t LIMIT 3", "LIMIT without ORDER BY"),
    ("SELECT i FROM t ORDER BY i LIMIT 50%", "limit"),
    ("SELECT i FROM t ORDER BY i LIMIT (SELECT 1)", "limit"),
    ("SELECT i FROM t USING SAMPLE 10", "sample"),
    ("SELECT i FROM t TABLESAMPLE 10%", "sample"),
    ("WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i FROM r) SELECT i FROM r", "recursive"),
    ("SELECT * FROM range(3)", "generateseries"),
    ("SELECT COLUMNS(*) FROM t", "columns"),
    ("SELECT t FROM t", "the name t"),
    ("SELECT rowid FROM t", "the name rowid"),
    ("SELECT i FROM t ORDER BY l", "the order of"),
    ("SELECT DISTINCT ON (i) i, s FROM t", "DISTINCT ON without ORDER BY"),
    ("SELECT row_number() OVER () FROM t", "ORDER BY"),
    ("SELECT sum(i) OVER (ORDER BY i GROUPS 1 PRECEDING) FROM t", "GROUPS"),
    ("SELECT sum(i) OVER (ORDER BY i RANGE 1 PRECEDING) FROM t", "frame"),
    ("SELECT sum(i) FILTER (WHERE i > 1) OVER () FROM t", "FILTER"),
    ("SELECT count(DISTINCT i) OVER () FROM t", "DISTINCT"),
    ("SELECT * FROM u", "the column odd"),
    ("SELECT odd FROM u", "the column odd of type TIME"),
    ("SELECT i IN (SELECT i FROM u) FROM t", "IN a subquery"),
    ("SELECT i FROM t WHERE NOT (i IN (SELECT i FROM u)) OR i = 1", "IN a subquery"),
    ("SELECT i FROM t WHERE i > ALL (SELECT i FROM u)", "all"),
    ("SELECT i FROM t WHERE (i, s) IN (SELECT i, s FROM u)", "more than one column"),
    ("SELECT -i AS i FROM t GROUP BY ALL HAVING i > 1", "a column and an alias"),
    ("SELECT -i AS i FROM t ORDER BY i + 1", "a column and an alias"),
    ("SELECT (SELECT sum(t.i) FROM u) FROM t", "another query"),
    (
        "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE EXISTS (SELECT t.i WHERE u.i = 1))",
        "further out",
    ),
    ("SELECT a.i FROM t a, t b RIGHT JOIN u ON b.i = u.i", "after a comma"),
    ("SELECT t.i FROM t POSITIONAL JOIN u", "positional"),
    ("SELECT t.i FROM t ASOF JOIN u ON t.i >= u.i", "asof"),
    ("SELECT unnest(l), unnest(l) FROM t", "several lists"),
    ("SELECT unnest(l), row_number() OVER (ORDER BY i) FROM t", "unnest beside windows"),
    ("SELECT b AS x, i AS x FROM t ORDER BY x", "which two columns have"),
    ("SELECT i AS x, b AS x, x + 1 FROM t", "which two columns have"),
    ("SELECT 1 WHERE 5", "INTEGER as a condition"),
    ("FROM t PIVOT (sum(b) FOR s IN ('a', 'b') GROUP BY i)", "pivots"),
    ("SELECT i::UTINYINT FROM t", "cast"),
    ("SELECT INTERVAL 1 DAY", "INTERVAL"),
    ("SELECT list(s) FROM t", "without ORDER BY"),
    ("SELECT list_transform(l, x -> x + 1) FROM t", "lambda"),
    ("SELECT s COLLATE NOCASE FROM t", "collate"),
    ("SELECT 1 AS c, count(*) FROM t GROUP BY ALL", "constants only"),
    ("SELECT 1 AS c, 2 AS d FROM t GROUP BY ALL", "constants only"),
    ("SELECT (SELECT max(i) FROM u) AS c, count(*) FROM t GROUP BY ALL", "constants only"),
    ("SELECT TRY_CAST(s AS INTEGER) FROM t", "cast"),
    ("SELECT TRY_CAST(s AS DATE) FROM t", "cast"),
    ("SELECT i FROM t AT (VERSION => 1)", "when of table"),
]


@pytest.mark.parametrize(("query", "piece"), REFUSED)
def test_it_is_refused_by_name(desk: StatementConnection, query: str, piece: str) -> None:
    question = Question(query, ("x",), ("INTEGER",), TABLES, SearchPath("here"))
    with pytest.raises(Untranslatable) as refusal:
        translate(question, desk)
    assert piece.lower() in refusal.value.piece.lower()
    assert len(refusal.value.piece) < 120


@pytest.mark.parametrize(
    "beside",
    [
        "sum(DISTINCT i), sum(DISTINCT b)",
        "count(DISTINCT b + 1), avg(DISTINCT b)",
        "sum(DISTINCT i) FILTER (WHERE b > 1)",
    ],
)
def test_spark_cannot_join_texts_beside_several_distinct(
    desk: StatementConnection, beside: str
) -> None:
    with pytest.raises(Untranslatable, match="string_agg beside DISTINCT"):
        translated(desk, f"SELECT {beside}, string_agg(s, ',' ORDER BY s) FROM t GROUP BY i")


HOSTILE = [
    "SELECT reflect('java.lang.System', 'exit', 1)",
    "SELECT java_method('java.lang.Runtime', 'getRuntime')",
    "SELECT * FROM read_parquet('/etc/x.parquet')",
    "SELECT * FROM '/etc/passwd.csv'",
    "SELECT * FROM parquet.`/etc/x`",
    'SELECT * FROM "parquet"."/etc/x"',
    "SELECT TRANSFORM(i) USING 'cat' FROM t",
    "SELECT input_file_name() FROM t",
    "SELECT getenv('HOME')",
    "SELECT i FROM t; DROP TABLE t",
    "DROP TABLE t",
    "CREATE TABLE x AS SELECT 1",
    "INSERT INTO t SELECT * FROM t",
    "CALL system.rollback()",
    "SELECT * FROM t VERSION AS OF 1",
    "SELECT /*+ BROADCAST(t) */ spark_partition_id() FROM t",
    "SELECT assert_true(false)",
    "SELECT session_user",
    "SELECT * FROM spark_t",
    "SELECT _t0.i FROM t",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_nothing_unknown_gets_through(desk: StatementConnection, query: str) -> None:
    question = Question(query, ("x",), ("INTEGER",), TABLES, SearchPath("here"))
    with pytest.raises(Untranslatable):
        translate(question, desk)


def test_texts_and_names_stay_inside_their_quotes(desk: StatementConnection) -> None:
    query = r"""SELECT 'a\''b' AS "x`, (SELECT 1) AS `y" FROM t WHERE s = '\'"""
    text = translated(desk, query)
    assert "`x``, (SELECT 1) AS ``y`" in text
    assert "= '\\\\'" in text


def test_precedence_is_that_of_duckdb(desk: StatementConnection) -> None:
    text = translated(desk, "SELECT NOT i = 1 AND b = 2 OR s = 'x' AS x FROM t")
    assert text.index("NOT") < text.index(" AND ") < text.index(" OR ")


def test_the_planned_types_are_checked(desk: StatementConnection) -> None:
    question = Question("SELECT i FROM t", ("i",), ("BIGINT",), TABLES, SearchPath("here"))
    with pytest.raises(Untranslatable, match="planned as BIGINT"):
        translate(question, desk)


@pytest.mark.parametrize("order", ["i", "i ASC", "i NULLS LAST", "i ASC NULLS LAST"])
def test_an_order_may_say_what_is_usual(desk: StatementConnection, order: str) -> None:
    usual = translated(desk, "SELECT i FROM t ORDER BY i")
    assert translated(desk, f"SELECT i FROM t ORDER BY {order}") == usual
    rank = translated(desk, f"SELECT rank() OVER (ORDER BY {order}) AS r FROM t")
    assert "ASC NULLS LAST" in rank


def test_a_text_like_a_hole_stays_a_text(desk: StatementConnection) -> None:
    query = "SELECT sum(i) FILTER (WHERE s = '{0}') AS x, sum(b) FILTER (WHERE s = '{type}') AS y"
    text = translated(desk, f"{query} FROM t")
    assert "'{0}'" in text
    assert "'{type}'" in text


@pytest.mark.parametrize("name", ["t", "T", "main.t", "here.main.t", "here.t", '"HERE"."Main"."T"'])
def test_a_table_is_found_by_any_form_of_its_name(desk: StatementConnection, name: str) -> None:
    assert "spark_t" in translated(desk, f"SELECT i FROM {name}")


def test_a_deep_query_is_refused(desk: StatementConnection) -> None:
    query = "SELECT " + "(" * 600 + "i" + " + 1)" * 600 + " AS x FROM t"
    question = Question(query, ("x",), ("INTEGER",), TABLES, SearchPath("here"))
    with pytest.raises(Untranslatable):
        translate(question, desk)


def test_long_chains_and_lists_are_translated(desk: StatementConnection) -> None:
    numbers = ", ".join(map(str, range(1100)))
    tests = " OR ".join(f"i = {number}" for number in range(150))
    text = translated(desk, f"SELECT i FROM t WHERE i IN ({numbers}) AND ({tests})")
    assert "1099" in text


@pytest.mark.parametrize("call", ["list(s ORDER BY s)", "list(s ORDER BY s DESC)"])
def test_a_list_in_its_own_order_is_translated(desk: StatementConnection, call: str) -> None:
    assert "sort_array" in translated(desk, f"SELECT {call} FROM t")
