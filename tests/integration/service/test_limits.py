"""Every limit: what is over it is refused by name, what is under it still runs."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import Client, connect
from jetbridge.errors import BadRequest, DuplicateKey, LimitExceeded
from jetbridge.service import Limits, Server
from jetbridge.wire.flight_pb2 import Ticket
from tests.helpers.raw import SERVICE, Raw, said
from tests.helpers.waiting import wait_until_it_succeeds

NUMBER = pa.schema([("n", pa.int64())])
HERE = ("s", "t")


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": np.arange(first, first + count)}, NUMBER)


@contextmanager
def limited(catalog: MemoryCatalog | None = None, **limits: int) -> Iterator[tuple[Client, Raw]]:
    with Server({"memory": catalog or MemoryCatalog()}, port=0, limits=Limits(**limits)) as server:
        server.start()
        with connect(server.location, "memory") as client, Raw(server.location) as caller:
            client.create_schema("s")
            client.create_table("s", "t", NUMBER)
            yield client, caller


def stored(client: Client) -> list[int]:
    found: list[int] = client.read("s", "t").column("n").to_pylist()
    return sorted(found)


def eventually(succeeds: Callable[[], Any]) -> Any:
    """Wait for what follows a moment after the server has learned of it."""
    return wait_until_it_succeeds(succeeds, LimitExceeded, AssertionError, grpc.RpcError)


@pytest.mark.parametrize("returning", [False, True])
def test_message_over_the_limit_is_refused_with_both_sizes(returning):
    with limited(message_bytes=100_000) as (client, _):
        with pytest.raises(LimitExceeded, match=r"larger than max \(\d+ vs\. 100000\)"):
            client.insert("s", "t", numbers(20_000), returning=returning, batch_rows=20_000)
        assert stored(client) == []
        client.insert("s", "t", numbers(20_000), returning=returning, batch_rows=10_000)
        assert stored(client) == list(range(20_000))


def test_action_over_the_limit_is_refused_with_both_sizes():
    with limited(message_bytes=100_000) as (_, raw), pytest.raises(grpc.RpcError) as refused:
        raw.action("create_schema", {"schema": "x" * 100_000})
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "vs. 100000" in said(refused)


@pytest.mark.parametrize("returning", [False, True])
def test_batch_of_too_many_rows_is_refused(returning):
    with limited(batch_rows=10) as (client, _):
        with pytest.raises(LimitExceeded, match=r"11 rows is over limits\.batch_rows \(10\)"):
            client.insert("s", "t", numbers(11), returning=returning)
        assert stored(client) == []
        client.insert("s", "t", numbers(20), returning=returning, batch_rows=10)
        assert stored(client) == list(range(20))


def test_batches_are_sent_with_no_more_rows_than_the_limit():
    with limited(batch_rows_out=7) as (client, raw):
        client.insert("s", "t", numbers(20))
        (answer,) = raw.scan(HERE)
        assert max(batch.num_rows for batch in answer.batches) <= 7
        assert sorted(row["n"] for row in answer.rows) == list(range(20))


def test_exchange_over_the_limit_is_refused_while_scans_go_on():
    with limited(exchanges=2, scans=1) as (client, _):
        client.insert("s", "t", numbers(3))
        first = client.exchange("insert", "s", "t", NUMBER)
        second = client.exchange("insert", "s", "t", NUMBER)
        with pytest.raises(LimitExceeded, match="2 exchanges are running"):
            client.insert("s", "t", numbers(1))
        assert stored(client) == [0, 1, 2]
        second.cancel()
        eventually(lambda: client.insert("s", "t", numbers(1, first=7)))
        first.write(numbers(1, first=8))
        assert first.finish() == 1
        assert stored(client) == [0, 1, 2, 7, 8]


def test_scan_over_the_limit_is_refused_while_exchanges_go_on():
    with limited(exchanges=1, scans=1) as (client, raw):
        client.insert("s", "t", numbers(1_000_000), batch_rows=500_000)
        ticket = raw.endpoints(HERE)[0].ticket
        held: Any = raw.channel.unary_stream(SERVICE + "DoGet", Ticket.SerializeToString, None)
        running = held(ticket)
        assert [next(running), next(running)]
        with pytest.raises(LimitExceeded, match="1 scans are running"):
            client.read("s", "t")
        client.insert("s", "t", numbers(1, first=-1))
        running.cancel()
        answer = eventually(lambda: raw.get(ticket))
        assert set(answer.batches[0].column("n").to_pylist()) <= set(range(1_000_000))


def test_call_over_the_limit_is_refused_and_later_ones_are_not():
    with limited(concurrent_calls=2, exchanges=2, scans=1) as (client, _):
        held = [client.exchange("insert", "s", "t", NUMBER, returning=True) for _ in range(2)]
        for statement in held:
            assert statement.write(numbers(1)) is not None  # so the server has seen it
        with pytest.raises(LimitExceeded, match="Concurrent RPC limit exceeded"):
            client.catalog_version()
        for statement in held:
            statement.cancel()
        assert eventually(client.catalog_version).number == 3


@pytest.mark.parametrize("returning", [False, True])
def test_statement_that_stages_too_much_is_refused_and_leaves_nothing(returning):
    with limited(staged_bytes=100_000, spill_bytes=50_000) as (client, _):
        with pytest.raises(LimitExceeded, match=r"100000 bytes.*limits\.staged_bytes"):
            client.insert("s", "t", numbers(20_000), returning=returning, batch_rows=1000)
        assert stored(client) == []
        client.insert("s", "t", numbers(10_000), returning=returning, batch_rows=1000)
        client.insert("s", "t", numbers(10_000), returning=returning, batch_rows=1000)
        assert len(stored(client)) == 20_000


@pytest.mark.parametrize("returning", [b"0", b"1"])
def test_compressed_batches_count_as_what_they_unpack_to(returning):
    zeros = pa.RecordBatch.from_pydict({"n": np.zeros(20_000, np.int64)}, NUMBER)
    headers = [(b"airport-operation", b"insert"), (b"return-chunks", returning)]
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    options = flight.FlightCallOptions(headers=headers, write_options=packed, timeout=30)
    with limited(staged_bytes=100_000, spill_bytes=50_000) as (client, _):
        with flight.connect(client.location) as caller:
            path = flight.FlightDescriptor.for_path(*HERE)
            writer, reader = caller.do_exchange(path, options)
            writer.begin(NUMBER)
            writer.write_batch(zeros)
            writer.done_writing()
            with pytest.raises(pa.ArrowException, match=r"100000 bytes.*limits\.staged_bytes"):
                list(reader)
            with suppress(pa.ArrowException):
                writer.close()
        assert stored(client) == []


def test_open_transactions_are_kept_up_to_the_limit():
    catalog = MemoryCatalog()
    with Server({"memory": catalog}, port=0, limits=Limits(transactions=10)) as server:
        server.start()
        with connect(server.location, "memory") as client:
            identifiers = {client.create_transaction() for _ in range(50)}
        assert (len(identifiers), len(server.transactions)) == (50, 10)


# --- spilling


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Return the folder in which this process makes its temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path: Path = tmp_path
    return path


def spilled(folder: Path) -> list[str]:
    """Return files in the folder, and open ones without a name."""
    links = (link for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    opened = []
    for link in links:
        try:
            opened.append(str(link.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    found = {name for name in opened if name.startswith(str(folder))}
    return sorted(found | set(map(str, folder.iterdir())))


@pytest.fixture
def spilling(folder) -> Iterator[Client]:
    with limited(MemoryCatalog(spill_bytes=20_000)) as (client, _):
        yield client


def test_small_statement_is_not_spilled(spilling, folder):
    with spilling.exchange("insert", "s", "t", NUMBER, returning=True) as statement:
        statement.write(numbers(100))
        assert spilled(folder) == []
    assert stored(spilling) == list(range(100))


def test_large_insert_is_spilled_and_the_file_is_gone_when_it_is_done(spilling, folder):
    with spilling.exchange("insert", "s", "t", NUMBER, returning=True) as statement:
        for first in range(0, 20_000, 1000):
            statement.write(numbers(1000, first))
        assert len(spilled(folder)) == 1
        assert statement.finish() == 20_000
    eventually(lambda: none_of(spilled(folder)))
    assert stored(spilling) == list(range(20_000))


def test_large_update_is_spilled_and_the_file_is_gone_when_it_is_done(spilling, folder):
    spilling.insert("s", "t", numbers(10_000))
    sent = pa.schema([("n", pa.int64()), ("rowid", pa.int64())])
    with spilling.exchange("update", "s", "t", sent, returning=True) as statement:
        for first in range(0, 10_000, 1000):
            ids = np.arange(first, first + 1000)
            statement.write(pa.RecordBatch.from_pydict({"n": -ids, "rowid": ids}, sent))
        assert len(spilled(folder)) == 1
    eventually(lambda: none_of(spilled(folder)))
    assert stored(spilling) == sorted(range(0, -10_000, -1))


def test_file_is_gone_after_a_cancelled_insert(spilling, folder):
    statement = spilling.exchange("insert", "s", "t", NUMBER, returning=True)
    for first in range(0, 20_000, 1000):
        statement.write(numbers(1000, first))
    assert len(spilled(folder)) == 1
    statement.cancel()
    eventually(lambda: none_of(spilled(folder)))
    assert stored(spilling) == []


def test_file_is_gone_after_an_insert_that_failed(spilling, folder):
    spilling.add_constraint("s", "t", "UNIQUE(n)")
    with pytest.raises(DuplicateKey):
        spilling.insert("s", "t", [numbers(20_000), numbers(1)])
    with pytest.raises(BadRequest):
        spilling.insert("s", "t", [numbers(20_000), numbers(1).rename_columns(["m"])])
    eventually(lambda: none_of(spilled(folder)))
    assert stored(spilling) == []


def none_of(files: list[str]) -> None:
    assert files == []
