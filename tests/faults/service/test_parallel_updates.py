"""The maximum of concurrent UPDATEs, each with an open exchange while its scan runs."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial

import pyarrow as pa
import pyarrow.compute
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import Client, connect
from jetbridge.config.model import Limits
from jetbridge.errors import Conflict, LimitExceeded
from jetbridge.expr import Column, Comparison, Constant
from jetbridge.service import Server
from tests.helpers.peers import contents
from tests.helpers.waiting import wait_until

AT_ONCE = 64
ROWS_EACH = 50
SECONDS = 60.0
COLUMNS = pa.schema([("id", pa.int64()), ("owner", pa.int64()), ("v", pa.int64())])
SENT = pa.schema([("v", pa.int64()), ("rowid", pa.int64())])


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    """Connect as many clients as the server accepts."""
    limits = Limits(exchanges=AT_ONCE, scans=AT_ONCE, concurrent_calls=3 * AT_ONCE)
    with ExitStack() as stack:
        server = stack.enter_context(Server({"memory": MemoryCatalog()}, port=0, limits=limits))
        server.start()
        made = [stack.enter_context(connect(server.location, "memory")) for _ in range(AT_ONCE + 1)]
        made[0].create_schema("s")
        made[0].create_table("s", "t", COLUMNS)
        made[0].insert("s", "t", starting_rows(), batch_rows=10_000)
        yield made


def starting_rows() -> pa.Table:
    ids = list(range(AT_ONCE * ROWS_EACH))
    owners = [i % AT_ONCE for i in ids]
    return pa.table([ids, owners, [0] * len(ids)], schema=COLUMNS)


def in_parallel(work: Callable[[int], object], count: int = AT_ONCE) -> list:
    """Run all works at once; report a deadlock as an error."""
    pool = ThreadPoolExecutor(count)
    running = [pool.submit(work, number) for number in range(count)]
    done, hanging = wait(running, timeout=SECONDS)
    pool.shutdown(wait=not hanging)
    assert not hanging, f"{len(hanging)} of {count} statements hang"
    return [each.result() for each in running]


def update(client: Client, owner: int, all_open: threading.Barrier, together: bool) -> bool:
    """Update as the DuckDB client: open the exchange, then scan, then stream the row ids."""
    mine = Comparison("=", Column("owner", "BIGINT"), Constant("BIGINT", owner))
    exchange = client.exchange("update", "s", "t", SENT)
    try:
        all_open.wait(SECONDS)
        with client.scan("s", "t", ["owner", "v", "rowid"], mine) as reader:
            for batch in reader:
                kept = pa.table(batch).filter(pa.compute.equal(batch["owner"], owner))
                values = pa.compute.add(kept["v"], owner + 1)
                for each in pa.table([values, kept["rowid"]], schema=SENT).to_batches():
                    exchange.write(each)
        if together:
            all_open.wait(SECONDS)
        exchange.finish()
    except Conflict:
        return False
    finally:
        exchange.cancel()
    return True


def update_as(clients: list[Client], owner: int, all_open: threading.Barrier, n: int) -> bool:
    return update(clients[n], owner, all_open, together=True)


def test_64_updates_of_different_rows_are_all_applied(clients):
    barrier = threading.Barrier(AT_ONCE)
    applied = in_parallel(lambda n: update(clients[n], n, barrier, together=False))
    assert applied == [True] * AT_ONCE
    found = contents(clients[0], "s", "t")
    assert found["v"].to_pylist() == [owner + 1 for owner in found["owner"].to_pylist()]
    assert found.select(["id", "owner"]).equals(starting_rows().select(["id", "owner"]))


def test_of_64_updates_of_the_same_rows_one_commits_and_the_others_abort(clients):
    owner = 7
    for round_ in range(1, 4):
        barrier = threading.Barrier(AT_ONCE)
        applied = in_parallel(partial(update_as, clients, owner, barrier))
        assert sorted(applied) == [False] * (AT_ONCE - 1) + [True]
        found = contents(clients[0], "s", "t")
        expected = [round_ * (owner + 1) if o == owner else 0 for o in found["owner"].to_pylist()]
        assert found["v"].to_pylist() == expected


def test_inserts_among_conflicting_updates_never_conflict(clients):
    barrier = threading.Barrier(AT_ONCE)

    def work(number: int) -> bool:
        if number % 2:
            return update(clients[number], 3, barrier, together=True)
        with clients[number].exchange("insert", "s", "t", COLUMNS) as exchange:
            barrier.wait(SECONDS)
            exchange.write(pa.record_batch([[10_000 + number], [-1], [number]], schema=COLUMNS))
            barrier.wait(SECONDS)
        return True

    applied = in_parallel(work)
    assert sum(applied) == AT_ONCE // 2 + 1
    found = contents(clients[0], "s", "t")
    new = found.filter(pa.compute.equal(found["owner"], -1)).sort_by("id").select(COLUMNS.names)
    numbers = list(range(0, AT_ONCE, 2))
    inserted = [[10_000 + n for n in numbers], [-1] * len(numbers), numbers]
    assert new.equals(pa.table(inserted, schema=COLUMNS))


def test_one_exchange_above_the_limit_is_refused_at_once(clients):
    with ExitStack() as stack:
        held = [client.exchange("insert", "s", "t", COLUMNS) for client in clients[:AT_ONCE]]
        for exchange in held:
            stack.callback(exchange.cancel)
        begun = time.monotonic()
        with pytest.raises(LimitExceeded, match=f"{AT_ONCE} exchanges are running"):
            clients[AT_ONCE].exchange("insert", "s", "t", COLUMNS)
        assert time.monotonic() - begun < 15
        assert clients[AT_ONCE].read("s", "t", ["id"]).num_rows == AT_ONCE * ROWS_EACH
    wait_until(lambda: has_room(clients[AT_ONCE]))


def has_room(client: Client) -> bool:
    try:
        client.exchange("insert", "s", "t", COLUMNS).cancel()
    except LimitExceeded:
        return False
    return True
