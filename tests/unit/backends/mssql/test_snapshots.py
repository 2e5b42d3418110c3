"""Reads of one moment on one connection: nobody waits, and nobody gets fewer rows unnoticed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.read import snapshots
from jetbridge.backends.mssql.read.snapshots import SnapshotReaders
from jetbridge.dialects.tsql import statements
from jetbridge.errors import Cancelled, Conflict, LimitExceeded, Unavailable
from tests.helpers.waiting import wait_until


class Connection:
    """Answers every question with ten rows, each a batch; `fails` after so many."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails: int | None = None
        self.refuses = False

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        if self.refuses:
            raise Cancelled("the call was cancelled")
        return []

    def stream(self, sql: str, parameters: Any):
        self.asked.append(sql)
        for number in range(10):
            if self.fails is not None and number >= self.fails:
                raise Unavailable("the connection is gone")
            yield pa.record_batch({"n": [number]})


class Server:
    def __init__(self) -> None:
        self.connection, self.lent, self.closed = Connection(), 0, 0

    @contextmanager
    def borrow_odbc(self):
        self.lent += 1
        try:
            yield self.connection
        except BaseException:
            self.closed += 1
            raise
        finally:
            self.lent -= 1


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def moments(server) -> Iterator[SnapshotReaders]:
    made = SnapshotReaders(cast(Any, server))
    yield made
    made.close()


def numbers(batches) -> list[int]:
    return [n for batch in batches for n in batch.column(0).to_pylist()]


def test_two_scans_share_a_connection_and_both_get_all_rows(server, moments):
    moment = moments.open()
    one = moment.stream("one", ())
    begun = numbers([next(one)])
    assert numbers(moment.stream("two", ())) == list(range(10))
    assert begun + numbers(one) == list(range(10))
    assert server.lent == 1
    del moment, one
    assert server.lent == 0


def test_rows_that_wait_for_a_second_query_are_bounded_by_the_staged_bytes(server):
    readers = SnapshotReaders(cast(Any, server), staged_bytes=40)  # five rows
    moment = readers.open()
    one = moment.stream("one", ())
    begun = numbers([next(one)])
    assert numbers(moment.stream("two", ())) == list(range(10))
    with pytest.raises(LimitExceeded, match="stages more than 40 bytes"):
        begun += numbers(one)
    readers.close()


def test_what_fails_is_told_to_the_one_whose_rows_they_are(server, moments):
    moment = moments.open()
    one = moment.stream("one", ())
    begun = numbers([next(one)])
    server.connection.fails = 5
    two = moment.stream("two", ())
    assert numbers([next(two)]) == [0]
    with pytest.raises(Unavailable):
        begun += numbers(one)
    assert begun == [0]


def test_a_scan_that_runs_keeps_its_moment(moments, monkeypatch):
    moment = moments.open()
    moment.may_lapse()
    scan = moment.stream("one", ())
    begun = numbers([next(scan)])
    monkeypatch.setattr(snapshots, "_IDLE_SECONDS", -1.0)
    monkeypatch.setattr(snapshots, "_MAX_OPEN", 0)
    others = [moments.open() for _ in range(3)]
    assert begun + numbers(scan) == list(range(10))
    moments.open()
    with pytest.raises(Conflict, match="start a new transaction"):
        numbers(moment.stream("two", ()))
    assert others


def test_rows_that_are_cut_do_not_end_as_if_there_were_no_more(moments):
    moment = moments.open()
    scan = moment.stream("one", ())
    next(scan)
    moments.close()
    with pytest.raises(Conflict, match="ended while rows were read"):
        numbers(scan)


def test_a_moment_that_may_lapse_gives_its_connection_back_by_itself(server, moments, monkeypatch):
    monkeypatch.setattr(snapshots, "_IDLE_SECONDS", 0.05)
    moment = moments.open()
    assert numbers(moment.stream("one", ())) == list(range(10))
    moment.may_lapse()
    wait_until(lambda: server.lent == 0, 10)
    with pytest.raises(Conflict, match="expired because it was idle"):
        next(moment.stream("two", ()))


def test_others_last_until_their_end(server, moments, monkeypatch):
    """A statement may do something else for long between two reads, or before the first."""
    monkeypatch.setattr(snapshots, "_IDLE_SECONDS", 0.02)
    lasting, unused, read = moments.open(), moments.open(), moments.open()
    unused.may_lapse()
    read.may_lapse()
    assert numbers(lasting.stream("one", ())) == list(range(10))
    rows = read.stream("one", ())
    next(rows)
    time.sleep(0.2)  # longer than they may be idle
    assert numbers(rows) == list(range(1, 10))
    assert numbers(lasting.stream("two", ())) == list(range(10))
    assert numbers(unused.stream("one", ())) == list(range(10))


def test_a_moment_that_could_not_begin_begins_at_the_next_question(server, moments):
    """Else those rows were read outside of its transaction."""
    moment = moments.open()
    server.connection.refuses = True
    with pytest.raises(Cancelled):
        next(moment.stream("one", ()))
    assert (server.lent, server.closed) == (0, 1)
    server.connection.refuses = False
    assert numbers(moment.stream("two", ())) == list(range(10))
    assert server.connection.asked == [statements.BEGIN_SNAPSHOT, statements.BEGIN_SNAPSHOT, "two"]
