"""BEGIN ... COMMIT and ROLLBACK."""

import pyarrow as pa
import pytest

from jetbridge.catalog import DMLOptions, Scan
from jetbridge.errors import BadRequest, Conflict, FailedPrecondition
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session


@pytest.fixture
def two(target):
    """Provide tables `a` and `b` of one row each; no transaction is left open."""
    target.sql("CREATE OR REPLACE TABLE t.dbo.a AS SELECT 1 AS id, 'x' AS n")
    target.sql("CREATE OR REPLACE TABLE t.dbo.b AS SELECT 1 AS id")
    target.keyed("a")
    yield target
    if target.session.in_transaction:
        target.sql("ROLLBACK")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("statement", "after"),
    [
        ("INSERT INTO t.dbo.a VALUES (2, 'y')", [(1, "x"), (2, "y")]),
        ("UPDATE t.dbo.a SET n = 'z'", [(1, "z")]),
        ("DELETE FROM t.dbo.a", []),
        ("CREATE OR REPLACE TABLE t.dbo.a AS SELECT 5 AS id, 'r' AS n", [(5, "r")]),
    ],
)
def test_rows_are_gone_after_rollback_and_there_after_commit(two, statement, after):
    two.sql(f"BEGIN; {statement}; ROLLBACK")
    assert two.rows("FROM t.dbo.a") == [(1, "x")]
    two.sql(f"BEGIN; {statement}; COMMIT")
    assert two.rows("FROM t.dbo.a ORDER BY id") == after


def test_several_inserts_into_one_table_are_one(two):
    before = two.catalog.load_schema("dbo").load_table("a").info().version or 0
    inserts = [f"INSERT INTO t.dbo.a VALUES ({i}, 'y')" for i in (2, 3)]
    two.sql(f"BEGIN; {'; '.join(inserts)}; COMMIT")
    assert two.rows("SELECT count(*) FROM t.dbo.a") == [(3,)]
    after = two.catalog.load_schema("dbo").load_table("a").info().version
    assert after == (None if two.kind == "mssql" else before + 1)


def test_a_second_table_is_refused_at_its_statement(two):
    two.sql("BEGIN; INSERT INTO t.dbo.a VALUES (2, 'y')")
    with pytest.raises(FailedPrecondition, match=r"cannot write 't\.dbo\.b' too"):
        two.sql("INSERT INTO t.dbo.b VALUES (2)")
    with pytest.raises(FailedPrecondition, match="ROLLBACK first"):
        two.sql("SELECT 1")
    with pytest.raises(FailedPrecondition, match="rolled back"):
        two.sql("COMMIT")
    assert two.rows("SELECT count(*) FROM t.dbo.a") == [(1,)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "statement", ["INSERT INTO t.dbo.b VALUES (2)", "CREATE TABLE t.dbo.c AS SELECT 1 AS id"]
)
def test_explain_in_a_transaction_is_refused_as_the_statement_is(two, statement):
    two.sql("BEGIN; INSERT INTO t.dbo.a VALUES (2, 'y')")
    with pytest.raises(FailedPrecondition, match=r"cannot write 't\.dbo\.[bc]' too"):
        two.sql(f"EXPLAIN {statement}")
    two.sql("ROLLBACK")


def test_what_was_written_is_not_read_before_commit(two):
    two.sql("BEGIN; INSERT INTO t.dbo.a VALUES (2, 'y')")
    assert two.rows("FROM t.dbo.b") == [(1,)]
    with pytest.raises(FailedPrecondition, match="COMMIT, then read it"):
        two.sql("SELECT * FROM t.dbo.a")


def test_reads_of_a_transaction_are_of_one_moment(two):
    two.sql("BEGIN")
    assert two.rows("SELECT count(*) FROM t.dbo.b") == [(1,)]
    with two.catalog.load_schema("dbo").load_table("b").inserting(DMLOptions()) as write:
        write(two.sql("SELECT 9 AS id").to_batches()[0])
    assert two.rows("SELECT count(*) FROM t.dbo.b") == [(1,)]
    two.sql("COMMIT")
    assert two.rows("SELECT count(*) FROM t.dbo.b") == [(2,)]


def test_a_row_that_someone_else_changed_meanwhile(two):
    two.sql("BEGIN; UPDATE t.dbo.a SET n = 'mine'")
    handle = two.catalog.load_schema("dbo").load_table("a")
    rowid = next(iter(handle.scan(Scan()))).column("rowid")[0].as_py()
    with handle.deleting(DMLOptions()) as write:
        write(pa.record_batch({"rowid": [rowid]}))
    with pytest.raises(Conflict):
        two.sql("COMMIT")
    assert two.rows("SELECT count(*) FROM t.dbo.a") == [(0,)]


def test_boundaries_must_fit(two):
    for text in ("COMMIT", "ROLLBACK"):
        with pytest.raises(FailedPrecondition, match="no transaction"):
            two.sql(text)
    two.sql("BEGIN TRANSACTION")
    with pytest.raises(FailedPrecondition, match="open already"):
        two.sql("BEGIN")
    two.sql("ROLLBACK")


def test_a_failed_statement_spoils_the_transaction(two):
    two.sql("BEGIN; INSERT INTO t.dbo.a VALUES (2, 'y')")
    with pytest.raises(BadRequest):
        two.sql("SELECT nothing")
    two.sql("ROLLBACK")
    assert two.rows("SELECT count(*) FROM t.dbo.a") == [(1,)]


def test_an_open_transaction_is_undone_when_the_session_ends(two):
    other = Session({"t": two.catalog})
    for outcome in run(other, "BEGIN; INSERT INTO t.dbo.a VALUES (7, 'q')"):
        assert outcome.report is not None
    other.close()
    assert two.rows("SELECT count(*) FROM t.dbo.a WHERE id = 7") == [(0,)]


def test_a_statement_that_is_nested_too_deeply_fails_its_transaction(two):
    two.sql("BEGIN; INSERT INTO t.dbo.a VALUES (2, 'y')")
    with pytest.raises(BadRequest, match="nested too deeply"):
        two.sql(f"SELECT {' + '.join(['1'] * 900)}")
    with pytest.raises(FailedPrecondition, match="rolled back"):
        two.sql("COMMIT")
    assert two.rows("FROM t.dbo.a") == [(1, "x")]


def test_a_query_that_fails_while_it_is_read_fails_its_transaction(two):
    two.sql("BEGIN; INSERT INTO t.dbo.a VALUES (2, 'y')")
    with pytest.raises(BadRequest, match="late"):
        two.rows("SELECT CASE WHEN i > 1 THEN error('late') END FROM range(3) r(i)")
    with pytest.raises(FailedPrecondition, match="rolled back"):
        two.sql("COMMIT")
    assert two.rows("FROM t.dbo.a") == [(1, "x")]
