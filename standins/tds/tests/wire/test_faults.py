"""What the server can be told to do wrong, as real drivers meet it."""

import contextlib
import random
import threading
import time
from typing import Any

import mssql_python
import pyarrow as pa
import pytest

from standins.tds.faults import Drop, Dropped, Fault, Faults, When
from standins.tds.server import Server
from standins.tds.tests import recordings
from standins.tds.tests.recordings import Player
from standins.tds.tests.replayed import ReplayEngine
from standins.tds.tests.wire.clients import core, odbc
from standins.tds.values import Count, SqlError
from standins.tds.wire.packets import Kind
from standins.tds.wire.prelogin import Encryption

SOURCE = pa.table(
    {"id": pa.array(range(50_000), pa.int32()), "v": [f"value {i}" for i in range(50_000)]}
)
SECONDS = 30.0
LOST = "Communication link failure|TCP Provider|08S01|onnection|closed|reset|I/O|os error"


def gone(server: Server) -> bool:
    """Wait until all connections have ended; return whether they have."""
    deadline = time.monotonic() + SECONDS
    while server.connections and time.monotonic() < deadline:
        time.sleep(0.01)
    return server.connections == 0


@pytest.mark.parametrize(("number", "severity"), [(1205, 13), (9002, 17), (2627, 14), (50001, 16)])
def test_load_fails_at_its_row_and_keeps_nothing(server, engine, number, severity):
    server.faults.add(Fault(When.BULK_ROW, at=30_000, number=number))
    connection = core(server)
    cursor = connection.cursor()
    with pytest.raises(RuntimeError, match=f"Sql Error: {number}: Class {severity}"):
        cursor.bulkcopy_arrow("dbo.t", SOURCE)
    assert engine.tables["t"].rows == []
    assert engine.sessions[0].loads[0].aborted
    cursor.bulkcopy_arrow("dbo.t", SOURCE)
    assert len(engine.tables["t"].rows) == 50_000
    connection.close()


def test_victim_of_a_deadlock_has_lost_its_transaction(server, engine):
    server.faults.add(Fault(When.BULK_ROW, at=10, number=1205))
    connection = core(server)
    cursor = connection.cursor()
    cursor.execute("BEGIN TRAN")
    cursor.execute("INSERT INTO t VALUES (77777, N'ledger')")
    with pytest.raises(RuntimeError, match="1205"):
        cursor.bulkcopy_arrow("dbo.t", SOURCE)
    cursor.execute("SELECT @@TRANCOUNT")
    assert cursor.fetchall() == [(0,)]
    assert engine.tables["t"].rows == []
    connection.close()


@pytest.mark.parametrize("how", list(Drop))
@pytest.mark.parametrize("when", [When.RECEIVED, When.SENT])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_connection_is_lost_at_a_packet(server, engine, how, when, at):
    """The question for the columns, INSERT BULK, the rows; each has one packet for an answer."""
    connection = core(server)
    server.faults.add(Fault(when, at=at, drop=how))
    cursor = connection.cursor()
    with pytest.raises(RuntimeError, match=LOST):
        cursor.bulkcopy_arrow("dbo.t", SOURCE.slice(0, 1000))
    assert gone(server)
    stored = 1000 if (when, at) == (When.SENT, 3) else 0
    assert len(engine.tables["t"].rows) == stored
    assert engine.sessions[0].closed
    assert [fault.when for fault in server.faults.fired] == [when]


@pytest.mark.parametrize(("how", "met"), [(Drop.RESET, "reset"), (Drop.FIN, "end")])
def test_connection_ends_in_the_way_that_was_asked_for(how, met):
    recording = recordings.load("01c_connect_pycore")
    server = Server(ReplayEngine(recording), encryption=Encryption.NONE)
    with server, Player(server.port) as player:
        player.log_in(recording)
        server.faults.add(Fault(When.SENT, drop=how))
        player.send_batch("SELECT 1")
        assert player.end() == met


def test_attention_undoes_an_unfinished_load_at_once():
    recording = recordings.load("06i_bulk_client_error_midway")
    engine = ReplayEngine(recording)
    with Server(engine, encryption=Encryption.NONE) as server, Player(server.port) as player:
        for exchange in player.play(recording, 1):
            last = exchange
        assert last.request.kind == Kind.ATTENTION
        assert [load.aborted for load in engine.sessions[0].loads] == [True]


def test_connections_lost_at_any_packet_leave_nothing_behind(server, engine):
    """Neither rows, unless their answer was on its way, nor threads."""
    dice = random.Random(11)
    source = SOURCE.slice(0, 1000)
    for _ in range(40):
        when, how = dice.choice([When.RECEIVED, When.SENT]), dice.choice(list(Drop))
        server.faults.add(Fault(when, at=dice.randint(1, 12), drop=how))
        with contextlib.suppress(RuntimeError):
            connection = core(server, connect_retry_count=0)
            connection.cursor().bulkcopy_arrow("dbo.t", source)
            connection.close()
        assert gone(server)
        server.faults.clear()
        assert len(engine.tables["t"].rows) in (0, 1000)
        engine.tables["t"].rows = []
    assert [each.name for each in threading.enumerate() if each.name.startswith("tds")] == [
        "tds-accept"
    ]


def test_open_transaction_is_rolled_back_when_the_connection_is_lost(server, engine):
    connection = core(server)
    cursor = connection.cursor()
    cursor.execute("BEGIN TRAN")
    cursor.execute("INSERT INTO t VALUES (1, N'one')")
    assert engine.tables["t"].rows == [(1, "one")]
    server.faults.add(Fault(When.RECEIVED, drop=Drop.RESET))
    with pytest.raises(RuntimeError, match=LOST):
        cursor.execute("SELECT 1")
    assert gone(server)
    assert engine.tables["t"].rows == []


@pytest.mark.parametrize("how", list(Drop))
@pytest.mark.parametrize("by_text", [True, False])
def test_commit_is_done_and_its_answer_lost(server, engine, how, by_text):
    server.faults.add(Fault(When.COMMITTED, drop=how))
    connection = odbc(server, autocommit=by_text)
    cursor = connection.cursor()
    if by_text:
        cursor.execute("BEGIN TRAN")
    cursor.execute("INSERT INTO t VALUES (1, N'one')")
    with pytest.raises(mssql_python.exceptions.Error):
        if by_text:
            cursor.execute("COMMIT")
        else:
            connection.commit()
    assert gone(server)
    assert engine.tables["t"].rows == [(1, "one")]


def test_load_is_stored_and_its_answer_lost(server, engine):
    server.faults.add(Fault(When.LOADED, drop=Drop.RESET))
    connection = core(server)
    with pytest.raises(RuntimeError, match=LOST):
        connection.cursor().bulkcopy_arrow("dbo.t", SOURCE)
    assert len(engine.tables["t"].rows) == 50_000


def test_nth_statement_that_matches_is_the_deadlock_victim(server, engine):
    server.faults.add(Fault(When.STATEMENT, at=2, times=2, pattern=r"insert\s+into", number=1205))
    with odbc(server) as connection:
        cursor = connection.cursor()
        fate = []
        for i in range(5):
            try:
                cursor.execute("SELECT 1")
                cursor.execute("INSERT INTO t VALUES (?, ?)", i, "x")
                fate.append("done")
            except mssql_python.exceptions.Error as error:
                fate.append(str(error))
    victim = [number for number, text in enumerate(fate) if "deadlock victim" in text]
    assert (victim, fate.count("done")) == ([1, 2], 3)
    assert engine.tables["t"].rows == [(0, "x"), (3, "x"), (4, "x")]


def test_slow_statement(server):
    server.faults.add(Fault(When.STATEMENT, pattern="SELECT 2", delay=0.3))
    with odbc(server) as connection:
        cursor = connection.cursor()
        times = []
        for number in (1, 2, 2):
            started = time.monotonic()
            assert cursor.execute(f"SELECT {number}").fetchone()[0] == number
            times.append(time.monotonic() - started)
    assert times[1] >= 0.3
    assert max(times[0], times[2]) < 0.3


def test_slow_packets(server, engine):
    engine.tables["t"].rows = [(i, "x" * 30) for i in range(1000)]
    connection = core(server)
    server.faults.add(Fault(When.SENT, times=None, delay=0.01))
    cursor = connection.cursor()
    started = time.monotonic()
    cursor.execute("SELECT * FROM t")
    assert len(cursor.fetchall()) == 1000
    assert time.monotonic() - started >= 0.15
    connection.close()


def test_logins_are_refused_for_a_while(server):
    server.faults.add(Fault(When.LOGIN, times=2, number=18456))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="18456"):
            core(server, connect_retry_count=0)
    core(server).close()


def test_fault_is_over_after_its_seconds(server):
    server.faults.add(Fault(When.LOGIN, times=None, number=18456, seconds=0.2))
    with pytest.raises(RuntimeError, match="18456"):
        core(server, connect_retry_count=0)
    time.sleep(0.25)  # the seconds of the fault
    core(server).close()


def test_stopped_server_ends_its_connections(engine):
    server = Server(engine, encryption=Encryption.NONE).start()
    connection = core(server)
    cursor = connection.cursor()
    cursor.execute("BEGIN TRAN")
    cursor.execute("INSERT INTO t VALUES (1, N'one')")
    server.stop()
    assert server.connections == 0
    assert engine.tables["t"].rows == []
    with pytest.raises(RuntimeError):
        cursor.execute("SELECT 1")


def test_client_that_goes_in_the_midst_of_a_statement_cancels_it():
    recording = recordings.load("01c_connect_pycore")
    engine = ReplayEngine(recording)
    entered, left = threading.Event(), threading.Event()

    def wait(session: Any, text: str, parameters: Any) -> Any:
        entered.set()
        if session.cancelled.wait(20):
            left.set()
        yield Count()

    engine.script["forever"] = wait
    with Server(engine, encryption=Encryption.NONE) as server:
        with Player(server.port) as player:
            player.log_in(recording)
            player.send_batch("forever")
            assert entered.wait(5)
        assert left.wait(5)
        assert gone(server)


def test_faults_count_from_when_they_are_set():
    faults = Faults()
    faults.meet(When.LOGIN)
    faults.add(Fault(When.LOGIN, at=2, times=2, number=1))
    fate = []
    for _ in range(5):
        try:
            faults.meet(When.LOGIN)
            fate.append(0)
        except SqlError as error:
            fate.append(error.number)
    assert fate == [0, 1, 1, 0, 0]
    assert len(faults.fired) == 2


def test_events_that_come_many_at_a_time_are_all_counted():
    faults = Faults()
    faults.add(Fault(When.BULK_ROW, at=1000, drop=Drop.FIN))
    faults.meet(When.BULK_ROW, 999)
    with pytest.raises(Dropped, match="fin"):
        faults.meet(When.BULK_ROW, 500)
    faults.meet(When.BULK_ROW, 5000)


def test_each_thread_that_meets_a_fault_fires_it_once():
    faults = Faults()
    faults.add(Fault(When.STATEMENT, times=100, number=1))
    hits: list[int] = []

    def meet() -> None:
        for _ in range(100):
            try:
                faults.meet(When.STATEMENT)
            except SqlError:
                hits.append(1)

    threads = [threading.Thread(target=meet) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hits) == 100
