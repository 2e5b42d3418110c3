"""Readers that are slow, disconnect or never come cost little, and affect no one else."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute
import pytest

from jetbridge.client import Client, ScanReader, connect
from jetbridge.errors import LimitExceeded
from tests.helpers.peers import ServerProcess
from tests.helpers.waiting import wait_until

ROWS = 2_000_000
SCANS = 24
COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])
MIB = 1024 * 1024
# Of each endpoint a message is being made, one is on its way, and gRPC has its own buffers.
PER_STREAM = 6 * MIB
STREAMS_PER_READER = 8
PER_READER = STREAMS_PER_READER * PER_STREAM
CONFIG = f"[limits]\nscans = {SCANS}\n"


@pytest.fixture(scope="module")
def big(tmp_path_factory) -> Iterator[ServerProcess]:
    """Start a server with a table larger than all memory that readers may cost."""
    with ServerProcess(tmp_path_factory.mktemp("big"), CONFIG) as server:
        with connect(server.location, "memory") as client:
            client.create_schema("s")
            client.create_table("s", "big", COLUMNS)
            client.create_table("s", "other", COLUMNS)
            client.insert("s", "big", rows(), batch_rows=100_000)
            assert client.read("s", "big", ["id"]).num_rows == ROWS  # and warm
        yield server


@pytest.fixture
def client(big: ServerProcess) -> Iterator[Client]:
    with connect(big.location, "memory") as connected:
        yield connected


def rows() -> Iterator[pa.RecordBatch]:
    text = pa.array([f"a text that takes some room, number {i:060d}" for i in range(100_000)])
    for first in range(0, ROWS, len(text)):
        ids = pa.array(range(first, first + len(text)))
        yield pa.record_batch([ids, text], schema=COLUMNS)


def slow_reader(stack: ExitStack, client: Client) -> ScanReader:
    """Read one batch and ask for no more."""
    reader = stack.enter_context(client.scan("s", "big"))
    reader.read_next_batch()
    return reader


def until_refused(stack: ExitStack, server: ServerProcess) -> list[ScanReader]:
    readers = []
    with pytest.raises(LimitExceeded):
        while True:
            connected = stack.enter_context(connect(server.location, "memory"))
            readers.append(slow_reader(stack, connected))
            assert len(readers) <= SCANS
    return readers


def test_slow_readers_hold_a_bounded_amount_of_memory(big):
    before = big.rss
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(big.location, "memory")) for _ in range(3)]
        for each in clients:
            slow_reader(stack, each)
        for _ in range(10):  # memory that is not bounded grows with time
            time.sleep(0.1)
            assert big.rss - before < len(clients) * PER_READER


def test_slow_reader_blocks_neither_writers_nor_other_readers(big, client):
    with ExitStack() as stack:
        slow = slow_reader(stack, stack.enter_context(connect(big.location, "memory")))
        begun = time.monotonic()
        new = pa.table([[-1], ["new"]], schema=COLUMNS)
        client.insert("s", "big", new)
        client.insert("s", "other", new)
        assert client.read("s", "other").equals(new)
        found = client.read("s", "big", ["id", "rowid"])
        mine = found.filter(pa.compute.less(found["id"], 0))
        assert mine["id"].to_pylist() == [-1]
        assert client.delete("s", "big", mine["rowid"]).affected_rows == 1
        assert time.monotonic() - begun < 20
        rest = sum(batch.num_rows for batch in slow)
        assert 0 < rest < ROWS


def test_slow_reader_gets_every_row_of_its_snapshot_in_the_end(big, client):
    with client.scan("s", "big", ["id"]) as reader:
        first = reader.read_next_batch()
        time.sleep(0.3)  # a slow reader: the server has no room for more
        ids = pa.chunked_array([first["id"], *(batch["id"] for batch in reader)])
    assert ids.combine_chunks().sort().equals(pa.array(range(ROWS)))


def test_a_disconnected_reader_frees_its_place_and_its_memory_at_once(big, client):
    before = big.rss
    with ExitStack() as stack:
        readers = until_refused(stack, big)
        for reader in readers:
            reader.close()
        wait_until(lambda: can_scan(client), seconds=15)
    wait_until(lambda: big.rss - before < 2 * PER_READER, seconds=10, step=0.1)


def test_reader_whose_connection_closes_frees_its_place(big, client):
    with ExitStack() as stack:
        with ExitStack() as gone:
            until_refused(gone, big)
        wait_until(lambda: can_scan(client), seconds=5)
        slow_reader(stack, client)


def can_scan(client: Client) -> bool:
    try:
        with client.scan("s", "big", ["id"]) as reader:
            reader.read_next_batch()
    except LimitExceeded:
        return False
    return True


def test_readers_that_ask_for_endpoints_and_never_come_cost_nothing(big, client):
    with client.scan("s", "big"):
        before, threads = big.rss, big.threads
        for _ in range(200):
            client.scan("s", "big").close()  # no batch is asked for, so no DoGet begins
        assert big.rss - before < PER_READER
        assert big.threads <= threads + 2
        assert can_scan(client)
