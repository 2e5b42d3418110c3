"""Transactions of the engine: what stays, what goes, and what an error ends."""

from collections.abc import Iterator

import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.tests.engine.calls import (
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
from standins.tds.values import Begun, Committed, RolledBack

engine = pytest.fixture(scope="module")(engine_of_a_module)


@pytest.fixture
def database(engine: DuckEngine) -> str:
    return fresh(engine)


@pytest.fixture
def session(engine: DuckEngine, database: str) -> Iterator[DuckSession]:
    made = connected(engine, database)
    run(made, "CREATE TABLE t (id int NOT NULL CONSTRAINT pk PRIMARY KEY, v nvarchar(5))")
    yield made
    made.close()


@pytest.fixture
def other(engine: DuckEngine, database: str) -> Iterator[DuckSession]:
    made = connected(engine, database)
    yield made
    made.close()


def ids(session: DuckSession) -> list[int]:
    return [row[0] for row in rows(session, "SELECT id FROM t ORDER BY id")]


def test_rolled_back_rows_are_gone_and_committed_ones_stay(session):
    run(session, "BEGIN TRAN; INSERT INTO t VALUES (1, 'a'); COMMIT")
    run(session, "BEGIN TRAN; INSERT INTO t VALUES (2, 'b'); UPDATE t SET v = 'x' WHERE id = 1")
    assert rows(session, "SELECT id, v FROM t ORDER BY id") == [(1, "x"), (2, "b")]
    run(session, "ROLLBACK")
    assert rows(session, "SELECT id, v FROM t ORDER BY id") == [(1, "a")]


def test_a_deleted_row_comes_back(session):
    run(session, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    run(session, "BEGIN TRAN; DELETE FROM t WHERE id = 1")
    assert ids(session) == [2]
    run(session, "ROLLBACK")
    assert ids(session) == [1, 2]


def test_transactions_nest_by_count(session):
    found = run(session, "BEGIN TRAN; BEGIN TRAN; SELECT @@TRANCOUNT; COMMIT; SELECT @@TRANCOUNT")
    assert [each for each in found if isinstance(each, list)] == [[(2,)], [(1,)]]
    assert len([each for each in found if isinstance(each, Begun)]) == 1
    assert not [each for each in found if isinstance(each, Committed)]
    found = run(session, "ROLLBACK; SELECT @@TRANCOUNT")
    assert [each for each in found if isinstance(each, list)] == [[(0,)]]
    assert len([each for each in found if isinstance(each, RolledBack)]) == 1


def test_descriptors_are_those_of_the_transaction(session):
    assert session.transaction == 0
    (begun,) = (each for each in run(session, "BEGIN TRAN") if isinstance(each, Begun))
    assert session.transaction == begun.descriptor != 0
    assert session.commit() == Committed(begun.descriptor)
    assert session.transaction == 0
    assert session.begin().descriptor != begun.descriptor
    session.rollback()


def test_commit_and_rollback_need_a_transaction(session):
    assert refused(session, "COMMIT").number == 3902
    assert refused(session, "ROLLBACK").number == 3903


def test_definitions_are_rolled_back(session, other):
    run(session, "CREATE SCHEMA kept")
    run(session, "INSERT INTO t VALUES (1, 'a')")
    run(
        session,
        """BEGIN TRAN
        CREATE SCHEMA gone
        CREATE TABLE made (id int)
        INSERT INTO made VALUES (1)
        EXEC sp_rename 'dbo.t', 'renamed'
        ALTER TABLE renamed ADD extra int NULL
        ALTER SCHEMA kept TRANSFER dbo.renamed
        TRUNCATE TABLE kept.renamed""",
    )
    assert rows(session, "SELECT COUNT(*) FROM kept.renamed") == [(0,)]
    run(session, "ROLLBACK")
    assert rows(session, "SELECT * FROM dbo.t") == [(1, "a")]
    assert rows(session, "SELECT name FROM sys.schemas WHERE name IN ('gone', 'kept')") == [
        ("kept",)
    ]
    assert rows(other, "SELECT name FROM sys.tables ORDER BY name") == [("t",)]


def test_a_dropped_table_comes_back_with_its_rows(session):
    run(session, "INSERT INTO t VALUES (1, 'a'); BEGIN TRAN; DROP TABLE t; CREATE TABLE t (x int)")
    assert rows(session, "SELECT * FROM t") == []
    run(session, "ROLLBACK")
    assert rows(session, "SELECT * FROM t") == [(1, "a")]


def test_a_table_is_replaced_in_one_transaction(session, other):
    run(session, "INSERT INTO t VALUES (1, 'old'); CREATE TABLE staging (id int, v nvarchar(5))")
    run(session, "INSERT INTO staging VALUES (2, 'new')")
    run(session, "BEGIN TRAN; DROP TABLE t; EXEC sp_rename 'dbo.staging', 't'; COMMIT")
    assert rows(other, "SELECT * FROM t") == [(2, "new")]
    assert refused(other, "SELECT * FROM staging").number == 208


def test_an_error_ends_its_statement_only(session):
    found = answers(
        session,
        "BEGIN TRAN; INSERT INTO t VALUES (1, 'a'); INSERT INTO t VALUES (1, 'b');"
        " INSERT INTO t VALUES (2, 'c'); SELECT @@TRANCOUNT; COMMIT",
    )
    assert numbers(found) == [2627]
    assert [(1,)] in found
    assert ids(session) == [1, 2]


def test_a_statement_of_many_rows_leaves_none_when_one_fails(session):
    run(session, "INSERT INTO t VALUES (3, 'a'); BEGIN TRAN; INSERT INTO t VALUES (4, 'a')")
    assert refused(session, "INSERT INTO t SELECT 5, 'a' UNION ALL SELECT 3, 'b'").number == 2627
    run(session, "COMMIT")
    assert ids(session) == [3, 4]


def test_xact_abort_rolls_back_and_ends_the_batch(session):
    found = answers(
        session,
        "SET XACT_ABORT ON; BEGIN TRAN; INSERT INTO t VALUES (1, 'a');"
        " INSERT INTO t VALUES (1, 'b'); INSERT INTO t VALUES (2, 'c')",
    )
    assert numbers(found) == [2627]
    assert any(isinstance(each, RolledBack) for each in found)
    assert value(session, "SELECT @@TRANCOUNT") == 0
    assert ids(session) == []


def test_a_failed_conversion_ends_batch_and_transaction(session):
    found = answers(
        session, "BEGIN TRAN; INSERT INTO t VALUES (1, 'a'); SELECT CAST('x' AS int); SELECT 1"
    )
    assert numbers(found) == [245]
    assert [(1,)] not in found
    assert ids(session) == []


def test_an_unknown_table_ends_the_batch_but_not_the_transaction(session):
    found = answers(session, "BEGIN TRAN; INSERT INTO t VALUES (1, 'a'); SELECT * FROM nosuch")
    assert numbers(found) == [208]
    assert value(session, "SELECT @@TRANCOUNT") == 1
    run(session, "COMMIT")
    assert ids(session) == [1]


def test_what_cannot_be_parsed_runs_not_at_all(session):
    assert refused(session, "INSERT INTO t VALUES (1, 'a'); SELECT FROM WHERE").number in (102, 156)
    assert ids(session) == []


def test_try_catches_and_tells(session):
    found = run(
        session,
        """INSERT INTO t VALUES (1, 'a')
        BEGIN TRY
            INSERT INTO t VALUES (1, 'b')
            SELECT 'not reached'
        END TRY
        BEGIN CATCH
            SELECT ERROR_NUMBER(), ERROR_SEVERITY(), XACT_STATE(), LEFT(ERROR_MESSAGE(), 24)
        END CATCH
        SELECT ERROR_NUMBER()""",
    )
    assert [each for each in found if isinstance(each, list)] == [
        [(2627, 14, 0, "Violation of PRIMARY KEY")],
        [(None,)],
    ]


def test_throw_in_catch_gives_the_error_on(session):
    failure = refused(
        session,
        "BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH IF @@TRANCOUNT > 0 ROLLBACK; THROW END CATCH",
    )
    assert failure.number == 8134


def test_a_doomed_transaction_takes_no_writes_and_no_commit(session):
    found = answers(
        session,
        """SET XACT_ABORT ON
        BEGIN TRAN
        BEGIN TRY
            INSERT INTO t VALUES (1, 'a')
            INSERT INTO t VALUES (1, 'b')
        END TRY
        BEGIN CATCH
            SELECT XACT_STATE()
            INSERT INTO t VALUES (2, 'c')
        END CATCH""",
    )
    assert [(-1,)] in found
    assert numbers(found) == [3930]
    assert value(session, "SELECT @@TRANCOUNT") == 0
    assert ids(session) == []


def test_a_doomed_transaction_left_open_is_rolled_back_at_the_end_of_the_batch(session):
    found = answers(
        session,
        "SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY INSERT INTO t VALUES (1, 'a');"
        " SELECT 1/0 END TRY BEGIN CATCH SELECT 7 END CATCH",
    )
    assert numbers(found) == [3998]
    assert ids(session) == []


def test_rolling_back_to_a_savepoint_keeps_what_was_before(session):
    run(
        session,
        "BEGIN TRAN; INSERT INTO t VALUES (1, 'a'); SAVE TRAN here;"
        " INSERT INTO t VALUES (2, 'b'); CREATE TABLE made (x int); DELETE FROM t WHERE id = 1;"
        " ROLLBACK TRAN here; INSERT INTO t VALUES (3, 'c'); COMMIT",
    )
    assert ids(session) == [1, 3]
    assert refused(session, "SELECT * FROM made").number == 208


def test_closing_a_session_rolls_back(engine, database, session):
    second = connected(engine, database)
    run(second, "BEGIN TRAN; INSERT INTO t VALUES (1, 'a')")
    second.close()
    assert ids(session) == []


def test_a_reset_connection_is_as_new(session):
    run(
        session,
        "CREATE TABLE #mine (x int); SET XACT_ABORT ON; BEGIN TRAN; INSERT INTO t VALUES (1, 'a')",
    )
    session.reset()
    assert value(session, "SELECT @@TRANCOUNT") == 0
    assert refused(session, "SELECT * FROM #mine").number == 208
    assert ids(session) == []


def test_identity_values_are_not_given_twice_after_a_rollback(session):
    run(session, "CREATE TABLE n (id int IDENTITY(10, 5), v int)")
    run(session, "BEGIN TRAN; INSERT INTO n VALUES (1), (2); ROLLBACK; INSERT INTO n VALUES (3)")
    assert rows(session, "SELECT id, v FROM n") == [(20, 3)]


def test_snapshot_needs_leave(session, other):
    run(other, "SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    assert refused(other, "SELECT * FROM t").number == 3952


def test_a_snapshot_stays_as_it_was(session, other, database):
    run(session, f"ALTER DATABASE {database} SET ALLOW_SNAPSHOT_ISOLATION ON")
    run(session, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    run(other, "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN")
    assert rows(other, "SELECT id, v FROM t ORDER BY id") == [(1, "a"), (2, "b")]
    run(
        session,
        "UPDATE t SET v = 'x' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t"
        " VALUES (3, 'c')",
    )
    assert rows(other, "SELECT id, v FROM t ORDER BY id") == [(1, "a"), (2, "b")]
    run(other, "INSERT INTO t VALUES (4, 'd')")
    assert ids(other) == [1, 2, 4]
    run(other, "COMMIT")
    assert rows(other, "SELECT id, v FROM t ORDER BY id") == [(1, "x"), (3, "c"), (4, "d")]


def test_changing_what_changed_since_the_snapshot_is_refused(session, other, database):
    run(session, f"ALTER DATABASE {database} SET ALLOW_SNAPSHOT_ISOLATION ON")
    run(session, "INSERT INTO t VALUES (1, 'a')")
    run(other, "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN")
    assert ids(other) == [1]
    run(session, "UPDATE t SET v = 'x' WHERE id = 1")
    assert refused(other, "UPDATE t SET v = 'y' WHERE id = 1").number == 3960
    assert value(other, "SELECT @@TRANCOUNT") == 0
    assert rows(session, "SELECT v FROM t") == [("x",)]


def test_read_committed_snapshot_reads_what_was_committed(session, other, database):
    run(session, f"ALTER DATABASE {database} SET READ_COMMITTED_SNAPSHOT ON")
    run(
        session,
        "INSERT INTO t VALUES (1, 'a'); BEGIN TRAN; UPDATE t SET v = 'x'; INSERT INTO t"
        " VALUES (2, 'b')",
    )
    assert rows(other, "SELECT id, v FROM t") == [(1, "a")]
    run(session, "COMMIT")
    assert rows(other, "SELECT id, v FROM t ORDER BY id") == [(1, "x"), (2, "b")]
