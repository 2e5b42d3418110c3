"""FR-001 to FR-021 and SC-001 to SC-013 of the CTAS document, by number, on every target.

What speaks of SQL Server alone (text types, brackets, drop_on_failure) comes with that target.
"""

import json

import pytest

from jetbridge.errors import AlreadyExists, BadRequest, NotFound
from tests.pipeline.targets import only_on


def test_fr_001_sc_001_one_row(target):
    target.sql("CREATE TABLE t.dbo.fr_001 AS SELECT 42 AS answer")
    assert target.columns("fr_001") == [("answer", "INTEGER", True)]
    assert target.rows("FROM t.dbo.fr_001") == [(42,)]


def test_fr_003_the_ddl_is_the_planned_schema(target):
    report = target.report("CREATE TABLE t.dbo.fr_003 AS SELECT 1 AS a, 'x' AS b, 2.5 AS c")
    assert report["ddl"] == (
        'CREATE TABLE "t"."dbo"."fr_003" ("a" INTEGER NOT NULL, "b" VARCHAR, '
        '"c" DECIMAL(2,1) NOT NULL)'
    )


def test_fr_004_the_table_is_seen_at_once(target):
    assert target.rows("CREATE TABLE t.dbo.fr_004 AS SELECT 1 AS a; FROM t.dbo.fr_004") == [(1,)]


def test_fr_006_a_create_that_fails_has_no_side_effects(target):
    before = target.tables()
    with pytest.raises(BadRequest, match="two columns called 'a'"):
        target.sql("CREATE TABLE t.dbo.fr_006 AS SELECT 1 AS a, 2 AS a")
    assert target.tables() == before


def test_fr_009_sc_008_the_schema_must_exist(target):
    with pytest.raises(NotFound, match="CREATE SCHEMA"):
        target.sql("CREATE TABLE t.none.x AS SELECT 1 AS a")


def test_fr_011_not_null_is_inferred(target):
    target.sql("CREATE TABLE t.dbo.fr_011_a (id INTEGER NOT NULL, n INTEGER)")
    target.sql("INSERT INTO t.dbo.fr_011_a VALUES (1, NULL), (2, 5)")
    target.sql(
        "CREATE TABLE t.dbo.fr_011 AS SELECT a.id, a.n, count(*) AS c, b.id AS outer_id, "
        "row_number() OVER () AS r FROM t.dbo.fr_011_a a LEFT JOIN t.dbo.fr_011_a b "
        "ON a.id = b.n GROUP BY ALL"
    )
    required = {name: needed for name, _, needed in target.columns("fr_011")}
    assert required == {"id": True, "n": False, "c": True, "outer_id": False, "r": True}


def test_fr_014_sc_009_an_existing_table_is_refused(target):
    target.sql("CREATE TABLE t.dbo.fr_014 AS SELECT 1 AS a")
    with pytest.raises(AlreadyExists):
        target.sql("CREATE TABLE t.dbo.fr_014 AS SELECT 1 AS a")


def test_if_not_exists_leaves_the_table_and_says_so(target):
    target.sql("CREATE TABLE t.dbo.kept AS SELECT 1 AS a")
    report = target.report("CREATE TABLE IF NOT EXISTS t.dbo.kept AS SELECT 2 AS a")
    assert "nothing was done" in report["note"]
    assert target.rows("FROM t.dbo.kept") == [(1,)]


def test_fr_015_sc_010_zero_rows(target):
    target.sql("CREATE TABLE t.dbo.fr_015 AS SELECT i AS a FROM range(0) r(i)")
    assert target.columns("fr_015") == [("a", "BIGINT", False)]
    assert target.rows("SELECT count(*) FROM t.dbo.fr_015") == [(0,)]


def test_fr_016_no_keys_and_no_checks(target):
    target.sql("CREATE TABLE t.dbo.fr_016_a (id INTEGER PRIMARY KEY, CHECK (id > 0))")
    target.sql("CREATE TABLE t.dbo.fr_016 AS FROM t.dbo.fr_016_a")
    info = target.catalog.load_schema("dbo").load_table("fr_016").info()
    assert (info.keys, info.checks) == ((), ())


def test_fr_018_sc_011_or_replace(target):
    target.sql("CREATE TABLE t.dbo.fr_018 AS SELECT 1 AS a")
    target.sql("CREATE OR REPLACE TABLE t.dbo.fr_018 AS SELECT 'x' AS b, 2 AS c")
    assert target.rows("FROM t.dbo.fr_018") == [("x", 2)]


def test_fr_019_sc_012_or_replace_of_nothing(target):
    target.sql("CREATE OR REPLACE TABLE t.dbo.fr_019 AS SELECT 1 AS a")
    assert target.rows("FROM t.dbo.fr_019") == [(1,)]


@only_on("lake")
def test_fr_020_on_the_lake_or_replace_is_atomic_and_history_stays(target):
    target.sql("CREATE TABLE t.dbo.fr_020 AS SELECT 1 AS a")
    target.sql("CREATE OR REPLACE TABLE t.dbo.fr_020 AS SELECT 'x' AS b")
    assert target.rows("FROM t.dbo.fr_020 AT (VERSION => 1)") == [(1,)]
    assert target.rows("FROM t.dbo.fr_020") == [("x",)]


def test_fr_021_sc_013_the_report_tells_rows_bytes_and_seconds(target):
    report = target.report("CREATE TABLE t.dbo.fr_021 AS SELECT i AS a FROM range(1000) r(i)")
    assert report["rows_produced"] == report["rows_written"] == 1000
    assert report["bytes"] > 0
    assert set(json.loads(report["seconds"])) >= {"plan", "load"}
    assert report["engine"] == "duckdb"
    assert report["reason"]


def test_a_query_over_its_own_target_is_read_before_it_is_replaced(target):
    target.sql("CREATE TABLE t.dbo.self AS SELECT i AS a FROM range(10) r(i)")
    target.sql(
        "CREATE OR REPLACE TABLE t.dbo.self AS SELECT a + 1 AS a FROM t.dbo.self WHERE a < 5"
    )
    assert sorted(target.rows("FROM t.dbo.self")) == [(1,), (2,), (3,), (4,), (5,)]


def test_what_is_random_is_evaluated_once(target):
    report = target.report(
        "CREATE TABLE t.dbo.random AS SELECT random() AS r, uuid() AS u FROM range(1000)"
    )
    assert report["rows_written"] == 1000
    assert target.rows("SELECT count(DISTINCT u) FROM t.dbo.random") == [(1000,)]
