"""Loads that SQL Server refuses: deadlocks, a full log, and a query that fails late."""

from collections.abc import Iterator

import pytest

from jetbridge.backends.mssql.write import staged_load, transactions
from jetbridge.errors import Conflict, LimitExceeded, ServerError
from tests.faults.mssql.scene import (
    FEW,
    KINDS,
    LARGE,
    LARGE_ONES,
    MILLION,
    PUBLISHES,
    SMALL,
    SMALL_ONES,
    TABLE,
    UNKNOWN,
    Scene,
    Work,
    in_soak,
    opened,
    rows_of,
)
from tests.helpers import lakes, mssql_server

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.xdist_group("failing-loads"),
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
NEW, REPLACE, INSERT = LARGE_ONES
NEW_FEW, REPLACE_FEW, INSERT_FEW = SMALL_ONES
ALL = [*LARGE_ONES, *SMALL_ONES]
DEADLOCK = 1205
LOG_FULL = 9002


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(lakes.engine(), tmp_path_factory.mktemp("spools"), **SMALL) as there:
        yield there


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between tries."""
    monkeypatch.setattr(transactions, "_FIRST_PAUSE", 0.01)


def failed(scene: Scene, work: Work) -> ServerError:
    error = scene.attempt(work)
    assert error is not None
    scene.check(work, error)
    assert scene.left() == []
    scene.check_next(work)
    return error


@pytest.mark.sampled(3)
@pytest.mark.parametrize("work", LARGE_ONES, ids=str)
def test_a_deadlock_while_publishing_is_tried_again(scene, work):
    scene.prepare(work)
    scene.order(when="statement", pattern=PUBLISHES[work.kind], number=DEADLOCK)
    scene.bench.sql(work.statement)
    assert scene.fired() == 1
    scene.check(work, None)
    assert scene.left() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("work", in_soak(LARGE_ONES, but=[NEW, INSERT]))
def test_deadlocks_without_end_leave_the_table_as_it_was(scene, work, hasty):
    scene.prepare(work)
    scene.order(when="statement", pattern=PUBLISHES[work.kind], number=DEADLOCK, times=None)
    assert isinstance(failed(scene, work), Conflict)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("work", in_soak(ALL, but=[REPLACE, INSERT_FEW]))
def test_a_deadlock_while_rows_are_loaded_is_tried_again(scene, work):
    scene.prepare(work)
    scene.order(when="bulk row", at=work.rows // 2, number=DEADLOCK)
    scene.bench.sql(work.statement)
    assert scene.fired() == 1
    scene.check(work, None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("work", in_soak(ALL, but=[INSERT, NEW_FEW]))
def test_a_log_that_fills_up_while_rows_are_loaded(scene, work):
    scene.prepare(work)
    scene.order(when="bulk row", at=work.rows // 2, number=LOG_FULL, times=None)
    error = failed(scene, work)
    assert isinstance(error, LimitExceeded)
    assert "enlarge its log" in str(error)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pattern", ["publishes", "^COMMIT"])
@pytest.mark.parametrize("work", in_soak(LARGE_ONES, but=[REPLACE]))
def test_a_log_that_is_full_when_rows_are_published(scene, work, pattern):
    scene.prepare(work)
    text = PUBLISHES[work.kind] if pattern == "publishes" else pattern
    scene.order(when="statement", pattern=text, number=LOG_FULL, times=None)
    assert isinstance(failed(scene, work), LimitExceeded)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_deadlock_while_a_million_rows_are_published_is_tried_again(tmp_path, kind):
    work = Work(kind, MILLION)
    with opened(lakes.engine(), tmp_path) as there:
        there.prepare(work)
        there.order(when="statement", pattern=PUBLISHES[kind], number=DEADLOCK, times=2)
        there.bench.sql(work.statement)
        assert there.fired() == 2
        there.check(work, None)
        assert there.left() == []


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_deadlocks_without_end_while_a_million_rows_are_published(tmp_path, kind, hasty):
    work = Work(kind, MILLION)
    with opened(lakes.engine(), tmp_path) as there:
        there.prepare(work)
        there.order(when="statement", pattern=PUBLISHES[kind], number=DEADLOCK, times=None)
        assert isinstance(failed(there, work), Conflict)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.05, 0.7])
def test_a_log_that_fills_up_while_a_million_rows_are_loaded(tmp_path, kind, share):
    work = Work(kind, MILLION)
    with opened(lakes.engine(), tmp_path) as there:
        there.prepare(work)
        there.order(when="bulk row", at=int(MILLION * share), number=LOG_FULL, times=None)
        assert isinstance(failed(there, work), LimitExceeded)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [LARGE, FEW])
def test_drop_on_failure_leaves_no_table(scene, rows):
    work = Work("new", rows)
    scene.prepare(work)
    scene.bench.sql("SET mssql_ctas_drop_on_failure = true")
    scene.order(when="bulk row", at=rows // 2, number=LOG_FULL, times=None)
    try:
        assert isinstance(scene.attempt(work), LimitExceeded)
    finally:
        scene.bench.sql("RESET mssql_ctas_drop_on_failure")
    assert scene.bench.tables() == []
    assert scene.left() == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_query_that_fails_at_row_700000_makes_nothing(scene, kind):
    work = Work(kind, MILLION)
    scene.prepare(work)
    broken = "SELECT * REPLACE (if(id = 700000, error('row 700000'), id) AS id)"
    failing = f"{broken} FROM ({rows_of(MILLION)})"
    statement = work.statement.replace(rows_of(MILLION), failing)
    before = len(scene.counts()["batches"])
    with pytest.raises(ServerError, match="row 700000"):
        scene.bench.sql(statement)
    said = scene.counts()["batches"][before:]
    assert not [text for text in said if "CREATE TABLE" in text or "INSERT" in text]
    scene.check(work, ServerError("row 700000"))
    if kind == "new":
        assert TABLE.rpartition(".")[2] not in scene.bench.tables()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("work", in_soak(LARGE_ONES, but=[NEW, INSERT]))
def test_a_load_whose_tables_others_drop_fails(scene, work, monkeypatch):
    """A load loses its lock with an idle connection; then another session takes it for dead."""

    stage = staged_load.load_with_spark

    def staged_and_dropped(database, run, goal, parts):
        stage(database, run, goal, parts)
        with scene.witness.borrow_core() as connection:
            for name in scene.left():
                connection.run(f"DROP TABLE dbo.{name}")

    scene.prepare(work)
    with monkeypatch.context() as patched:
        patched.setattr(staged_load, "load_with_spark", staged_and_dropped)
        error = scene.attempt(work)
    assert error is not None
    assert UNKNOWN in str(error)
    assert scene.is_as_before(work)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("work", [NEW, INSERT_FEW], ids=str)
def test_a_server_without_answers_for_bulk_copy_is_sent_inserts(scene, work):
    """The driver asks for the columns of the table before it sends rows."""
    scene.prepare(work)
    scene.order(when="statement", pattern="sp_tablecollations_100", number=207, times=None)
    scene.bench.sql(work.statement)
    assert scene.fired()
    scene.check(work, None)
