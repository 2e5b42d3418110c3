"""The server as a command: where it listens, what it can be told, and clients that need it so."""

import contextlib
import time
from typing import Any

import pytest

from standins.tds.tests.server_process import running
from standins.tds.tests.wire.clients import core, free, odbc, tds

ROWS = [(i, f"row {i}" if i % 3 else None) for i in range(1000)]


def stored(server: Any) -> list[tuple[Any, ...]]:
    with tds(server) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM t")
        return [tuple(row) for row in cursor.fetchall()]


@pytest.fixture(scope="module")
def server() -> Any:
    with running("--port", "0") as process:
        yield process


@pytest.fixture
def empty(server: Any) -> Any:
    with tds(server) as connection:
        connection.cursor().execute("DELETE FROM t")
    server.order(clear=True)
    return server


def test_pymssql_loads_rows(empty):
    connection = free(empty)
    connection.bulk_copy("t", [(i, v or "x") for i, v in ROWS])
    connection.commit()
    connection.close()
    assert stored(empty) == [(i, v or "x") for i, v in ROWS]


@pytest.mark.parametrize("through_odbc", [False, True])
def test_rows_given_as_tuples_are_loaded(empty, through_odbc):
    connection = odbc(empty) if through_odbc else core(empty)
    with contextlib.closing(connection):
        connection.cursor().bulkcopy("dbo.t", iter(ROWS))
    assert stored(empty) == ROWS


def test_arrow_reader_streams_batches(server):
    with odbc(server) as connection:
        batches = list(connection.cursor().execute("SELECT * FROM many").arrow_reader(50_000))
    assert [batch.num_rows for batch in batches] == [50_000] * 4
    ids = [i for batch in batches for i in batch.column(0).to_pylist()]
    texts = [v for batch in batches for v in batch.column(1).to_pylist()]
    assert ids == list(range(200_000))
    assert texts == [f"value {i}" if i % 7 else None for i in range(200_000)]


def test_reader_that_is_closed_early_stops_the_server(server):
    with odbc(server) as connection:
        cursor = connection.cursor()
        reader = cursor.execute("SELECT endless").arrow_reader(10)
        assert reader.read_next_batch().column(0).to_pylist() == list(range(10))
        started = time.monotonic()
        reader.close()
        assert tuple(cursor.execute("SELECT 1").fetchone()) == (1,)
        assert time.monotonic() - started < 10


def test_it_counts_and_tells(empty):
    before = empty.order(counts=True)
    with tds(empty) as connection:
        connection.cursor().execute("SELECT 42")
    after = empty.order(counts=True)
    assert after["connections"] == before["connections"] + 1
    assert after["batches"] == [*before["batches"], "SELECT 42"]
    assert empty.order(bulk_rows=True) == {"bulk_rows": after["bulk_rows"]}


def test_faults_are_set_by_a_line(empty):
    told = empty.order(fault={"when": "statement", "pattern": "^SELECT", "number": 1205})
    assert told == {"ok": True}
    with tds(empty) as connection:
        cursor = connection.cursor()
        with pytest.raises(Exception, match="chosen as the deadlock victim"):
            cursor.execute("SELECT 1")
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
    assert [each["number"] for each in empty.order(counts=True)["fired"]] == [1205]


@pytest.mark.parametrize(
    ("order", "answer"),
    [
        ({"fault": {"when": "never"}}, "ValueError: 'never' is not a valid When"),
        ({"fault": {"wen": "login"}}, "TypeError"),
        ({"fault": {"when": "sent", "number": 1}}, "ValueError: a packet can be slow or lost"),
        ({"jump": True}, "KeyError: 'jump'"),
    ],
)
def test_wrong_orders_are_refused(empty, order, answer):
    assert empty.order(**order)["error"].startswith(answer)


def test_encryption_is_required_by_an_option():
    with running("--tls", "required") as server:
        with odbc(server) as connection:
            assert tuple(connection.cursor().execute("SELECT 1").fetchone()) == (1,)
        with pytest.raises(Exception, match="it is required by server"):
            tds(server)
