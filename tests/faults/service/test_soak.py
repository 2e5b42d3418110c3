"""Minutes of everything at once; `make soak` runs it and keeps a summary."""

import json
import os
import platform
import random
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest

from jetbridge.client import connect
from jetbridge.errors import LimitExceeded
from tests.faults.service.barrage import CONFIG, Barrage
from tests.faults.service.crowd import (
    ACCOUNT_COLUMNS,
    SHARED,
    Member,
    money_is_all_there,
    open_accounts,
    run_members,
)
from tests.faults.service.proxy import Cut, Proxy
from tests.faults.service.sample import COLUMNS, PATH, some_rows, statement
from tests.faults.service.test_mutated_requests import survive
from tests.helpers.peers import RawExchange, ServerProcess, channel_to, contents
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.soak

RESULT = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "soak.json"
CUTS = 50
CROWD = 8
CROWD_SECONDS = 60
MUTATED = 100_000
MUTATED_MARGIN = 256 * 1024 * 1024  # 2.6 KB a request
PACKAGES = ("jetbridge", "grpcio", "pyarrow", "duckdb", "protobuf")
OPERATIONS = ("insert", "update", "delete")
HOW = ("cancel", "close", "reset", "fin")


@pytest.fixture(scope="module")
def summary() -> Iterator[dict]:
    machine = {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    phases = dict.fromkeys(("cuts", "crowd", "mutated"), "not finished")
    found: dict = {"machine": machine, **phases}
    yield found
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")


def cut_somewhere(proxy: Proxy, rng: random.Random, operation: str, how: str) -> bool:
    """Break a statement at a random moment; return whether it was running."""
    with channel_to(proxy.location) as channel:
        batches = statement(operation, 8)
        exchange = RawExchange(channel, operation, PATH, batches[0].schema, rng.random() < 0.5)
        timer = threading.Timer(rng.random() * 0.02, break_by(how, proxy, channel, exchange))
        timer.start()
        try:
            exchange.read()
            for batch in batches[: rng.randrange(len(batches) + 1)]:
                exchange.write(batch)
        except grpc.RpcError:
            pass
        timer.join()
        exchange.call.cancel()
        return exchange.ended() is not grpc.StatusCode.OK


def break_by(how: str, proxy: Proxy, channel: grpc.Channel, exchange: RawExchange):
    return {
        "cancel": exchange.call.cancel,
        "close": channel.close,
        "reset": lambda: proxy.cut(Cut.RESET),
        "fin": lambda: proxy.cut(Cut.FIN),
    }[how]


def test_statements_cut_at_random_moments_under_load_change_nothing(tmp_path, summary):
    rng = random.Random(5)
    with ServerProcess(tmp_path) as server, connect(server.location, "memory") as witness:
        witness.create_schema("s")
        witness.create_table(*PATH, COLUMNS)
        witness.insert(*PATH, some_rows(0, 64))
        open_accounts(witness)
        before, begun = contents(witness, *PATH), time.monotonic()
        stop = threading.Event()
        members = [Member(server.location, number, 5) for number in range(2)]
        wrong: list[BaseException] = []
        load = threading.Thread(target=lambda: wrong.extend(run_members(members, stop, 300)))
        load.start()
        with Proxy(server.location) as proxy:
            for operation in OPERATIONS:
                for how in HOW:
                    assert all(cut_somewhere(proxy, rng, operation, how) for _ in range(CUTS))
                    assert contents(witness, *PATH).equals(before)
        stop.set()
        load.join(120)
        assert wrong == []
        wait_until(lambda: not server.spilled)
        assert contents(witness, *PATH).equals(before)
        summary["cuts"] = {
            "cuts": CUTS * len(OPERATIONS) * len(HOW),
            "statements_of_others": sum(sum(m.done.values()) for m in members),
            "seconds": round(time.monotonic() - begun, 1),
        }


def test_eight_clients_keep_to_their_models(tmp_path, summary):
    with ServerProcess(tmp_path) as server, connect(server.location, "memory") as witness:
        open_accounts(witness)
        members = [Member(server.location, number, 7) for number in range(CROWD)]
        wrong = run_members(members, threading.Event(), CROWD_SECONDS)
        assert wrong == []
        assert money_is_all_there(witness)
        wait_until(lambda: takes_an_exchange(witness))
        done = sum((member.done for member in members), start=type(members[0].done)())
        summary["crowd"] = {
            "clients": CROWD,
            "seconds": CROWD_SECONDS,
            "statements": dict(done),
            "rss_mib": server.rss // 2**20,
        }
    assert "Traceback" not in server.log.read_text()


def takes_an_exchange(client) -> bool:
    try:
        client.exchange("insert", *SHARED, ACCOUNT_COLUMNS).cancel()
    except LimitExceeded:
        return False
    return True


def test_100000_mutated_requests_leave_no_trace(tmp_path, summary):
    begun = time.monotonic()
    with ServerProcess(tmp_path, CONFIG) as server, Barrage(server, 11) as barrage:
        found = survive(barrage, MUTATED, margin=MUTATED_MARGIN)
    seconds = round(time.monotonic() - begun, 1)
    summary["mutated"] = {"requests": MUTATED, "seconds": seconds, **found}
