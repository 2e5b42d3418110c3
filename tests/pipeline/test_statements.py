"""Every statement that `jetbridge sql` takes, over the lake and over memory."""

from decimal import Decimal

import pytest

from jetbridge.backends.mssql.settings import SETTINGS
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    NotFound,
    NotSupported,
)
from tests.pipeline.targets import only_on


@pytest.fixture
def orders(target):
    """Return three rows, in a table of its own."""
    target.sql(
        "CREATE OR REPLACE TABLE t.dbo.orders AS "
        "FROM (VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, NULL, NULL)) AS v(id, name, price)"
    )
    target.keyed("orders")
    return target


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM t.dbo.orders WHERE price > 2", [(2,)]),
        ("FROM t.dbo.orders SELECT id ORDER BY id DESC LIMIT 1", [(3,)]),
        ("VALUES (1), (2)", [(1,), (2,)]),
        ("WITH x AS (SELECT 5 AS a) SELECT a + 1 AS b FROM x", [(6,)]),
        ("SELECT 1 UNION ALL SELECT 2", [(1,), (2,)]),
        ("TABLE t.dbo.orders LIMIT 1", [(1, "a", Decimal("1.5"))]),
        ("SELECT count(*) FROM t.dbo.orders a JOIN t.dbo.orders b USING (id)", [(3,)]),
        ("SELECT x FROM (SELECT unnest([1, 2]) AS x)", [(1,), (2,)]),
        ("SUMMARIZE SELECT 1 AS a", None),
    ],
)
def test_queries(orders, query, expected):
    found = orders.rows(query)
    assert expected is None or found == expected


def test_inserts(orders):
    orders.sql("INSERT INTO t.dbo.orders VALUES (4, 'd', 4.5), (5, 'e', NULL)")
    orders.sql("INSERT INTO t.dbo.orders (name, id) SELECT 'f', 6")
    orders.sql("INSERT INTO t.dbo.orders BY NAME SELECT 7 AS id, 'g' AS name")
    found = orders.rows("SELECT id, name FROM t.dbo.orders WHERE id > 3 ORDER BY id")
    assert found == [(4, "d"), (5, "e"), (6, "f"), (7, "g")]


def test_insert_returning(orders):
    text = "INSERT INTO t.dbo.orders VALUES (8, 'h', 1), (9, 'i', 2) RETURNING id, upper(name) AS u"
    assert orders.rows(text) == [(8, "H"), (9, "I")]
    none = orders.sql("INSERT INTO t.dbo.orders SELECT 1, 'a', 1 WHERE FALSE RETURNING *")
    assert (none.num_rows, none.column_names) == (0, ["id", "name", "price"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("INSERT INTO t.dbo.orders VALUES (1)", BadRequest, "3 columns, and the query has 1"),
        ("INSERT INTO t.dbo.orders (nope) VALUES (1)", BadRequest, "no column 'nope'"),
        ("INSERT INTO t.dbo.orders VALUES ('x', 'y', 1)", BadRequest, "(?i)conversion|convert"),
        ("INSERT INTO t.dbo.nope VALUES (1)", NotFound, r"t\.dbo\.nope"),
        ("INSERT OR REPLACE INTO t.dbo.orders VALUES (1, 'a', 2)", NotSupported, "MERGE INTO"),
    ],
)
def test_inserts_that_are_refused_change_nothing(orders, text, error, problem):
    with pytest.raises(error, match=problem):
        orders.sql(text)
    assert orders.rows("SELECT count(*) FROM t.dbo.orders") == [(3,)]


def test_updates(orders):
    orders.sql("UPDATE t.dbo.orders SET price = price + 1, name = 'x' || id WHERE id < 3")
    found = orders.rows("FROM t.dbo.orders WHERE id < 3 ORDER BY id")
    assert found == [(1, "x1", Decimal("2.5")), (2, "x2", Decimal("3.5"))]
    orders.sql(
        "UPDATE t.dbo.orders AS o SET name = s.n FROM (VALUES (3, 'joined')) AS s(i, n) "
        "WHERE o.id = s.i"
    )
    assert orders.rows("SELECT name FROM t.dbo.orders WHERE id = 3") == [("joined",)]


def test_update_and_delete_returning(orders):
    text = "UPDATE t.dbo.orders SET name = 'z' WHERE id = 1 RETURNING id, name, name || '!' AS e"
    assert orders.rows(text) == [(1, "z", "z!")]
    assert orders.rows("DELETE FROM t.dbo.orders WHERE id = 1 RETURNING name") == [("z",)]
    names = orders.sql("DELETE FROM t.dbo.orders WHERE id = 2 RETURNING *").column_names
    assert names == ["id", "name", "price"]


def test_deletes(orders):
    report = orders.report(
        "DELETE FROM t.dbo.orders WHERE id IN (SELECT id FROM t.dbo.orders WHERE id > 1)"
    )
    assert report["rows_written"] == 2
    assert orders.rows("SELECT id FROM t.dbo.orders") == [(1,)]
    orders.sql("TRUNCATE t.dbo.orders")
    assert orders.rows("SELECT count(*) FROM t.dbo.orders") == [(0,)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("UPDATE t.dbo.orders SET nope = 1", "no column 'nope'"),
        ("UPDATE t.dbo.orders SET id = 1, id = 2", "twice"),
        ("UPDATE t.dbo.orders SET id = other", "other"),
        ("DELETE FROM t.dbo.orders WHERE other", "other"),
    ],
)
def test_changes_that_are_refused(orders, text, problem):
    with pytest.raises(BadRequest, match=problem):
        orders.sql(text)
    assert orders.rows("SELECT count(*), sum(id)::INT FROM t.dbo.orders") == [(3, 6)]


def test_columns_keys_checks_and_defaults(target):
    target.sql(
        "CREATE OR REPLACE TABLE t.dbo.keyed "
        "(id INTEGER PRIMARY KEY, b VARCHAR DEFAULT 'x', c INTEGER NOT NULL, CHECK (c > 0))"
    )
    target.sql("INSERT INTO t.dbo.keyed (id, c) VALUES (1, 5)")
    assert target.rows("FROM t.dbo.keyed") == [(1, "x", 5)]
    with pytest.raises(DuplicateKey):
        target.sql("INSERT INTO t.dbo.keyed (id, c) VALUES (1, 5)")
    with pytest.raises(ConstraintViolation):
        target.sql("INSERT INTO t.dbo.keyed (id, c) VALUES (2, 0)")
    with pytest.raises(AlreadyExists, match="OR REPLACE"):
        target.sql("CREATE TABLE t.dbo.keyed (a INT)")
    assert "nothing" in target.report("CREATE TABLE IF NOT EXISTS t.dbo.keyed (a INT)")["note"]
    described = target.rows("DESCRIBE t.dbo.keyed")
    assert described[1] == ("b", "VARCHAR", "YES", "'x'")


def test_alter_table(target):
    target.sql("CREATE OR REPLACE TABLE t.dbo.altered AS SELECT 1 AS a")
    for change in (
        "ADD COLUMN b INTEGER DEFAULT 7",
        "ADD COLUMN IF NOT EXISTS b INTEGER",
        "RENAME COLUMN a TO aa",
        "ALTER COLUMN aa TYPE BIGINT",
        "ALTER aa DROP NOT NULL",
        "ALTER COLUMN b SET DEFAULT 8",
        "DROP COLUMN IF EXISTS nope",
    ):
        target.sql(f"ALTER TABLE t.dbo.altered {change}")
    target.sql("INSERT INTO t.dbo.altered (aa) VALUES (2)")
    assert target.rows("SELECT aa, b FROM t.dbo.altered ORDER BY aa") == [(1, 7), (2, 8)]
    target.sql("ALTER TABLE t.dbo.altered RENAME TO altered2")
    assert target.rows("SELECT count(*) FROM t.dbo.altered2") == [(2,)]
    assert "nothing" in target.report("ALTER TABLE IF EXISTS t.dbo.nope DROP x")["note"]
    with pytest.raises(NotSupported, match="SET is not supported"):
        target.sql("ALTER TABLE t.dbo.altered2 SET ('a' = 'b')")


@only_on("lake", "memory")
def test_alter_the_fields_of_a_struct(target):
    target.sql("CREATE OR REPLACE TABLE t.dbo.altered AS SELECT {'x': 1} AS s")
    for change in ("ADD COLUMN s.y VARCHAR", "RENAME COLUMN s.x TO xx"):
        target.sql(f"ALTER TABLE t.dbo.altered {change}")
    assert target.columns("altered")[0][1].startswith("STRUCT(xx INTEGER, y VARCHAR")


def test_schemas(target):
    target.sql("CREATE SCHEMA t.extra; CREATE TABLE t.extra.x AS SELECT 1 AS a")
    assert ("t", "extra") in target.rows("SHOW SCHEMAS")
    assert ("t", "extra", "x") in target.rows("SHOW ALL TABLES")
    assert "nothing" in target.report("CREATE SCHEMA IF NOT EXISTS t.extra")["note"]
    with pytest.raises(AlreadyExists):
        target.sql("CREATE SCHEMA t.extra")
    with pytest.raises(FailedPrecondition, match="CASCADE"):
        target.sql("DROP SCHEMA t.extra")
    target.sql("DROP TABLE t.extra.x; DROP TABLE IF EXISTS t.extra.x; DROP SCHEMA t.extra")
    with pytest.raises(NotFound):
        target.sql("DROP SCHEMA t.extra")
    target.sql("CREATE SCHEMA t.extra; CREATE TABLE t.extra.x AS SELECT 1 AS a")
    target.sql("DROP SCHEMA t.extra CASCADE; DROP SCHEMA IF EXISTS t.extra")
    assert ("t", "extra") not in target.rows("SHOW SCHEMAS")


def test_use_and_short_names(orders):
    orders.sql("USE t.dbo")
    try:
        assert orders.rows("SELECT count(*) FROM orders") == [(3,)]
        assert ("orders",) in orders.rows("SHOW TABLES")
        orders.sql("CREATE OR REPLACE TABLE short AS SELECT 1 AS a")
        assert orders.rows("FROM dbo.short") == [(1,)]
    finally:
        orders.sql("USE t")


def test_settings(target):
    assert target.rows("SET spark_from = '5MB'; SHOW spark_from") == [("5000000",)]
    assert target.rows("RESET spark_from; SHOW spark_from") == [("2147483648",)]
    names = [row[0] for row in target.rows("SHOW settings")]
    assert names[:3] == ["engine", "dialect", "spark_from"]
    assert names[3:] == list(SETTINGS)
    with pytest.raises(BadRequest, match=r"Must be 'auto' or 'spark' or 'duckdb'"):
        target.sql("SET engine = 'fast'")
    with pytest.raises(BadRequest, match=r"did you mean engine\?.*The settings are engine"):
        target.sql("SET engin = 'spark'")


@only_on("lake", "memory")
def test_time_travel(orders):
    orders.sql("UPDATE t.dbo.orders SET name = 'changed'")
    version = orders.catalog.load_schema("dbo").load_table("orders").info().version
    now = orders.rows("SELECT DISTINCT name FROM t.dbo.orders")
    past = f"t.dbo.orders AS o AT (VERSION => {version - 1})"
    then = orders.rows(f"SELECT name FROM {past} ORDER BY o.id")
    assert (now, then) == ([("changed",)], [("a",), ("b",), (None,)])
    both = (
        "SELECT count(*) FROM t.dbo.orders n "
        f"JOIN t.dbo.orders old AT (VERSION => {version - 1}) "
        "ON n.id = old.id AND n.name IS DISTINCT FROM old.name"
    )
    assert orders.rows(both) == [(3,)]
    with pytest.raises(NotFound, match="version"):
        orders.rows("FROM t.dbo.orders AT (VERSION => 999999)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("VACUUM", "jetbridge optimize"),
        ("COPY t.dbo.orders TO 'x.csv'", "INSERT INTO"),
        ("CREATE VIEW t.dbo.v AS SELECT 1", "CREATE TABLE"),
        ("INSTALL httpfs", "is not supported"),
        ("CREATE TEMP TABLE x (a INT)", "WITH"),
        ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN"),
    ],
)
def test_what_is_not_supported_says_what_to_use(target, text, problem):
    with pytest.raises(NotSupported, match=problem):
        target.sql(text)


@pytest.mark.parametrize("text", ["", "SELEC 1", "SELECT 1;; FROM WHERE"])
def test_what_is_no_sql(target, text):
    with pytest.raises(BadRequest) as caught:
        target.sql(text)
    assert "\n" not in str(caught.value)


def test_nothing_runs_if_a_later_statement_is_no_sql(target):
    with pytest.raises(BadRequest):
        target.sql("CREATE TABLE t.dbo.never AS SELECT 1 AS a; SELEC 1")
    assert "never" not in target.tables()


def test_default_in_values_is_the_default_of_the_column(target):
    target.sql(
        "CREATE OR REPLACE TABLE t.dbo.d (a INTEGER, b VARCHAR DEFAULT 'q' || 'r', c DOUBLE)"
    )
    target.sql("INSERT INTO t.dbo.d VALUES (1, DEFAULT, 4), (2, 'DEFAULT', DEFAULT)")
    target.sql("INSERT INTO t.dbo.d (c, a) VALUES (DEFAULT, (1 + 2))")
    found = target.rows("FROM t.dbo.d ORDER BY a")
    assert found == [(1, "qr", 4.0), (2, "DEFAULT", None), (3, "qr", None)]


@pytest.mark.parametrize(
    "statement", ["INSERT INTO t.dbo.d (a, A) VALUES (1, 2)", "UPDATE t.dbo.d SET a = 1, A = 2"]
)
def test_a_column_is_set_once(target, statement):
    target.sql("CREATE OR REPLACE TABLE t.dbo.d (a INTEGER)")
    target.keyed("d", "a")
    with pytest.raises(BadRequest, match="set twice"):
        target.sql(statement)
