"""The one mechanism by which a statement ends before its time."""

import threading
import time

import duckdb
import pytest

from jetbridge import cancellation
from jetbridge.errors import BadRequest, Cancelled, LimitExceeded

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
        assert time.monotonic() - began < 2


def test_an_interrupt_that_comes_too_early_comes_again():
    with (
        duckdb.connect() as cursor,
        cancellation.scope() as statement,
        pytest.raises(Cancelled),
        statement.on_cancel(cursor.interrupt),
    ):
        statement.cancel()
        time.sleep(0.3)  # DuckDB forgets what came before the query
        cursor.execute(SLOW)


def test_what_has_left_its_block_is_not_interrupted():
    calls = []
    with cancellation.scope() as statement:
        with pytest.raises(Cancelled), statement.on_cancel(lambda: calls.append(1)):
            statement.cancel()
            while not calls:
                time.sleep(0.01)
            raise BadRequest("interrupted")
        before = len(calls)
        time.sleep(0.2)
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
        with cancellation.shielded():
            cancellation.current().check()


def test_what_is_being_published_is_not_interrupted():
    calls = []
    with cancellation.scope() as statement:
        with statement.on_cancel(lambda: calls.append(1)), statement.publishing():
            statement.cancel()
            time.sleep(0.2)
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
        assert ended.wait(2)
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
        cancellation.limited(0.2, LimitExceeded("too long")),
        cancellation.current().on_cancel(cursor.interrupt),
    ):
        cursor.execute(SLOW)
    cancellation.current().check()


def test_a_pause_ends_early():
    with cancellation.scope() as statement:
        later(0.1, statement.cancel)
        began = time.monotonic()
        with pytest.raises(Cancelled):
            statement.wait(30)
        assert time.monotonic() - began < 2


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
        assert time.monotonic() - began < 2
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
