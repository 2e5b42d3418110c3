"""Renaming, moving, altering and dropping in the engine."""

from collections.abc import Iterator

import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.tests.engine.calls import (
    TABLE,
    answers,
    columns,
    connected,
    engine_of_a_module,
    fresh,
    messages,
    numbers,
    refused,
    rows,
    run,
    value,
)

engine = pytest.fixture(scope="module")(engine_of_a_module)


@pytest.fixture
def session(engine: DuckEngine) -> Iterator[DuckSession]:
    made = connected(engine, fresh(engine))
    run(made, "CREATE SCHEMA app")
    run(made, TABLE)
    yield made
    made.close()


def test_renaming(session):
    run(session, "INSERT INTO app.t (a) VALUES (N'x')")
    (told,) = messages(session, "EXEC sp_rename 'app.t', 'renamed'")
    assert told.startswith("Caution: Changing any part of an object name")
    run(
        session,
        "EXEC sp_rename @objname = N'app.renamed.[a]', @newname = N'it''s', @objtype = 'COLUMN'",
    )
    run(
        session,
        "EXEC sp_rename 'app.renamed', 'again', 'OBJECT'; EXEC sp_rename"
        " 'app.again.uq_a', 'uq_b', 'INDEX'",
    )
    assert rows(session, "SELECT [it's] FROM app.again") == [("x",)]
    assert refused(session, "SELECT * FROM app.t").number == 208
    assert (
        refused(session, "INSERT INTO app.again ([it's]) VALUES (N'x')").text.count("'uq_b'") == 1
    )


def test_moving_into_another_schema(session):
    run(session, "ALTER SCHEMA dbo TRANSFER OBJECT::app.t; DROP SCHEMA app")
    assert [each.name for each in columns(session, "SELECT * FROM dbo.t")] == [
        "id",
        "a",
        "b",
        "c",
        "d",
    ]
    run(session, "CREATE SCHEMA app; CREATE TABLE app.t (x int)")
    assert refused(session, "ALTER SCHEMA app TRANSFER dbo.t").number == 15530
    assert refused(session, "DROP SCHEMA app").number == 3729


def test_altering_columns(session):
    run(
        session,
        "CREATE TABLE alt (id int, v nvarchar(20)); INSERT INTO alt VALUES (1, N'12'), (2, NULL)",
    )
    run(
        session,
        "ALTER TABLE alt ADD more int NOT NULL CONSTRAINT df_more DEFAULT 5, other bit NULL",
    )
    assert rows(session, "SELECT * FROM alt ORDER BY id") == [
        (1, "12", 5, None),
        (2, None, 5, None),
    ]
    run(
        session,
        "ALTER TABLE alt ALTER COLUMN v int; ALTER TABLE alt ALTER COLUMN id bigint NOT NULL",
    )
    assert rows(session, "SELECT * FROM alt ORDER BY id") == [(1, 12, 5, None), (2, None, 5, None)]
    assert refused(session, "ALTER TABLE alt ALTER COLUMN v int NOT NULL").number == 515
    assert refused(session, "INSERT INTO alt (v) VALUES (1)").number == 515
    assert numbers(answers(session, "ALTER TABLE alt DROP COLUMN more")) == [5074, 4922]
    run(session, "ALTER TABLE alt DROP CONSTRAINT df_more; ALTER TABLE alt DROP COLUMN more, other")
    run(
        session,
        "ALTER TABLE alt ADD CONSTRAINT df_v DEFAULT 9 FOR v; INSERT INTO alt (id) VALUES (3)",
    )
    assert rows(session, "SELECT * FROM alt ORDER BY id") == [(1, 12), (2, None), (3, 9)]
    assert numbers(answers(session, "ALTER TABLE app.t ALTER COLUMN b int")) == [5074, 4922]


def test_a_column_that_was_rolled_back_can_be_added_again(session):
    run(session, "CREATE TABLE alt (id int); INSERT INTO alt VALUES (1)")
    run(session, "BEGIN TRAN; ALTER TABLE alt ADD v int NULL; UPDATE alt SET v = 5; ROLLBACK")
    assert refused(session, "SELECT v FROM alt").number == 207
    run(session, "ALTER TABLE alt ADD v nvarchar(5) NULL DEFAULT N'x' WITH VALUES")
    assert rows(session, "SELECT * FROM alt") == [(1, "x")]


def test_adding_and_dropping_constraints(session):
    run(
        session, "CREATE TABLE con (id int NOT NULL, v int); INSERT INTO con VALUES (1, 1), (2, -1)"
    )
    assert refused(session, "ALTER TABLE con ADD CONSTRAINT ck CHECK (v > 0)").number == 547
    run(
        session,
        "DELETE FROM con WHERE v < 0; ALTER TABLE con ADD CONSTRAINT ck CHECK (v > 0),"
        " CONSTRAINT pk PRIMARY KEY CLUSTERED (id)",
    )
    assert refused(session, "INSERT INTO con VALUES (3, 0)").number == 547
    assert refused(session, "INSERT INTO con VALUES (1, 3)").number == 2627
    run(session, "ALTER TABLE con DROP CONSTRAINT ck, CONSTRAINT pk; INSERT INTO con VALUES (1, 0)")
    assert value(session, "SELECT COUNT(*) FROM con") == 2
    assert refused(session, "ALTER TABLE con ADD PRIMARY KEY (id)").number == 1505


def test_indexes_come_and_go(session):
    run(session, "CREATE TABLE facts (id int, INDEX cci CLUSTERED COLUMNSTORE)")
    assert rows(
        session, "SELECT name, type_desc FROM sys.indexes WHERE object_id = OBJECT_ID('facts')"
    ) == [("cci", "CLUSTERED COLUMNSTORE")]
    run(
        session,
        "DROP INDEX cci ON facts; CREATE CLUSTERED COLUMNSTORE INDEX again ON facts;"
        " CREATE INDEX ix ON facts (id DESC) WITH (FILLFACTOR = 80)",
    )
    run(session, "INSERT INTO facts VALUES (1)")
    assert refused(session, "DROP INDEX nosuch ON facts").number == 3701
    run(session, "DROP INDEX IF EXISTS nosuch ON facts; DROP INDEX ix ON facts")
    assert rows(session, "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('facts')") == [
        ("again",)
    ]


def test_long_and_odd_names(session):
    name = "ü]" + "x" * 126
    quoted = "[" + name.replace("]", "]]") + "]"
    run(
        session,
        f"CREATE TABLE {quoted} ({quoted} int, [order] int); INSERT INTO {quoted} VALUES (1, 2)",
    )
    assert rows(session, f"SELECT {quoted}, [order] FROM dbo.{quoted}") == [(1, 2)]
    assert value(session, "SELECT name FROM sys.tables WHERE name <> 't'") == name
    assert refused(session, f"CREATE TABLE [{'y' * 129}] (id int)").number == 103


def test_dropping_what_is_not_there_quietly(session):
    run(
        session,
        "DROP TABLE IF EXISTS nosuch, app.t; DROP VIEW IF EXISTS nosuch; DROP SCHEMA IF EXISTS app",
    )
    assert rows(session, "SELECT name FROM sys.tables") == []


def test_a_name_may_change_its_case_only(session):
    run(session, "EXEC sp_rename 'app.t', 'T'; EXEC sp_rename 'app.T.a', 'A', 'COLUMN'")
    assert value(session, "SELECT name FROM sys.tables") == "T"
    assert columns(session, "SELECT * FROM app.t")[1].name == "A"


def test_a_column_of_a_check_keeps_its_name(session):
    assert refused(session, "EXEC sp_rename 'app.t.b', 'z', 'COLUMN'").number == 15336
    run(session, "ALTER TABLE app.t DROP CONSTRAINT ck_b; EXEC sp_rename 'app.t.b', 'z', 'COLUMN'")


def test_a_default_forbids_another_type_but_not_another_length(session):
    run(
        session,
        "CREATE TABLE d (v nvarchar(5) DEFAULT N'x'); ALTER TABLE d ALTER COLUMN v nvarchar(9)",
    )
    assert numbers(answers(session, "ALTER TABLE d ALTER COLUMN v int")) == [5074, 4922]


@pytest.mark.parametrize("kind", ["nvarchar(max)", "varchar(max)", "varbinary(max)"])
def test_no_key_has_a_column_without_a_limit(session, kind):
    assert refused(session, f"CREATE TABLE k (v {kind} NOT NULL PRIMARY KEY)").number == 1919
    run(session, f"CREATE TABLE k (v {kind})")
    assert refused(session, "ALTER TABLE k ADD UNIQUE (v)").number == 1919
    assert refused(session, "CREATE INDEX i ON k (v)").number == 1919


def test_a_check_that_is_given_as_it_was_shown_is_shown_so_again(session):
    shown = "SELECT definition FROM sys.check_constraints WHERE name = 'again'"
    run(session, "CREATE TABLE c (v int, CONSTRAINT again CHECK (v > 0 AND v <> -1))")
    (found,) = rows(session, shown)
    run(session, "ALTER TABLE c DROP CONSTRAINT again")
    run(session, f"ALTER TABLE c WITH CHECK ADD CONSTRAINT again CHECK ({found[0]})")
    assert rows(session, shown) == [found] == [("([v]>(0) AND [v]<>(-1))",)]


def test_nulls_stay_where_a_text_gets_shorter(session):
    run(session, "CREATE TABLE n (v nvarchar(max)); INSERT INTO n VALUES (NULL), (N'abc')")
    run(session, "ALTER TABLE n ALTER COLUMN v nvarchar(3)")
    assert refused(session, "ALTER TABLE n ALTER COLUMN v nvarchar(2)").number == 2628


def test_checks_are_trusted(session):
    assert rows(session, "SELECT name, is_not_trusted FROM sys.check_constraints") == [
        ("ck_b", False)
    ]
