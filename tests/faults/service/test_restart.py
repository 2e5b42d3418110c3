"""Servers that stop or are killed while clients insert and scan."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from jetbridge.client import Client, connect
from jetbridge.errors import ServerError, Unavailable
from jetbridge.service import Server
from tests.helpers.peers import ServerProcess
from tests.helpers.waiting import wait_until

COLUMNS = pa.schema([("statement", pa.int64()), ("part", pa.int64())])
WRITERS = 4
READERS = 2
ROWS = 600
DRAIN = 10
CONFIG = f"[server]\ndrain_seconds = {DRAIN}\n"


def statement_rows(number: int) -> pa.Table:
    return pa.table([[number] * ROWS, list(range(ROWS))], schema=COLUMNS)


class Load:
    """Run clients that insert and scan until the server ends."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.acknowledged: set[int] = set()
        self.torn: list[dict] = []
        self.errors: list[ServerError] = []
        self.tried = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        works = [self._write] * WRITERS + [self._read] * READERS
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in works]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads)

    def _run(self, work) -> None:
        with connect(self.location, "memory") as client:
            while not self._stop.is_set():
                try:
                    work(client)
                except ServerError as error:
                    self.errors.append(error)
                    return

    def _write(self, client: Client) -> None:
        with self._lock:
            number = self.tried
            self.tried += 1
        client.insert("s", "t", statement_rows(number), batch_rows=50)
        self.acknowledged.add(number)

    def _read(self, client: Client) -> None:
        counts = rows_per_statement(client)
        self.torn += [counts] * any(count != ROWS for count in counts.values())


def rows_per_statement(client: Client) -> dict[int, int]:
    found = client.read("s", "t").group_by("statement").aggregate([("part", "count")])
    return dict(zip(found["statement"].to_pylist(), found["part_count"].to_pylist(), strict=True))


def create(location: str) -> None:
    with connect(location, "memory") as client:
        client.create_schema("s")
        client.create_table("s", "t", COLUMNS)


def test_sigterm_under_load_finishes_what_it_acknowledged(tmp_path):
    """Acknowledged inserts are complete, others complete or absent; the exit code is 0."""
    with ServerProcess(tmp_path, CONFIG) as server:
        create(server.location)
        with connect(server.location, "memory") as witness, Load(server.location) as load:
            wait_until(lambda: len(load.acknowledged) > 20)
            with held_open(witness) as exchange:
                server.terminate()
                wait_until(lambda: len(load.errors) == WRITERS + READERS, seconds=DRAIN)
                # This statement was running, so the server waits for it.
                exchange.write(statement_rows(-1).to_batches()[0])
                assert exchange.finish() == ROWS
        begun = time.monotonic()
        assert server.wait() == 0
        assert time.monotonic() - begun < DRAIN
        assert load.torn == []
        # gRPC cancels a call that came in the very moment of the signal and never reached us.
        refusals = {"UNAVAILABLE", "CANCELLED"}
        assert [repr(each) for each in load.errors if each.status not in refusals] == []
        assert len(load.errors) == WRITERS + READERS
        assert "Traceback" not in server.log.read_text()


@contextmanager
def held_open(client: Client) -> Iterator:
    exchange = client.exchange("insert", "s", "t", COLUMNS)
    try:
        yield exchange
    finally:
        exchange.cancel()


def test_draining_server_keeps_every_acknowledged_insert_whole(catalog):
    """With a catalog that outlives its server, so that the test can read it afterwards."""
    with Server({"memory": catalog}, port=0) as server:
        server.start()
        create(server.location)
        with Load(server.location) as load:
            wait_until(lambda: len(load.acknowledged) > 20)
            server.stop(grace=DRAIN)
    with Server({"memory": catalog}, port=0) as again:
        again.start()
        with connect(again.location, "memory") as client:
            counts = rows_per_statement(client)
    assert set(counts.values()) == {ROWS}
    assert load.acknowledged <= set(counts) <= set(range(load.tried))
    assert load.torn == []


def test_statement_that_outlasts_the_drain_time_is_cut_and_leaves_nothing(catalog):
    with Server({"memory": catalog}, port=0) as server:
        server.start()
        create(server.location)
        with connect(server.location, "memory") as client, held_open(client) as exchange:
            exchange.write(statement_rows(0).to_batches()[0])
            begun = time.monotonic()
            server.stop(grace=0.5)
            assert time.monotonic() - begun < 15
            with pytest.raises(ServerError):
                exchange.finish()
    table = catalog.load_schema("s").load_table("t")
    assert table.count_rows() == 0


def test_killed_server_restarts_on_the_same_port_at_once(tmp_path):
    with ServerProcess(tmp_path, CONFIG) as server:
        create(server.location)
        with connect(server.location, "memory") as stale, Load(server.location) as load:
            wait_until(lambda: len(load.acknowledged) > 20)
            ticket_holder = stale.scan("s", "t")
            server.kill()
            wait_until(lambda: len(load.errors) == WRITERS + READERS)
            assert {type(each) for each in load.errors} == {Unavailable}
            with pytest.raises(Unavailable):
                stale.read("s", "t")
            check_fresh_server(tmp_path, server.port, stale, ticket_holder)


def check_fresh_server(tmp_path, port, stale, ticket_holder) -> None:
    """Check that the tables in memory are gone, and that a client with an old handle is told."""
    with ServerProcess(tmp_path, CONFIG, port) as again:
        assert again.port == port
        create(again.location)
        with connect(again.location, "memory") as client:
            client.insert("s", "t", statement_rows(1))
            assert client.read("s", "t").equals(statement_rows(1))
        wait_until(lambda: stale.health() == "SERVING")
        with ticket_holder, pytest.raises(ServerError, match="this server did not create"):
            ticket_holder.read_all()
        assert stale.read("s", "t").equals(statement_rows(1))
