"""Statements end with their callers: when they cancel, when their deadline passes, when they die.

Attacked: an INSERT through `run` that was cancelled at 2 s appeared after 6 s.
"""

import time
from collections.abc import Iterator

import grpc
import pytest

from jetbridge.backends.memory import MemoryCatalog
from tests.security.callers.running import (
    AT_ONCE,
    Caller,
    serving,
    status,
    wait_until_busy,
    wait_until_idle,
)

SLOW = "SELECT a + b AS id, a AS n FROM range(200000) x(a), range(200000) y(b) WHERE hash(a, b) = 0"
STATEMENTS = {
    "select": SLOW,
    "insert": f"INSERT INTO m.s.t {SLOW}",
    "insert values": f"INSERT INTO m.s.t SELECT 100, count(*) FROM ({SLOW})",
    "create": f"CREATE TABLE m.s.made AS {SLOW}",
    "replace": f"CREATE OR REPLACE TABLE m.s.t AS {SLOW}",
    "update": f"UPDATE m.s.t SET n = x.n FROM ({SLOW}) x WHERE x.id = t.id",
    "delete": f"DELETE FROM m.s.t USING ({SLOW}) x WHERE x.id = t.id",
    "transaction": f"BEGIN; INSERT INTO m.s.t VALUES (100, 100); INSERT INTO m.s.t {SLOW}; COMMIT",
}


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with serving({"m": MemoryCatalog()}) as server, Caller(server.location, "m") as made:
        made.run("CREATE SCHEMA m.s")
        made.run("CREATE TABLE m.s.t AS SELECT i AS id, i AS n FROM range(5) r(i)")
        yield made


def count(caller: Caller, text: str) -> None:
    """Raises unless the query gives TRUE."""
    caller.run(f"SELECT CASE WHEN ({text}) THEN 1 ELSE error('it is not so') END")


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_cancelled_statement_ends_at_once_and_leaves_nothing(caller, name):
    call = caller.start(STATEMENTS[name])
    wait_until_busy()
    began = time.monotonic()
    call.cancel()
    wait_until_idle()
    assert time.monotonic() - began < AT_ONCE
    unchanged(caller)


@pytest.mark.parametrize("name", ["select", "insert"])
def test_a_statement_ends_with_the_deadline_of_its_caller(caller, name):
    call = caller.start(STATEMENTS[name], 1.0)
    assert status(call) is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until_idle()
    unchanged(caller)


def unchanged(caller: Caller) -> None:
    """What was there is there, nothing else is, and the next statement runs."""
    count(caller, "SELECT count(*) = 5 AND sum(id) = 10 AND sum(n) = 10 FROM m.s.t")
    with pytest.raises(grpc.RpcError, match="does not exist"):
        caller.run("SELECT * FROM m.s.made")
    caller.run("INSERT INTO m.s.t VALUES (7, 7)")
    caller.run("DELETE FROM m.s.t WHERE id = 7")
