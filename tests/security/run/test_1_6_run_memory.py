"""A statement of `run` cannot fill the memory of the server.

DuckDB does not count all that it takes: long strings, lists, states of aggregates. So it runs in a
process with a limit. Attacked: `run`, with statements that take all they can, one after the other
and eight at a time, from one token, while another caller works.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from tests.helpers.waiting import wait_until
from tests.security.cancelled.running import Caller, status
from tests.security.run.processes import workers
from tests.security.run.served import ADA, BOB, MIB, Served, serving

LONG = 5_000_000
OUT_OF_MEMORY = "sql.memory_limit"
MANY = "range(8) t(i)"
WIDE = "repeat('x', 100000)"
DOUBLED = (
    "WITH RECURSIVE r(n, s) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, s || s FROM r WHERE n < 40) "
    "SELECT max(length(s)) FROM r"
)
ATTACKS = {
    "doubled": DOUBLED,
    "bits": "SELECT g, bitstring_agg(i, 0, 999999999) FROM range(2) t(i), range(9) u(g) GROUP BY g",
    "repeat": "SELECT max(repeat(b, 800)) FROM m.s.long",
    "lpad": "SELECT max(lpad(b, 2000000000, 'y')) FROM m.s.long",
    "list": "SELECT max(list_transform(range(2000), x -> b || x)) FROM m.s.long",
    "resized": "SELECT len(list_resize([b], 1000000000)) FROM m.s.long",
    "joined": "SELECT length(array_to_string([b FOR x IN range(5000)], '-')) FROM m.s.long",
    "grouped": "SELECT string_agg(b || i, '') FROM m.s.long, range(1000) t(i)",
    "collected": "SELECT len(list(b || i)) FROM m.s.long, range(5000) t(i)",
    "replaced": f"SELECT length(replace({WIDE}, 'x', {WIDE})) FROM {MANY}",
    "range": "SELECT len(range(1000000000 + i)) FROM range(3) t(i)",
    "unnested": "SELECT count(*) FROM (SELECT unnest(range(1000000000)))",
    "sorted": (
        "SELECT max(s) FROM (SELECT i, lpad(i::VARCHAR, 100000, 'x') AS s FROM range(200000) t(i) "
        "ORDER BY hash(i), s LIMIT 190000)"
    ),
    "crossed": (
        "SELECT count(*) FROM (SELECT a.i, b.i AS j, random() AS r FROM range(20000) a(i), "
        "range(20000) b(i) ORDER BY r LIMIT 300000000)"
    ),
    "distances": f"SELECT damerau_levenshtein(repeat('a', 60000), repeat('b', 60000)) FROM {MANY}",
    "formatted": "SELECT length(format('{:2000000000d}', i)) FROM range(4) t(i)",
    "listed": f"SELECT list_transform(range(100000), x -> {WIDE})",
    "inserted": "INSERT INTO m.s.t SELECT 1, repeat('x', 2000000000)",
    "updated": "UPDATE m.s.t SET b = repeat('x', 2000000000 + a)",
    "created": "CREATE TABLE m.s.made AS SELECT repeat('x', 300000000) AS b FROM range(100)",
    "long": "CREATE TABLE m.s.made AS SELECT repeat('x', 100000000) AS b",
}


@dataclass(frozen=True)
class Attacked:
    served: Served
    ada: Caller
    bob: Caller

    def ends(self, text: str) -> tuple[grpc.StatusCode, str]:
        """Return how a statement of Ada ends."""
        return ended(self.ada.start(text, 120))


def ended(call: Any) -> tuple[grpc.StatusCode, str]:
    code = status(call)
    return code, "" if code is grpc.StatusCode.OK else str(call.details())


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    folder = tmp_path_factory.mktemp("served")
    with (
        serving(folder, "staged_bytes = 300000000", 'memory_limit = "1600MB"') as served,
        Caller(served.location, "m", ADA) as ada,
        Caller(served.location, "m", BOB) as bob,
    ):
        ada.run("CREATE SCHEMA m.s")
        ada.run("CREATE TABLE m.s.t AS SELECT 1 AS a, 'x' AS b")
        ada.run(
            f"CREATE TABLE m.s.long AS SELECT repeat(i::VARCHAR, {LONG}) AS b FROM range(1, 9) t(i)"
        )
        yield Attacked(served, ada, bob)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ATTACKS)
def test_1_6_a_statement_ends_at_its_limit_and_the_server_does_not_grow(
    attacked: Attacked, name: str
) -> None:
    before = attacked.served.memory()
    code, message = attacked.ends(ATTACKS[name])
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED, message
    assert "limits." in message or OUT_OF_MEMORY in message
    assert len(message) < 500
    assert "\n" not in message
    assert attacked.served.memory() - before < 100 * MIB
    attacked.bob.run("SELECT 1")
    assert attacked.bob.holds("SELECT count(*) = 1 FROM m.s.t WHERE b = 'x'")
    wait_until(lambda: not workers(attacked.served.process.pid))


@pytest.mark.parametrize(
    "names", [("doubled",) * 8, tuple(list(ATTACKS)[:8]), tuple(list(ATTACKS)[8:16])]
)
def test_1_6_eight_at_a_time_leave_the_server_to_others(
    attacked: Attacked, names: tuple[str, ...]
) -> None:
    before, most, slowest = attacked.served.memory(), 0, 0.0
    with ThreadPoolExecutor(len(names)) as callers:
        calls = [callers.submit(attacked.ends, ATTACKS[name]) for name in names]
        while not all(call.done() for call in calls):
            began = time.monotonic()
            assert status(attacked.bob.scan("s", "t")) is grpc.StatusCode.OK
            slowest = max(slowest, time.monotonic() - began)
            most = max(most, attacked.served.memory() - before)
            time.sleep(0.02)
    assert {call.result()[0] for call in calls} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert all("." in call.result()[1] for call in calls)
    assert most < 100 * MIB, f"{most:,} bytes more"
    assert slowest < 1.0, f"{slowest:.2f} s"
    attacked.bob.run("SELECT 1")
