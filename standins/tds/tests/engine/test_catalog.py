"""How the catalog of the engine tells what is defined."""

import time
from collections.abc import Iterator

import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.tests.engine.calls import (
    TABLE,
    answers,
    connected,
    engine_of_a_module,
    fresh,
    numbers,
    refused,
    rows,
    run,
    value,
)
from standins.tds.values import Batches, Rows, SqlError

engine = pytest.fixture(scope="module")(engine_of_a_module)
# What Microsoft's driver sends before a bulk load (recording 06b).
BULK_METADATA = """SELECT @@TRANCOUNT;

DECLARE @Column_Names NVARCHAR(MAX) = NULL;
DECLARE @object_id INT = OBJECT_ID(N'[{0}].[{1}]');
DECLARE @sql NVARCHAR(MAX);
SET @sql = N'SELECT @CN = COALESCE(@CN + N'', '', N'''') + QUOTENAME([name])\
 FROM sys.all_columns WHERE [object_id] = @ObjId';
IF EXISTS (SELECT TOP 1 * FROM sys.all_columns\
 WHERE [object_id] = OBJECT_ID('sys.all_columns') AND [name] = 'graph_type')
    SET @sql = @sql + N' AND COALESCE([graph_type], 0) NOT IN (1, 3, 4, 6, 7)';
SET @sql = @sql + N' ORDER BY [column_id] ASC';
EXEC sp_executesql @sql, N'@CN NVARCHAR(MAX) OUTPUT, @ObjId INT',\
 @CN = @Column_Names OUTPUT, @ObjId = @object_id;

SELECT @Column_Names = COALESCE(@Column_Names, '*');

SET FMTONLY ON;
EXEC(N'SELECT ' + @Column_Names + N' FROM [{0}].[{1}]');
SET FMTONLY OFF;

EXEC sp_tablecollations_100 N'[{0}].[{1}]';"""


@pytest.fixture
def session(engine: DuckEngine) -> Iterator[DuckSession]:
    made = connected(engine, fresh(engine))
    run(made, "CREATE SCHEMA app")
    run(made, TABLE)
    yield made
    made.close()


def test_columns(session):
    found = rows(
        session,
        "SELECT c.column_id, c.name, ty.name, c.max_length, c.precision, c.scale, c.is_nullable,"
        " c.is_identity, c.collation_name FROM sys.columns c JOIN sys.types ty ON ty.user_type_id ="
        " c.user_type_id WHERE c.object_id = OBJECT_ID('app.t') ORDER BY c.column_id",
    )
    default = "SQL_Latin1_General_CP1_CI_AS"
    assert found == [
        (1, "id", "int", 4, 10, 0, False, True, None),
        (2, "a", "nvarchar", 100, 0, 0, True, False, default),
        (3, "b", "decimal", 9, 18, 4, False, False, None),
        (4, "c", "datetime2", 8, 27, 7, True, False, None),
        (5, "d", "varchar", -1, 0, 0, True, False, "Latin1_General_BIN2"),
    ]


def test_information_schema(session):
    found = rows(
        session,
        "SELECT COLUMN_NAME, ORDINAL_POSITION, DATA_TYPE, IS_NULLABLE, CHARACTER_MAXIMUM_LENGTH,"
        " NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, COLUMN_DEFAULT FROM"
        " INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = 'app' AND TABLE_NAME = 'T'"
        " ORDER BY ORDINAL_POSITION",
    )
    assert found == [
        ("id", 1, "int", "NO", None, 10, 0, None, None),
        ("a", 2, "nvarchar", "YES", 50, None, None, None, None),
        ("b", 3, "decimal", "NO", None, 18, 4, None, "((0))"),
        ("c", 4, "datetime2", "YES", None, None, None, 7, None),
        ("d", 5, "varchar", "YES", -1, None, None, None, None),
    ]
    assert rows(
        session, "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES"
    ) == [("app", "t", "BASE TABLE")]
    assert rows(
        session,
        "SELECT k.COLUMN_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS c JOIN"
        " INFORMATION_SCHEMA.KEY_COLUMN_USAGE k ON k.CONSTRAINT_NAME = c.CONSTRAINT_NAME"
        " WHERE c.CONSTRAINT_TYPE = 'PRIMARY KEY'",
    ) == [("id",)]  # fmt: skip
    assert ("app",) in rows(session, "SELECT SCHEMA_NAME FROM INFORMATION_SCHEMA.SCHEMATA")


def test_keys_and_constraints(session):
    run(session, "CREATE UNIQUE INDEX ux ON app.t (c) INCLUDE (d); CREATE TABLE heap (x int)")
    found = rows(
        session,
        "SELECT i.name, i.type_desc, i.is_primary_key, i.is_unique, i.is_unique_constraint FROM"
        " sys.indexes i WHERE i.object_id IN (OBJECT_ID('app.t'), OBJECT_ID('heap'))"
        " ORDER BY i.name",
    )
    assert found == [
        (None, "HEAP", False, False, False),
        ("pk_t", "CLUSTERED", True, True, False),
        ("uq_a", "NONCLUSTERED", False, True, True),
        ("ux", "NONCLUSTERED", False, True, False),
    ]
    assert rows(
        session,
        "SELECT COL_NAME, key_ordinal, is_descending_key FROM (SELECT c.name AS COL_NAME, ic.* FROM"
        " sys.index_columns ic JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id ="
        " ic.column_id JOIN sys.indexes i ON i.object_id = ic.object_id AND i.index_id ="
        " ic.index_id"
        " WHERE i.name = 'uq_a') q ORDER BY key_ordinal",
    ) == [("a", 1, False), ("b", 2, True)]  # fmt: skip
    assert rows(session, "SELECT name, definition FROM sys.check_constraints") == [
        ("ck_b", "([b]>=(0))")
    ]
    assert rows(session, "SELECT name, definition FROM sys.default_constraints") == [
        ("df_b", "((0))")
    ]
    assert rows(session, "SELECT name, type FROM sys.key_constraints ORDER BY name") == [
        ("pk_t", "PK"),
        ("uq_a", "UQ"),
    ]
    assert rows(session, "SELECT seed_value, increment_value FROM sys.identity_columns") == [(1, 1)]
    assert sorted(rows(session, "SELECT name, type FROM sys.objects")) == [
        ("ck_b", "C "), ("df_b", "D "), ("heap", "U "), ("pk_t", "PK"), ("t", "U "), ("uq_a", "UQ"),
    ]  # fmt: skip


def test_definitions_are_written_as_sql_server_does(session):
    run(
        session,
        "CREATE TABLE w (a int DEFAULT -1, b nvarchar(9) DEFAULT N'it''s', c datetime DEFAULT"
        " GETDATE(), d int DEFAULT (NULL), CONSTRAINT ck CHECK (a > 0 AND (b LIKE 'x%' OR NOT b IS"
        " NULL) AND d IN (1, 2) AND LEN(b) BETWEEN 1 AND 5))",
    )
    here = "WHERE parent_object_id = OBJECT_ID('w')"
    found = rows(
        session, f"SELECT definition FROM sys.default_constraints {here} ORDER BY parent_column_id"
    )
    assert [row[0] for row in found] == ["((-1))", "(N'it''s')", "(getdate())", "(NULL)"]
    assert value(session, f"SELECT definition FROM sys.check_constraints {here}") == (
        "([a]>(0) AND ([b] like 'x%' OR [b] IS NOT NULL) AND ([d]=(2) OR [d]=(1)) AND"
        " len([b])>=(1) AND len([b])<=(5))"
    )


def test_changes_of_a_table_are_dated(session):
    text = "SELECT MAX(modify_date) FROM sys.objects WHERE name = 't'"
    before = value(session, text)
    while value(session, "SELECT GETDATE()") <= before:
        time.sleep(0.001)  # until the clock of the server goes on
    run(session, "ALTER TABLE app.t ADD later int NULL")
    assert value(session, text) > before
    assert value(session, "SELECT create_date FROM sys.tables WHERE name = 't'") <= before


def test_foreign_keys_are_listed(session):
    run(
        session,
        "CREATE TABLE child (id int, pid int, CONSTRAINT fk FOREIGN KEY (pid) REFERENCES"
        " app.t (id))",
    )
    assert rows(
        session,
        "SELECT f.name, OBJECT_NAME(f.parent_object_id), OBJECT_NAME(f.referenced_object_id)"
        " FROM sys.foreign_keys f",
    ) == [("fk", "child", "t")]  # fmt: skip


def test_rows_are_counted(session):
    run(session, "INSERT INTO app.t (a, b) VALUES (N'x', 1), (N'y', 2)")
    for name, column in (("partitions", "rows"), ("dm_db_partition_stats", "row_count")):
        here = "object_id = OBJECT_ID('app.t') AND index_id IN (0, 1)"
        text = f"SELECT SUM({column}) FROM sys.{name} WHERE {here}"
        assert value(session, text) == 2


def test_functions_of_the_catalog(session):
    (found,) = rows(
        session,
        "SELECT OBJECT_ID(N'app.t', N'U'), OBJECT_ID('[app].[t]'), OBJECT_ID('app.t',"
        " 'V'), OBJECT_ID('nosuch'),"
        " SCHEMA_ID('app'), SCHEMA_NAME(1), COL_LENGTH('app.t', 'a'),"
        " COLUMNPROPERTY(OBJECT_ID('app.t'), 'id', 'IsIdentity'),"
        " OBJECTPROPERTY(OBJECT_ID('app.t'), 'TableHasPrimaryKey'), TYPE_NAME(56),"
        " OBJECT_NAME(OBJECT_ID('app.t')), OBJECT_ID('pk_t')",
    )
    number = value(session, "SELECT object_id FROM sys.tables")
    assert found[:4] == (number, number, None, None)
    assert found[4] > 4
    assert found[5:11] == ("dbo", 100, 1, 1, "int", "t")
    assert found[11] is not None


def test_functions_of_the_server(session):
    (found,) = rows(
        session,
        "SELECT DB_NAME(), DB_NAME(1), DB_ID('nosuch'), SUSER_SNAME(), USER_NAME(),"
        " SERVERPROPERTY('ProductMajorVersion'),"
        " DATABASEPROPERTYEX('master', 'Collation'), HAS_PERMS_BY_NAME(NULL, 'DATABASE',"
        " 'CREATE TABLE'), LEFT(@@VERSION, 20), @@SPID",
    )
    assert found == (
        session.database, "master", None, "sa", "dbo", "16", "SQL_Latin1_General_CP1_CI_AS", 1,
        "Microsoft SQL Server", session.spid,
    )  # fmt: skip


def test_databases(session):
    run(session, f"ALTER DATABASE [{session.database}] SET ALLOW_SNAPSHOT_ISOLATION ON")
    assert rows(
        session,
        "SELECT snapshot_isolation_state, is_read_committed_snapshot_on, collation_name FROM"
        " sys.databases WHERE name = DB_NAME()",
    ) == [(1, False, "SQL_Latin1_General_CP1_CI_AS")]  # fmt: skip
    run(
        session,
        "CREATE DATABASE made_here; CREATE TABLE made_here.dbo.t (id int); DROP DATABASE made_here",
    )
    assert value(session, "SELECT COUNT(*) FROM sys.databases WHERE name = 'made_here'") == 0
    assert refused(session, "SELECT * FROM made_here.dbo.t").number == 208


def test_views_are_listed_with_their_columns(session):
    run(session, "CREATE VIEW app.v AS SELECT a, b * 2 AS twice FROM app.t")
    assert rows(session, "SELECT name FROM sys.views") == [("v",)]
    assert rows(session, "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('app.v')"
                         " ORDER BY column_id") == [
        ("a",), ("twice",),
    ]  # fmt: skip
    assert value(session, "SELECT definition FROM sys.sql_modules").startswith(
        "CREATE VIEW app.v AS"
    )
    run(session, "CREATE OR ALTER VIEW app.v AS SELECT 1 AS one")
    assert rows(session, "SELECT * FROM app.v") == [(1,)]
    run(session, "DROP VIEW app.v")
    assert refused(session, "SELECT * FROM app.v").number == 208


def test_the_metadata_that_a_bulk_load_asks_for(session):
    """Three result sets: the count, the table's columns without rows, the collations."""
    sets = [
        each
        for each in session.run(BULK_METADATA.format("app", "t"))
        if isinstance(each, Batches | Rows)
    ]
    assert len(sets) == 3
    names = [[column.name for column in each.columns] for each in sets]
    assert names == [
        [""],
        ["id", "a", "b", "c", "d"],
        ["colid", "name", "tds_collation", "collation"],
    ]
    assert [(each.identity, each.nullable) for each in sets[1].columns] == [
        (True, False), (False, True), (False, False), (False, True), (False, True),
    ]  # fmt: skip
    assert isinstance(sets[2], Rows)
    assert list(sets[2].rows)[1] == (
        2,
        "a",
        bytes.fromhex("0904d00034"),
        "SQL_Latin1_General_CP1_CI_AS",
    )


def test_the_metadata_of_no_table_is_208(session):
    assert numbers(answers(session, BULK_METADATA.format("dbo", "nosuch"))) == [208]


def test_parameters_are_described(session):
    found = session.describe_parameters(
        "UPDATE app.t SET b = @P1 WHERE id = @P2 AND a LIKE 'x' AND c > @P3"
    )
    assert [(row[1], row[3]) for row in found.rows] == [
        ("@P1", "decimal(18,4)"), ("@P2", "int"), ("@P3", "datetime2(7)"),
    ]  # fmt: skip
    assert len(found.columns) == 24
    found = session.describe_parameters("INSERT INTO app.t (a, b) VALUES (@P1, @P2)")
    assert [row[3] for row in found.rows] == ["nvarchar(50)", "decimal(18,4)"]
    with pytest.raises(SqlError):
        session.describe_parameters("SELECT @P1")


def test_procedures_of_the_catalog(session):
    assert [
        row[1:4] for row in rows(session, "EXEC sp_tables @table_name = 't', @table_owner = 'app'")
    ] == [("app", "t", "TABLE")]
    found = rows(session, "EXEC [sys].sp_columns_100 'T', app")
    assert [(row[3], row[5]) for row in found] == [
        ("id", "int identity"), ("a", "nvarchar"), ("b", "decimal"), ("c", "datetime2"),
        ("d", "varchar"),
    ]  # fmt: skip
    assert [row[3:] for row in rows(session, "EXEC sp_pkeys 't'")] == [("id", 1, "pk_t")]
    assert len(rows(session, "EXEC sp_statistics_100 't'")) == 4
    assert [row[1] for row in rows(session, "EXEC sp_special_columns_100 't'")] == ["id"]
    assert len(rows(session, "EXEC sp_datatype_info_100")) > 20
    assert [
        row[2]
        for row in rows(session, "EXEC sp_describe_first_result_set N'SELECT a, b AS x FROM app.t'")
    ] == ["a", "x"]


def test_extended_properties_of_schemas(session):
    add = "EXEC sp_addextendedproperty N'MS_Description', N'it''s ours', N'SCHEMA', N'{}'"
    query = (
        "SELECT s.name, p.class, p.class_desc, p.minor_id, p.name, p.value"
        " FROM sys.extended_properties p JOIN sys.schemas s ON s.schema_id = p.major_id"
    )
    expected = [("app", 3, "SCHEMA", 0, "MS_Description", "it's ours")]
    run(session, f"BEGIN TRANSACTION; {add.format('app')}; ROLLBACK")
    assert rows(session, query) == []
    run(session, add.format("APP"))
    assert rows(session, query) == expected
    assert numbers(answers(session, add.replace("MS_", "ms_").format("app"))) == [15233]
    assert numbers(answers(session, add.format("nope"))) == [15135]
    assert numbers(answers(session, add.format("app") + ", N'TABLE', N't'")) == [40000]
    assert rows(session, query) == expected
    run(session, "CREATE SCHEMA other")
    run(session, add.format("other") + "; BEGIN TRANSACTION; DROP SCHEMA other")
    assert rows(session, query) == expected
    run(session, "ROLLBACK")
    assert len(rows(session, query)) == 2
