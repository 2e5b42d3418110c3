"""Quotas of a token: its calls never take the resources that other tokens need.

Attacked: eight cancelled `pg_sleep(60)` of one token refused the scans of another for a minute.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from jetbridge.app.run_function import statements_for_clients, with_run_function
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.memory.store import Store
from jetbridge.catalog.backend import SharedResources
from jetbridge.client import Client, connect
from jetbridge.config import Config
from jetbridge.config.model import Shares
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.errors import LimitExceeded
from jetbridge.service import Limits, Server, Token
from jetbridge.service.admission import time_limit
from jetbridge.wire.flight_pb2 import Ticket
from tests.helpers.raw import SERVICE, Raw
from tests.helpers.waiting import wait_until
from tests.integration.service.test_limits import eventually
from tests.security.cancelled.running import AT_ONCE, Caller, status, wait_until_left

ADA, BOB = "ada's token", "bob's token"
NUMBER = pa.schema([("n", pa.int64())])
LONG = "SELECT count(*) AS n FROM range(300000) x(a), range(300000) y(b) WHERE hash(a, b) = 0"


def numbers(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": np.arange(count)}, NUMBER)


@contextmanager
def serving(rows: int = 1000, **limits: Any) -> Iterator[tuple[Server, Client, Client]]:
    """Start a server with two tokens, and a client for each."""
    catalogs = {"m": MemoryCatalog()}
    processes = StatementProcesses()
    resources = SharedResources(Limits(), None)
    execute = statements_for_clients(Config(), resources, catalogs, processes)
    offered = {name: with_run_function(each, name, execute) for name, each in catalogs.items()}
    tokens = [Token("ada", ADA), Token("bob", BOB)]
    fill(catalogs["m"], rows)
    with processes, Server(offered, port=0, tokens=tokens, limits=Limits(**limits)) as server:
        server.start()
        with (
            connect(server.location, "m", token=ADA) as ada,
            connect(server.location, "m", token=BOB) as bob,
        ):
            yield server, ada, bob


def fill(catalog: MemoryCatalog, rows: int) -> None:
    """Fill a table by another server, which has no limits."""
    with Server({"m": catalog}, port=0) as server:
        server.start()
        with connect(server.location, "m") as client:
            client.create_schema("s")
            for name in ("t", "small"):
                client.create_table("s", name, NUMBER)
            for first in range(0, rows, 1_000_000):
                client.insert("s", "t", numbers(min(rows - first, 1_000_000)))


def read(client: Client) -> int:
    count: int = client.read("s", "t").num_rows
    return count


def test_scans_of_one_token_leave_room_for_those_of_another() -> None:
    """By default one token can use half of the calls."""
    with (
        serving(scans=4) as (server, _, __),
        Caller(server.location, "m", ADA) as ada,
        Raw(server.location, ("authorization", f"Bearer {BOB}")) as bob,
    ):
        held = [ada.start(LONG) for _ in range(2)]
        refused = eventually(lambda: refused_at_once(ada.start(LONG)))
        assert "2 scans of token 'ada'" in refused
        assert "limits.scans_per_token" in refused
        for _ in range(3):
            assert [len(answer.rows) for answer in bob.scan(("s", "t"))] == [1000]
        for call in held:
            call.cancel()


def refused_at_once(call: Any) -> str:
    """Return the error of the server; fail if it runs the statement."""
    try:
        wait_until(lambda: not call.is_active(), 1)
    finally:
        call.cancel()
    details: str = call.details()
    return details


def test_exchanges_of_one_token_leave_room_for_those_of_another() -> None:
    with serving(exchanges=3, exchanges_per_token=2) as (_, ada, bob):
        held = [ada.exchange("insert", "s", "t", NUMBER, returning=True) for _ in range(2)]
        for statement in held:
            statement.write(numbers(1))
        with pytest.raises(LimitExceeded, match=r"2 exchanges of token 'ada'"):
            ada.insert("s", "t", numbers(1))
        assert bob.insert("s", "t", numbers(1)).affected_rows == 1
        for statement in held:
            statement.cancel()


def test_calls_of_one_token_that_never_send_leave_room_for_those_of_another() -> None:
    silent = threading.Event()
    with (
        serving(concurrent_calls=20, exchanges=10, scans=10) as (server, _, bob),
        Raw(server.location, ("authorization", f"Bearer {ADA}")) as raw,
    ):
        calls = [raw.both_ways("DoAction", silence(silent)) for _ in range(60)]
        wait_until(lambda: len(running(calls)) <= 10)
        for _ in range(20):
            assert read(bob) == 1000
        assert len(running(calls)) == 10
        refused = [call for call in calls if not call.is_active()]
        assert {call.code() for call in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert "10 calls of token 'ada'" in refused[0].details()
        for call in calls:
            call.cancel()
        silent.set()


def silence(ended: threading.Event) -> Iterator[bytes]:
    ended.wait(60)
    yield from ()


def running(calls: list[Any]) -> list[Any]:
    return [call for call in calls if call.is_active()]


def test_what_a_token_may_stage_counts_over_all_of_its_statements() -> None:
    with serving(staged_bytes=100_000, staged_bytes_per_token=150_000, spill_bytes=1000) as given:
        _, ada, bob = given
        held = ada.exchange("insert", "s", "t", NUMBER, returning=True)
        held.write(numbers(10_000))
        with pytest.raises(LimitExceeded, match=r"token 'ada'.*150000.*staged_bytes_per_token"):
            ada.insert("s", "t", numbers(10_000))
        assert bob.insert("s", "t", numbers(10_000)).affected_rows == 10_000
        held.cancel()
        again = eventually(lambda: ada.insert("s", "t", numbers(10_000)))
        assert again.affected_rows == 10_000


def test_without_several_tokens_there_is_no_quota() -> None:
    with Server({"m": MemoryCatalog()}, port=0, limits=Limits(exchanges=2)) as server:
        server.start()
        with connect(server.location, "m") as client:
            client.create_schema("s")
            client.create_table("s", "t", NUMBER)
            held = client.exchange("insert", "s", "t", NUMBER, returning=True)
            held.write(numbers(1))
            assert client.insert("s", "t", numbers(1)).affected_rows == 1
            assert held.finish() == 1


# --- time


def test_a_statement_that_takes_too_long_ends_with_the_limit() -> None:
    with serving(statement_seconds=0.5) as (server, ada, _):
        with Caller(server.location, "m", ADA) as caller:
            call = caller.start(f"CREATE TABLE m.s.made AS {LONG}")
            assert status(call) is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "limits.statement_seconds" in call.details()
        assert [table.name for table in ada.list_flights("s")] == ["small", "t"]


@pytest.fixture
def slow_commits(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From this call on, publishing takes longer than a statement may take."""
    replace = Store._replace

    def replace_slowly(*given: Any) -> Any:
        time.sleep(2.8)  # more than the two seconds of a statement
        return replace(*given)

    return lambda: monkeypatch.setattr(Store, "_replace", replace_slowly)


def test_an_insert_whose_time_ends_while_it_is_published_is_answered(slow_commits) -> None:
    """An error would make its caller run it again."""
    with serving(statement_seconds=2) as (_, ada, bob):
        slow_commits()
        assert ada.insert("s", "t", numbers(5)).affected_rows == 5
        assert read(bob) == 1005


@pytest.mark.sampled(2)
@pytest.mark.parametrize("more", ["", "; INSERT INTO m.s.t VALUES (8)"])
def test_no_statement_begins_after_the_one_whose_time_ended(slow_commits, more) -> None:
    with serving(statement_seconds=2) as (server, _, bob):
        with Caller(server.location, "m", ADA) as caller:
            caller.run("SELECT 1")  # the first one takes longer
            slow_commits()
            call = caller.start(f"INSERT INTO m.s.t VALUES (7){more}")
            ended = grpc.StatusCode.RESOURCE_EXHAUSTED if more else grpc.StatusCode.OK
            assert status(call) is ended
        assert read(bob) == 1001


def test_an_exchange_that_waits_for_its_caller_too_long_is_undone() -> None:
    with serving(statement_seconds=0.5) as (_, ada, bob):
        held = ada.exchange("insert", "s", "t", NUMBER, returning=True)
        held.write(numbers(5))
        time.sleep(1)  # longer than a statement may wait
        with pytest.raises(LimitExceeded, match="statement_seconds"):
            held.finish()
        assert read(bob) == 1000


def test_a_scan_that_its_caller_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "_GRACE_SECONDS", 0.2)
    with (
        serving(5_000_000, statement_seconds=2, scans=2, scans_per_token=1) as (server, _, __),
        Raw(server.location, ("authorization", f"Bearer {ADA}")) as ada,
    ):
        small, large = (ada.endpoints(("s", name))[0].ticket for name in ("small", "t"))
        held: Any = ada.channel.unary_stream(SERVICE + "DoGet", Ticket.SerializeToString, None)
        unread = held(large, metadata=ada.headers)
        assert next(unread)
        with pytest.raises(grpc.RpcError, match="scans_per_token"):
            ada.get(small)
        assert eventually(lambda: ada.get(small)).rows == []
        assert status(unread) is not grpc.StatusCode.OK


def test_cancelled_statements_of_one_token_do_not_starve_another() -> None:
    with (
        serving(scans=8, exchanges=8) as (server, _, bob),
        Caller(server.location, "m", ADA) as caller,
    ):
        for _ in range(2):
            calls = [caller.start(LONG) for _ in range(8)]
            wait_until(lambda: len(running(calls)) <= 4)  # noqa: B023 - called at once
            for _ in range(4):
                assert read(bob) == 1000
            # He waited for none of hers, which take minutes, and they took no place of his.
            assert len(running(calls)) == 4
            for call in calls:
                call.cancel()
                assert read(bob) == 1000
            wait_until_left(server)
        caller.run("SELECT 1")  # and ada has hers back


# --- time of all statements of one token


def test_statements_of_one_token_that_took_too_long_together_end_and_no_other_begins() -> None:
    """Statements of another token still run and begin."""
    with (
        serving(statement_seconds_per_token=20) as (server, ada, bob),
        Caller(server.location, "m", ADA) as caller,
        Caller(server.location, "m", BOB) as other,
    ):
        held = bob.exchange("insert", "s", "t", NUMBER, returning=True)
        held.write(numbers(1))
        began, waits = time.monotonic(), []
        calls = [caller.start(LONG, 60) for _ in range(5)]
        with ThreadPoolExecutor(len(calls)) as pool:
            ends = [pool.submit(status, call) for call in calls]
            while not all(end.done() for end in ends):
                asked = time.monotonic()
                other.run("SELECT 1")
                waits.append(time.monotonic() - asked)
        assert {end.result() for end in ends} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        for call in calls:
            assert "token 'ada' took 20 seconds within an hour" in call.details()
            assert "or raise limits.statement_seconds_per_token" in call.details()
        assert time.monotonic() - began < 20, "five at a time use it five times as fast"
        assert max(waits) < AT_ONCE
        with pytest.raises(LimitExceeded, match=r"token 'ada' took 20 seconds.*try again in"):
            ada.insert("s", "t", numbers(1))
        held.write(numbers(2))
        assert held.finish() == 3
        assert read(bob) == 1003


@pytest.mark.full
def test_time_that_was_used_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "_WINDOW_SECONDS", 6.0)
    with (
        serving(statement_seconds_per_token=1) as (server, ada, _),
        Caller(server.location, "m", ADA) as caller,
    ):
        assert status(caller.start(LONG, 60)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError, match="statement_seconds_per_token"):
            caller.run("SELECT 1")
        eventually(lambda: read(ada))


def test_statements_that_were_cancelled_count() -> None:
    with (
        serving(statement_seconds_per_token=1) as (server, _, bob),
        Caller(server.location, "m", ADA) as caller,
    ):
        with pytest.raises(grpc.RpcError, match="token 'ada' took 1 seconds"):
            for _ in range(5):
                call = caller.start(LONG)
                time.sleep(0.4)  # these seconds count
                call.cancel()
        assert read(bob) == 1000


def test_an_insert_that_is_published_when_the_time_of_its_token_ends_is_answered(
    slow_commits,
) -> None:
    with serving(statement_seconds_per_token=2) as (_, ada, bob):
        slow_commits()
        assert ada.insert("s", "t", numbers(5)).affected_rows == 5
        assert read(bob) == 1005
        with pytest.raises(LimitExceeded, match="statement_seconds_per_token"):
            read(ada)


@pytest.mark.parametrize(
    ("setting", "tokens", "seconds"), [(None, 2, 1800), (None, 1, None), (7.5, 2, 7.5), (7, 1, 7)]
)
def test_one_of_several_tokens_may_use_half_of_the_time_by_default(setting, tokens, seconds):
    limits = Limits(concurrent_calls=1, statement_seconds_per_token=setting)
    assert Shares.of(limits, tokens).hourly_seconds == seconds
