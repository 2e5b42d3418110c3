"""The one mechanism by which a statement ends before its time."""

import gc
import threading
import time
import weakref

import duckdb
import pytest

from jetbridge.errors import BadRequest, Cancelled, LimitExceeded
from jetbridge.runtime import cancellation
from tests.helpers.waiting import PATIENCE, wait_until

SLOW = "SELECT count(*) FROM range(1000000) a, range(1000000) b"


def later(seconds, work):
    timer = threading.Timer(seconds, work)
    timer.start()
    return timer


def test_a_query_of_duckdb_ends_at_once():
    with duckdb.connect() as cursor, cancellation.scope() as statement:
        later(0.2, statement.cancel)
        began = time.monotonic()
        with pytest.raises(Cancelled), statement.on_cancel(cursor.interrupt):
            cursor.execute(SLOW)
        assert time.monotonic() - began < PATIENCE


def test_an_interrupt_that_comes_too_early_comes_again():
    """DuckDB forgets an interrupt that comes before the query."""
    interrupted = threading.Event()
    with duckdb.connect() as cursor, cancellation.scope() as statement:

        def interrupt() -> None:
            cursor.interrupt()
            interrupted.set()

        with pytest.raises(Cancelled), statement.on_cancel(interrupt):
            statement.cancel()
            assert interrupted.wait(PATIENCE)
            cursor.execute(SLOW)


def test_what_has_left_its_block_is_not_interrupted():
    calls = []
    with cancellation.scope() as statement:
        with pytest.raises(Cancelled), statement.on_cancel(lambda: calls.append(1)):
            statement.cancel()
            wait_until(lambda: calls)
            raise BadRequest("interrupted")
        before = len(calls)
        time.sleep(0.2)  # time for another interrupt, which must not come
        assert len(calls) == before


def test_nothing_begins_after_the_cancellation():
    with cancellation.scope() as statement:
        statement.cancel()
        with pytest.raises(Cancelled), statement.on_cancel(bool):
            raise AssertionError
        with pytest.raises(Cancelled), statement.publishing():
            raise AssertionError
        with pytest.raises(Cancelled):
            statement.check()


def test_clearing_up_goes_on_after_the_cancellation():
    with cancellation.scope() as statement:
        statement.cancel()
        with cancellation.shield():
            cancellation.current().check()


def test_what_is_being_published_is_not_interrupted():
    calls = []
    with cancellation.scope() as statement:
        with statement.on_cancel(lambda: calls.append(1)), statement.publishing():
            statement.cancel()
            time.sleep(0.2)  # time for an interrupt, which must not come
            statement.check()
            assert calls == []
        with pytest.raises(Cancelled):
            statement.check()


def test_an_inner_one_ends_with_the_outer_one():
    ended = threading.Event()
    with (
        pytest.raises(Cancelled),
        cancellation.scope() as outer,
        cancellation.scope() as inner,
        inner.on_cancel(ended.set),
    ):
        outer.cancel()
        with pytest.raises(Cancelled):  # before the news has come
            inner.check()
        assert ended.wait(PATIENCE)
        inner.check()


def test_an_outer_one_outlives_an_inner_one():
    with cancellation.scope() as outer:
        with cancellation.scope() as inner:
            inner.cancel()
        assert cancellation.current() is outer
        outer.check()


def test_a_limit_says_what_it_is():
    with (
        duckdb.connect() as cursor,
        pytest.raises(LimitExceeded, match="too long"),
        cancellation.limit_time(0.2, LimitExceeded("too long")),
        cancellation.current().on_cancel(cursor.interrupt),
    ):
        cursor.execute(SLOW)
    cancellation.current().check()


def test_a_pause_ends_early():
    with cancellation.scope() as statement:
        later(0.1, statement.cancel)
        began = time.monotonic()
        with pytest.raises(Cancelled):
            statement.wait(10 * PATIENCE)
        assert time.monotonic() - began < PATIENCE


def test_rows_that_another_thread_takes_belong_to_their_statement():
    def rows():
        for number in range(3):
            cancellation.current().check()
            yield number

    with cancellation.scope() as statement:
        carried = cancellation.within(statement, rows())
        found = []
        thread = threading.Thread(target=lambda: found.append(next(carried)))
        thread.start()
        thread.join()
        assert found == [0]
        statement.cancel()
        with pytest.raises(Cancelled):
            next(carried)


def test_without_a_statement_nothing_is_cancelled():
    cancellation.current().check()
    with cancellation.current().on_cancel(bool), cancellation.current().publishing():
        pass


def test_what_a_publication_fails_with_is_said():
    """Nobody knows whether it was made; that it was cancelled would say that it was not."""
    with cancellation.scope() as statement:
        with pytest.raises(BadRequest, match="unknown"), statement.on_cancel(bool):
            try:
                with statement.publishing():
                    statement.cancel()
                    raise ConnectionError
            except ConnectionError as error:
                raise BadRequest("unknown") from error
        with pytest.raises(Cancelled):
            statement.check()


def test_so_it_is_by_those_around():
    with (
        pytest.raises(BadRequest, match="unknown"),
        cancellation.scope() as outer,
        cancellation.scope() as inner,
        inner.publishing(),
    ):
        outer.cancel()
        raise BadRequest("unknown")


def test_what_was_added_to_the_error_is_kept():
    with (
        cancellation.scope() as statement,
        pytest.raises(Cancelled, match="^the call was cancelled; a table stays$"),
        statement.on_cancel(bool),
    ):
        try:
            with statement.on_cancel(bool):
                statement.cancel()
                raise BadRequest("interrupted")
        except Cancelled as error:
            error.args = (f"{error}; a table stays",)
            raise


def test_whoever_waits_for_a_lock_ends_early():
    lock = threading.Lock()
    with lock, cancellation.scope() as statement:
        later(0.1, statement.cancel)
        began = time.monotonic()
        with pytest.raises(Cancelled), statement.holding(lock):
            raise AssertionError
        assert time.monotonic() - began < PATIENCE
    assert not lock.locked()


def test_rows_of_a_statement_end_with_it_and_with_the_one_who_takes_them():
    for ends in ("inner", "outer"):
        inner = cancellation.Cancellation()
        rows = cancellation.own_scope(inner, iter(range(10)))
        with cancellation.scope() as outer:
            assert next(rows) == 0
            {"inner": inner, "outer": outer}[ends].cancel()
            with pytest.raises(Cancelled):
                next(rows)
        assert cancellation.current() is cancellation._nobody


def published(statement):
    """A committed statement, and what it answers afterwards."""
    with cancellation.scope(), cancellation.current().publishing():
        statement.cancel()
    yield "answer"
    cancellation.current().check()
    yield "the next statement"


def test_what_was_published_is_answered_but_nothing_begins_after_it():
    """An error would make the client run a committed INSERT again."""
    statement = cancellation.Cancellation()
    answers = cancellation.answering(statement, published(statement))
    assert next(answers) == "answer"
    with pytest.raises(Cancelled):
        next(answers)


def test_the_end_of_a_published_statement_is_no_error():
    statement = cancellation.Cancellation()

    def answers():
        with cancellation.current().publishing():
            statement.cancel()
        yield "answer"

    assert list(cancellation.answering(statement, answers())) == ["answer"]


def test_what_failed_to_publish_ends_between_its_answers():
    statement = cancellation.Cancellation()

    def answers():
        yield "schema"
        try:
            with cancellation.current().publishing():
                statement.cancel()
                raise ConnectionError
        except ConnectionError:
            yield "failed"
        yield "more"

    answered = cancellation.answering(statement, answers())
    assert [next(answered), next(answered)] == ["schema", "failed"]
    with pytest.raises(Cancelled):
        next(answered)


def test_the_garbage_collector_may_close_a_block_while_it_is_cancelled():
    """It runs in any thread at any moment, also in the midst of `cancel` or of an interrupt."""
    statement = cancellation.Cancellation()

    def rows():
        with statement.on_cancel(bool):
            yield 1

    def close_within(lock):
        left = rows()
        next(left)
        with lock:
            left.close()
        return True

    for lock in (statement._lock, statement._calling):
        done = threading.Event()
        work = threading.Thread(
            target=lambda lock=lock, done=done: close_within(lock) and done.set(), daemon=True
        )
        work.start()
        assert done.wait(PATIENCE)


def test_what_an_interrupt_has_closed_is_not_interrupted():
    calls = []
    statement = cancellation.Cancellation()

    def rows():
        with statement.on_cancel(lambda: calls.append("left")):
            yield 1

    left = rows()

    def close():
        left.close()

    with pytest.raises(Cancelled), statement.on_cancel(close):
        next(left)
        statement.cancel()
        time.sleep(0.2)  # time for the call that must not come
        statement.check()
    assert calls == []


def test_a_thread_that_cannot_start_is_started_later(monkeypatch):
    start, calls = threading.Thread.start, []

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with (
        cancellation.scope() as statement,
        pytest.raises(Cancelled),
        statement.on_cancel(lambda: calls.append(1)),
    ):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        statement.cancel()
        assert calls == []
        monkeypatch.setattr(threading.Thread, "start", start)
        statement.cancel()
        wait_until(lambda: calls)
        statement.check()


def test_a_failed_publication_is_not_kept():
    class Failure(Exception):
        pass

    def fail():
        error = Failure()
        try:
            with cancellation.scope() as statement, statement.publishing():
                raise error
        except Failure:
            return weakref.ref(error)
        finally:
            del error

    failure = fail()
    gc.collect()
    assert failure() is None
    with pytest.raises(Failure), cancellation.current().publishing():
        raise Failure
    assert cancellation._nobody._failed is None
    with cancellation.current().publishing():
        pass
    assert not cancellation._nobody.has_published()
