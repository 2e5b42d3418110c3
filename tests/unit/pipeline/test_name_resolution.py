"""Names that say less than everything, and catalogs that are attached to be read only."""

import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.errors import BadRequest, FailedPrecondition, NotFound
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import AttachSupport, Session, SessionResources


class CatalogWithDbo(MemoryCatalog):
    """Tables in memory, with the default schema of SQL Server."""

    def default_schema(self):
        return "dbo"


@pytest.fixture
def session():
    """`m` has a schema `dbo` and no `main`, as databases of SQL Server have."""
    catalogs = {"memory": MemoryCatalog(), "m": CatalogWithDbo()}
    opened = Session(catalogs, SessionResources(attach=AttachSupport(lambda *_: MemoryCatalog())))
    rows(opened, "CREATE SCHEMA m.dbo; CREATE SCHEMA m.s; CREATE TABLE m.dbo.t AS SELECT 1 AS a")
    yield opened
    opened.close()


def rows(session, text):
    """Of the last statement."""
    return [outcome.table().to_pylist() for outcome in run(session, text)][-1]


@pytest.mark.parametrize(
    "text",
    [
        "FROM m.t",
        "USE m; FROM t",
        "USE m; FROM m.t",
        "USE m; WITH q AS (FROM t) FROM q",
        "SELECT a FROM m.t WHERE a = 1",
        "SELECT t.a FROM m.t JOIN m.dbo.t u ON t.a = u.a",
    ],
)
def test_without_main_a_name_without_a_schema_is_in_dbo(session, text):
    assert rows(session, text) == [{"a": 1}]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE m.x AS SELECT 1 AS a",
        "USE m; CREATE TABLE x AS SELECT 1 AS a",
        "CREATE TABLE m.x (a INT); INSERT INTO m.x VALUES (1)",
        "CREATE TABLE m.y AS SELECT 1 AS a; ALTER TABLE m.y RENAME TO x",
        "CREATE TABLE m.x AS SELECT 0 AS a; UPDATE m.x SET a = 1",
    ],
)
def test_tables_are_made_and_changed_there(session, text):
    rows(session, text)
    assert rows(session, "FROM m.dbo.x") == [{"a": 1}]


def test_reports_and_messages_name_the_schema(session):
    report = rows(session, "CREATE TABLE m.x AS SELECT 1 AS a")[0]
    assert report["target"] == "m.dbo.x"
    assert '"m"."dbo"."x"' in report["ddl"]
    assert {"what": "reads", "text": "m.dbo.t"} in rows(session, "EXPLAIN FROM m.t")
    with pytest.raises(NotFound, match=r"'m\.dbo\.nope'"):
        rows(session, "FROM m.nope")
    with pytest.raises(NotFound, match=r"'m\.dbo\.nope'"):
        rows(session, "DROP TABLE m.nope")


def test_show_tables_and_describe_look_there(session):
    assert rows(session, "USE m; SHOW TABLES") == [{"name": "t"}]
    assert rows(session, "USE m; DESCRIBE t")[0]["column_name"] == "a"


def test_a_schema_that_is_named_must_exist(session):
    for name in ("m.main", "m.nope"):
        with pytest.raises(NotFound, match=rf"schema '{name}' does not exist"):
            rows(session, f"CREATE TABLE {name}.x AS SELECT 1 AS a")
        with pytest.raises(NotFound):
            rows(session, f"FROM {name}.t")


def test_catalog_and_table_are_in_the_schema_in_use_as_in_duckdb(session):
    made = "USE m.s; CREATE TABLE m.t AS SELECT 3 AS a; FROM m.t"
    assert rows(session, made) == rows(session, "FROM m.s.t") == [{"a": 3}]
    assert rows(session, "USE memory; FROM m.t") == [{"a": 1}]


def test_where_there_is_a_main_it_is_meant(session):
    rows(session, "CREATE SCHEMA m.main; CREATE TABLE m.t AS SELECT 2 AS a")
    assert rows(session, "FROM m.main.t") == [{"a": 2}]
    assert rows(session, "FROM m.t") == [{"a": 2}]
    assert rows(session, "FROM m.dbo.t") == [{"a": 1}]


def test_what_a_transaction_has_written_is_not_read_by_a_shorter_name(session):
    with pytest.raises(FailedPrecondition, match="COMMIT, then read it"):
        rows(session, "BEGIN; INSERT INTO m.dbo.t VALUES (2); FROM m.t")
    rows(session, "ROLLBACK")


def test_table_that_a_transaction_makes_is_read_in_it(session):
    made = "CREATE SCHEMA memory.main; BEGIN; CREATE TABLE x (a INT); FROM x"
    assert rows(session, made) == []
    assert rows(session, "ROLLBACK; USE m; BEGIN; CREATE TABLE x (a INT); FROM x") == []


READ_ONLY = [
    "CREATE TABLE r.s.x AS SELECT 1 AS a",
    "CREATE TABLE IF NOT EXISTS r.s.t AS SELECT 1 AS a",
    "CREATE TABLE r.s.x (a INT)",
    "CREATE SCHEMA r.x",
    "DROP SCHEMA r.s CASCADE",
    "DROP TABLE r.s.t",
    "ALTER TABLE r.s.t RENAME TO u",
    "INSERT INTO R.s.t VALUES (2)",
    "EXPLAIN INSERT INTO R.s.t VALUES (2)",
    "EXPLAIN CREATE TABLE r.s.x AS SELECT 1 AS a",
    "UPDATE r.s.t SET a = 2",
    "DELETE FROM r.s.t",
    "USE r.s; TRUNCATE t",
]


def filled(*_):
    made = MemoryCatalog()
    session = Session({"r": made})
    rows(session, "CREATE SCHEMA r.s; CREATE TABLE r.s.t AS SELECT 1 AS a")
    session.close()
    return made


@pytest.fixture
def reading():
    opened = Session({"memory": MemoryCatalog()}, SessionResources(attach=AttachSupport(filled)))
    rows(opened, "ATTACH 'x' AS r (READ_ONLY); CREATE SCHEMA memory.s")
    yield opened
    opened.close()


@pytest.mark.parametrize("text", READ_ONLY)
def test_catalog_that_is_attached_read_only_is_not_written(reading, text):
    with pytest.raises(FailedPrecondition, match="'r' is attached READ_ONLY; DETACH it"):
        rows(reading, text)
    assert rows(reading, "FROM r.s.t") == [{"a": 1}]


def test_it_is_read_and_others_are_written(reading):
    rows(reading, "USE r.s; CREATE TABLE memory.s.x AS FROM t; EXPLAIN FROM t")
    rows(reading, "BEGIN; INSERT INTO memory.s.x FROM r.s.t; COMMIT")
    assert rows(reading, "FROM memory.s.x") == [{"a": 1}, {"a": 1}]


def test_attached_again_it_is_written(reading):
    rows(reading, "DETACH r; ATTACH 'x' AS r (READ_ONLY false); INSERT INTO r.s.t VALUES (2)")
    rows(reading, "ATTACH OR REPLACE 'x' AS R (READ_ONLY)")
    with pytest.raises(FailedPrecondition, match="READ_ONLY"):
        rows(reading, "INSERT INTO r.s.t VALUES (2)")


def test_read_only_is_a_truth_value(reading):
    with pytest.raises(BadRequest, match="Must be true or false"):
        rows(reading, "ATTACH 'x' AS o (READ_ONLY perhaps)")


@pytest.mark.parametrize("option", ["READ_WRITE false", "READONLY", "READ_ONLY, READ_WRITE false"])
def test_other_words_for_read_only(reading, option):
    rows(reading, f"ATTACH 'x' AS o ({option})")
    with pytest.raises(FailedPrecondition, match="READ_ONLY"):
        rows(reading, "INSERT INTO o.s.t VALUES (2)")


def test_if_not_exists_gives_no_more_than_was_asked_for(reading):
    rows(reading, "ATTACH IF NOT EXISTS 'x' AS r (READ_ONLY); ATTACH IF NOT EXISTS 'x' AS R")
    with pytest.raises(BadRequest, match="already a catalog 'memory', and it is not READ_ONLY"):
        rows(reading, "ATTACH IF NOT EXISTS 'x' AS memory (READ_ONLY)")


@pytest.mark.parametrize("text", ["DETACH r", "ATTACH OR REPLACE 'x' AS r"])
def test_a_catalog_stays_until_the_transaction_ends(reading, text):
    rows(reading, "BEGIN; FROM r.s.t")
    with pytest.raises(FailedPrecondition, match="'r' may have been read in this transaction"):
        rows(reading, text)
    rows(reading, "ROLLBACK; DETACH r")


def test_or_replace_attaches_another_catalog_at_the_same_place(reading):
    rows(reading, "ATTACH 'x' AS o; USE o.s; INSERT INTO t VALUES (2)")
    assert len(rows(reading, "FROM t")) == 2
    assert rows(reading, "ATTACH OR REPLACE 'x' AS O; FROM t") == [{"a": 1}]
    attached = [row["database_name"] for row in rows(reading, "SHOW DATABASES")]
    assert attached == ["O", "memory", "r"]


def test_what_is_there_is_replaced_only_if_attach_made_it(reading):
    for text in ("ATTACH 'x' AS r", "ATTACH OR REPLACE 'x' AS memory"):
        with pytest.raises(BadRequest, match="there is already a catalog"):
            rows(reading, text)
    rows(reading, "ATTACH IF NOT EXISTS 'x' AS r")
