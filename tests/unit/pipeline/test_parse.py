"""Statements by their first words; what follows stays as it was written."""

import pytest

from jetbridge.catalog import OnConflict, RenameTable
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.parsing.parse import parse
from jetbridge.pipeline.parsing.statements import (
    AddDeclaredColumn,
    AlterTable,
    Attach,
    ChangeColumnType,
    CreateSchema,
    CreateSecret,
    CreateTableAs,
    CreateTableStatement,
    Describe,
    Detach,
    DmlKind,
    Drop,
    DropSecret,
    Explain,
    Insert,
    Load,
    MatchCase,
    MergeStatement,
    ObjectName,
    Query,
    SetLayout,
    SetValue,
    Show,
    TransactionCommand,
    TransactionStatement,
    UpdateOrDelete,
    Use,
    ValuesList,
    WhenClause,
)

T = ObjectName("t", "s", "lake")
REPLACE, IGNORE = OnConflict.REPLACE, OnConflict.IGNORE

CASES = [
    ("/* x */ SELECT 1 -- one", Query("SELECT 1")),
    ("WITH q AS (SELECT 1) FROM q", Query("WITH q AS (SELECT 1) FROM q")),
    ("VALUES (1, 'a;b')", Query("VALUES (1, 'a;b')")),
    ("CREATE TABLE lake.s.t AS SELECT 1", CreateTableAs(T, "SELECT 1")),
    ("create or replace table lake.s.t as from x", CreateTableAs(T, "from x", REPLACE)),
    ("CREATE TABLE IF NOT EXISTS lake.s.t AS (SELECT 1)", CreateTableAs(T, "(SELECT 1)", IGNORE)),
    (
        "CREATE TABLE lake.s.t (a, b) AS VALUES (1, 2)",
        CreateTableAs(T, "VALUES (1, 2)", columns=("a", "b")),
    ),
    (
        'CREATE TABLE "My lake"."s.x"."a""b" AS SELECT 1',
        CreateTableAs(ObjectName('a"b', "s.x", "My lake"), "SELECT 1"),
    ),
    ("CREATE TABLE t AS SELECT 1", CreateTableAs(ObjectName("t"), "SELECT 1")),
    ("CREATE TABLE lake.s.t (a INT)", CreateTableStatement(T, "(a INT)")),
    ("INSERT INTO lake.s.t SELECT 1", Insert(T, "SELECT 1")),
    ("INSERT INTO lake.s.t (a, b) VALUES (1, 2)", Insert(T, "VALUES (1, 2)", ("a", "b"))),
    ("INSERT INTO lake.s.t BY NAME FROM x", Insert(T, "FROM x", by_name=True)),
    ("INSERT INTO lake.s.t (SELECT 1)", Insert(T, "(SELECT 1)")),
    (
        "INSERT INTO lake.s.t VALUES ('RETURNING') RETURNING a, b",
        Insert(T, "VALUES ('RETURNING')", returning=("a", "b")),
    ),
    (
        "INSERT INTO lake.s.t VALUES (' on conflict do')",
        Insert(T, "VALUES (' on conflict do')"),
    ),
    (
        "INSERT INTO lake.s.t VALUES (1, DEFAULT) LIMIT 1",
        Insert(
            T,
            "VALUES (1, DEFAULT) LIMIT 1",
            values=ValuesList((("1", "DEFAULT"),), "LIMIT 1"),
        ),
    ),
    (
        "UPDATE t SET a = 1",
        UpdateOrDelete(DmlKind.UPDATE, ObjectName("t"), "t", (("a", "1"),)),
    ),
    (
        "WITH q AS (SELECT 1 AS i) UPDATE lake.s.t AS x SET a = b + 1, c = CASE WHEN d THEN 2 END "
        "FROM q, u WHERE x.i = q.i RETURNING a, c",
        UpdateOrDelete(
            DmlKind.UPDATE,
            T,
            "x",
            (("a", "b + 1"), ("c", "CASE WHEN d THEN 2 END")),
            "WITH q AS (SELECT 1 AS i)",
            "q, u",
            "x.i = q.i",
            ("a", "c"),
        ),
    ),
    ("DELETE FROM t", UpdateOrDelete(DmlKind.DELETE, ObjectName("t"), "t")),
    ("TRUNCATE lake.s.t", UpdateOrDelete(DmlKind.DELETE, T, "t")),
    (
        "DELETE FROM lake.s.t USING u WHERE t.a = u.a",
        UpdateOrDelete(DmlKind.DELETE, T, "t", from_="u", where="t.a = u.a"),
    ),
    (
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
        MergeStatement(
            "",
            ObjectName("t"),
            "t",
            "FROM u",
            "u",
            "t.a = u.a",
            (),
            (WhenClause(MatchCase.MATCHED, "", "DELETE"),),
            (),
        ),
    ),
    ("CREATE SCHEMA lake.s", CreateSchema(ObjectName("s", "lake"))),
    ("CREATE SCHEMA IF NOT EXISTS s", CreateSchema(ObjectName("s"), IGNORE)),
    ("DROP TABLE IF EXISTS lake.s.t", Drop("table", T, if_exists=True)),
    ("DROP SCHEMA lake.s CASCADE", Drop("schema", ObjectName("s", "lake"), cascade=True)),
    ("ALTER TABLE lake.s.t RENAME TO u", AlterTable(T, RenameTable("u"))),
    (
        "ALTER TABLE IF EXISTS t ADD COLUMN b INT",
        AlterTable(ObjectName("t"), AddDeclaredColumn(("b",), "INT"), if_exists=True),
    ),
    (
        "ALTER TABLE lake.s.t ADD COLUMN IF NOT EXISTS b.c INT DEFAULT 1",
        AlterTable(T, AddDeclaredColumn(("b", "c"), "INT DEFAULT 1", if_not_exists=True)),
    ),
    (
        "ALTER TABLE lake.s.t ALTER COLUMN b TYPE INT USING b + 1",
        AlterTable(T, ChangeColumnType("b", "INT", "b + 1")),
    ),
    (
        "ALTER TABLE lake.s.t SET PARTITIONED BY (day(ts))",
        AlterTable(T, SetLayout(partition_by="day(ts)")),
    ),
    ("ALTER TABLE lake.s.t RESET SORTED BY", AlterTable(T, SetLayout(sort_by=""))),
    ("BEGIN", TransactionStatement(TransactionCommand.BEGIN)),
    ("START TRANSACTION", TransactionStatement(TransactionCommand.BEGIN)),
    ("COMMIT", TransactionStatement(TransactionCommand.COMMIT)),
    ("ABORT", TransactionStatement(TransactionCommand.ROLLBACK)),
    ("ATTACH './o' AS o (TYPE lake)", Attach("./o", "o", {"type": "lake"})),
    ("ATTACH IF NOT EXISTS 'x' AS o", Attach("x", "o", on_conflict=IGNORE)),
    ("ATTACH OR REPLACE 'x' AS o", Attach("x", "o", on_conflict=REPLACE)),
    (
        "ATTACH '' AS m (TYPE mssql, SECRET s, READ_ONLY)",
        Attach("", "m", {"type": "mssql", "secret": "s", "read_only": "true"}),
    ),
    ("DETACH o", Detach("o")),
    ("INSTALL mssql FROM community", Load("INSTALL", "mssql")),
    ("FORCE INSTALL 'mssql'", Load("INSTALL", "mssql")),
    ("load MSSQL", Load("LOAD", "mssql")),
    ("LOAD airport", Load("LOAD", "airport")),
    (
        "CREATE SECRET s (TYPE mssql, HOST 'db', PORT 1433, ENCRYPT no, PASSWORD 'a, b)')",
        CreateSecret(
            "s",
            {"type": "mssql", "host": "db", "port": "1433", "encrypt": "no", "password": "a, b)"},
        ),
    ),
    (
        "create or replace secret (type mssql)",
        CreateSecret("__default_mssql", {"type": "mssql"}, REPLACE),
    ),
    (
        "CREATE TEMPORARY SECRET IF NOT EXISTS s (TYPE mssql)",
        CreateSecret("s", {"type": "mssql"}, IGNORE),
    ),
    ("DROP SECRET s", DropSecret("s")),
    ("DROP SECRET IF EXISTS s", DropSecret("s", if_exists=True)),
    ("USE lake.s", Use(ObjectName("s", "lake"))),
    ("SET mssql_ctas_text_type = 'VARCHAR'", SetValue("mssql_ctas_text_type", "VARCHAR")),
    ("SET mssql_insert_batch_size TO 10", SetValue("mssql_insert_batch_size", "10")),
    ("RESET mssql_ctas_text_type", SetValue("mssql_ctas_text_type", None)),
    ("SHOW TABLES", Show("tables")),
    ("SHOW ALL TABLES", Show("all tables")),
    ("SHOW DATABASES", Show("databases")),
    ("SHOW mssql_ctas_text_type", Show("mssql_ctas_text_type")),
    ("DESCRIBE lake.s.t", Describe(T)),
    ("DESCRIBE SELECT 1", Describe("SELECT 1")),
    ("EXPLAIN CREATE TABLE lake.s.t AS SELECT 1", Explain(CreateTableAs(T, "SELECT 1"))),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_statement_is_understood(text, expected):
    assert parse(text) == [expected]
    assert parse(f"{text};") == [expected]


def test_statements_are_cut_where_duckdb_cuts_them():
    text = "SELECT ';' AS a; -- one; two\nSELECT $$;$$; ;"
    assert parse(text) == [Query("SELECT ';' AS a"), Query("SELECT $$;$$")]
    assert parse(" ;; ") == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELEC 1", 'syntax error at or near "SELEC" at LINE 1: SELEC 1'),
        ("SELECT (1", "syntax error at end of input"),
        ("CREATE TABLE a.b.c.d AS SELECT 1", "Parser Error"),
        ("DROP TABLE a.b.c.d", "Parser Error|too many parts"),
        ("ATTACH 'x'", "needs a name"),
        (
            "MERGE INTO t USING u USING (a) WHEN MATCHED THEN DO NOTHING",
            "a WHEN clause that changes rows",
        ),
        (
            "MERGE INTO t USING u USING (a) WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
            "names 2 columns and has 1 values",
        ),
    ],
)
def test_what_is_no_statement_is_refused(text, problem):
    with pytest.raises(BadRequest, match=problem) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("COPY t TO 'x'", "INSERT INTO"),
        ("CREATE VIEW v AS SELECT 1", "CREATE TABLE ... AS SELECT"),
        ("CREATE TEMP TABLE t AS SELECT 1", "WITH in the query"),
        ("CREATE INDEX i ON t (a)", "SET SORTED BY"),
        ("CREATE TABLE t AS SELECT 1 WITH NO DATA", "LIMIT 0"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "MERGE INTO"),
        ("INSERT INTO t VALUES (1) ON /* that */ CONFLICT DO NOTHING", "MERGE INTO"),
        ("INSERT INTO t DEFAULT VALUES", "name a column"),
        ("EXPLAIN ANALYZE SELECT 1", "use EXPLAIN"),
        ("EXPLAIN DROP TABLE t", "EXPLAIN supports queries"),
        ("UPDATE t SET (a, b) = (1, 2)", "write SET a = ..., b = ..."),
        ("MERGE INTO t USING f(1) ON true WHEN MATCHED THEN DELETE", "write USING"),
        ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u (b))", "foreign keys"),
        ("CREATE OR REPLACE SCHEMA s", "use DROP SCHEMA first"),
        ("VACUUM", "jetbridge optimize"),
        ("CALL x()", "SELECT"),
        ("LOAD 'x'", "cannot be loaded"),
        ("LOAD httpfs", "cannot be loaded"),
        ("INSTALL httpfs", "INSTALL is not supported"),
        ("DROP VIEW v", "CREATE TABLE"),
        ("CHECKPOINT", "CHECKPOINT is not supported"),
        ("CREATE PERSISTENT SECRET s (TYPE mssql)", "lasts until the session ends"),
        ("CREATE SECRET s IN local_file (TYPE mssql)", "lasts until the session ends"),
        ("DROP SECRET s FROM local_file", "lasts until the session ends"),
    ],
)
def test_what_is_not_done_is_one_sentence_with_another_way(text, instead):
    with pytest.raises(NotSupported, match=instead):
        parse(text)
