"""A statement whose stream breaks leaves the table as it was, wherever it breaks."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import grpc
import pyarrow as pa
import pytest

from jetbridge.client import Client, connect
from jetbridge.errors import BadRequest, ConstraintViolation, LimitExceeded, ServerError
from tests.faults.service.proxy import Cut, Frame, Proxy, Side, Verdict, before_half_close, forward
from tests.faults.service.sample import (
    COLUMNS,
    PATH,
    ROWS,
    new_values,
    only_rowids,
    some_rows,
    statement,
)
from tests.helpers.peers import RawExchange, channel_to, contents, spill_files
from tests.helpers.waiting import wait_until

BATCHES = 4
OPERATIONS = ("insert", "update", "delete")
HALF_CLOSES = 15
LONG = 500
BAD = 400

Breaker = Callable[[grpc.Channel, RawExchange, Proxy], None]
BREAKERS: dict[str, Breaker] = {
    "cancel": lambda _channel, exchange, _proxy: exchange.call.cancel(),
    "close": lambda channel, _exchange, _proxy: channel.close(),
    "reset": lambda _channel, _exchange, proxy: proxy.cut(Cut.RESET),
    "fin": lambda _channel, _exchange, proxy: proxy.cut(Cut.FIN),
}


PYTESTS_OWN = frozenset(spill_files(os.getpid()))


def staged() -> set[str]:
    """Return the files that the server has open for staged rows."""
    return set(spill_files(os.getpid())) - PYTESTS_OWN


def next_statement_works(witness: Client, before: pa.Table) -> None:
    """Check that nothing is left: no change, no open exchange, no file."""

    def place_is_free() -> bool:
        try:
            with witness.exchange("insert", *PATH, COLUMNS) as exchange:
                exchange.cancel()
        except LimitExceeded:
            return False
        return True

    wait_until(place_is_free)
    assert contents(witness, *PATH).equals(before)
    wait_until(lambda: not staged())


@contextmanager
def unchanged(witness: Client) -> Iterator[None]:
    before = contents(witness, *PATH)
    yield
    next_statement_works(witness, before)


def columns_of(operation: str) -> pa.Schema:
    return statement(operation, 1)[0].schema


def delivered(proxy: Proxy, start: int, exchange: RawExchange) -> bool:
    return proxy.client_bytes - start >= exchange.sent_bytes


@pytest.mark.sampled(6)
@pytest.mark.parametrize("arrived", [True, False], ids=["arrived", "on-its-way"])
@pytest.mark.parametrize("breaker", BREAKERS)
@pytest.mark.parametrize("returning", [False, True], ids=["plain", "returning"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_cut_after_every_message_leaves_the_table_as_it_was(
    witness, proxy, operation, returning, breaker, arrived
):
    batches = statement(operation, BATCHES)
    for after in range(BATCHES + 1):
        with unchanged(witness), channel_to(proxy.location) as channel:
            start = proxy.client_bytes
            exchange = RawExchange(channel, operation, PATH, batches[0].schema, returning)
            exchange.read()
            for batch in batches[:after]:
                exchange.write(batch)
            if arrived:
                wait_until(partial(delivered, proxy, start, exchange))
            BREAKERS[breaker](channel, exchange, proxy)
            assert exchange.ended() is not grpc.StatusCode.OK


@pytest.mark.sampled(4)
@pytest.mark.parametrize("breaker", BREAKERS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_cut_before_the_servers_schema_came_leaves_the_table_as_it_was(
    witness, proxy, operation, breaker
):
    for pause in (0, 0.001, 0.003):  # each cuts at another moment
        with unchanged(witness), channel_to(proxy.location) as channel:
            grpc.channel_ready_future(channel).result(10)
            exchange = RawExchange(channel, operation, PATH, columns_of(operation))
            time.sleep(pause)
            BREAKERS[breaker](channel, exchange, proxy)
            exchange.call.cancel()  # gRPC repeats by itself what it has not sent yet
            assert exchange.ended() is not grpc.StatusCode.OK


def run_whole(channel: grpc.Channel, batches: list[pa.RecordBatch], operation: str) -> RawExchange:
    """Run a statement that ends properly for the client."""
    exchange = RawExchange(channel, operation, PATH, batches[0].schema)
    exchange.read()
    for batch in batches:
        exchange.write(batch)
    exchange.half_close()
    return exchange


@pytest.mark.sampled(4)
@pytest.mark.parametrize("cut", Cut)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_cut_between_the_last_batch_and_the_half_close_publishes_nothing(
    witness, proxy, operation, cut
):
    cut_before_half_close(witness, proxy, operation, cut, HALF_CLOSES)


@pytest.mark.soak
@pytest.mark.parametrize("cut", Cut)
def test_thousand_cuts_before_the_half_close_publish_nothing(witness, proxy, cut):
    cut_before_half_close(witness, proxy, "insert", cut, 1000)


def cut_before_half_close(witness, proxy, operation, cut, times):
    batches = statement(operation, BATCHES)
    proxy.cut_by = cut
    before = contents(witness, *PATH)
    for _ in range(times):
        cuts = proxy.cuts
        with channel_to(proxy.location) as channel:
            grpc.channel_ready_future(channel).result(10)
            proxy.rule = before_half_close
            exchange = run_whole(channel, batches, operation)
            assert exchange.ended() is not grpc.StatusCode.OK
        assert proxy.cuts == cuts + 1
        next_statement_works(witness, before)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("verdict", [Verdict.HALF, Verdict.BREAK], ids=["half", "whole"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_cut_at_every_frame_publishes_all_or_nothing(witness, proxy, operation, verdict, side):
    """The last frames allow both: the client has ended, but its answer is lost."""
    batches = statement(operation, BATCHES)
    before = contents(witness, *PATH)
    for at in range(BATCHES + 3):
        with channel_to(proxy.location) as channel:
            grpc.channel_ready_future(channel).result(10)
            proxy.rule = at_frame(side, at, verdict)
            exchange = RawExchange(channel, operation, PATH, batches[0].schema, True)
            acknowledged = play(exchange, batches)
            proxy.rule = forward
        if acknowledged:
            return  # there are no more frames
        if side is Side.CLIENT:
            next_statement_works(witness, before)
            continue
        wait_until(lambda: not staged())
        if not contents(witness, *PATH).equals(before):
            assert at > BATCHES  # the server had been told that this was all
            return
    raise AssertionError("the statement has more frames than expected")


def at_frame(side: Side, number: int, verdict: Verdict) -> Callable[[Side, Frame], Verdict]:
    left = [number]

    def rule(at: Side, frame: Frame) -> Verdict:
        if at is not side or not frame.is_data:
            return Verdict.FORWARD
        left[0] -= 1
        return verdict if left[0] < 0 else Verdict.FORWARD

    return rule


def play(exchange: RawExchange, batches: list[pa.RecordBatch]) -> bool:
    """Run the statement; return whether it was acknowledged."""
    try:
        exchange.read()
        for batch in batches:
            exchange.write(batch)
        exchange.half_close()
        exchange.read()
    except grpc.RpcError:
        exchange.ended()
        return False
    exchange.ended()
    return True


def test_statement_through_the_proxy_is_published_when_nothing_breaks(witness, proxy):
    with channel_to(proxy.location) as channel:
        exchange = run_whole(channel, statement("delete", BATCHES), "delete")
        assert exchange.ended() is grpc.StatusCode.OK
    kept = contents(witness, *PATH)
    assert kept["id"].to_pylist() == list(range(8 * BATCHES, ROWS))


def as_text(batch: pa.RecordBatch, bad: str) -> pa.RecordBatch:
    ids = [str(i) for i in batch["id"].to_pylist()]
    return pa.record_batch([pa.array([*ids[:-1], bad or ids[-1]]), batch["v"]], ["id", "v"])


def with_null(batch: pa.RecordBatch) -> pa.RecordBatch:
    ids = pa.array([None, *batch["id"].to_pylist()[1:]], pa.int64())
    return pa.record_batch([ids, batch["v"]], ["id", "v"])


def with_negative(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = pa.array([*batch["v"].to_pylist()[:-1], -1.0])
    return pa.record_batch([batch["id"], values], ["id", "v"])


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["id", "v"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("returning", [False, True], ids=["plain", "returning"])
@pytest.mark.parametrize(
    ("good", "bad", "error"),
    [
        (lambda b: as_text(b, ""), lambda b: as_text(b, "many"), BadRequest),
        (plain, with_null, ConstraintViolation),
        (plain, with_negative, ConstraintViolation),
    ],
    ids=["cast", "not-null", "check"],
)
def test_error_in_batch_400_of_500_leaves_nothing(witness, good, bad, error, returning):
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(LONG):
            batch = some_rows(ROWS + 8 * number, 8)
            yield bad(batch) if number == BAD else good(batch)

    with unchanged(witness), pytest.raises(error):
        witness.insert(*PATH, batches(), returning=returning)


@pytest.mark.parametrize(
    ("operation", "bad"),
    [("update", new_values([10**9])), ("delete", only_rowids([10**9]))],
    ids=["update", "delete"],
)
def test_error_in_the_last_batch_of_a_change_leaves_nothing(witness, operation, bad):
    """The last batch has a row id that no row ever had."""
    batches = [*statement(operation, BATCHES), bad]
    with (
        unchanged(witness),
        pytest.raises(ServerError),
        witness.exchange(operation, *PATH, bad.schema) as exchange,
    ):
        for batch in batches:
            exchange.write(batch)


CLIENT = """
import sys, time, pyarrow as pa
from jetbridge.client import connect
from tests.faults.service.sample import COLUMNS, PATH, some_rows
client = connect(sys.argv[1], "memory")
exchange = client.exchange("insert", *PATH, COLUMNS, returning=True)
for number in range(50):
    exchange.write(some_rows(10_000 + 8 * number, 8))
print("written", flush=True)
time.sleep(600)  # until it is killed
"""


def test_client_killed_in_the_middle_of_an_insert_leaves_nothing(witness, narrow):
    with unchanged(witness):
        command = [sys.executable, "-c", CLIENT, narrow.location]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdout
            assert victim.stdout.readline() == "written\n"
            assert len(staged()) == 1
            victim.send_signal(signal.SIGKILL)


def test_client_that_raises_in_the_middle_of_an_insert_leaves_nothing(witness, narrow):
    with (
        unchanged(witness),
        connect(narrow.location, "memory") as other,
        pytest.raises(ZeroDivisionError),
        other.exchange("insert", *PATH, COLUMNS) as exchange,
    ):
        exchange.write(some_rows(1000, 8))
        raise ZeroDivisionError
