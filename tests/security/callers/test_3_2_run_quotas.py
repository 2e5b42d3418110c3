"""Quotas of `run`: all statements of clients share `sql.memory_limit` and a limit of files.

Attacked: each call had all of the memory for itself, and 90 % of the disk; 128 of them killed it.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from jetbridge.app.statement_memory import MINIMUM, StatementMemory
from jetbridge.config.model import Limits
from jetbridge.errors import LimitExceeded
from tests.helpers.waiting import wait_until
from tests.integration.service.test_limits import eventually
from tests.security.cancelled.running import Caller, status
from tests.security.run.served import ADA, BOB, MIB, serving

MEMORY, SPILL = 400_000_000, 20_000_000
CALLS = 30
# It needs more memory than there is, in seconds.
SORT = "SELECT count(*) FROM (SELECT i, random() r FROM range({}) t(i) ORDER BY r LIMIT {})"
MUCH, SMALL = SORT.format(100_000_000, 90_000_000), SORT.format(1000, 900)


def quotas(staged_bytes: int) -> tuple[str, str]:
    return f"spill_bytes = 1000\nstaged_bytes = {staged_bytes}", f'memory_limit = "{MEMORY}B"'


@pytest.mark.full
def test_calls_of_one_token_share_its_memory_and_leave_the_rest_to_another(tmp_path: Path) -> None:
    with (
        serving(tmp_path, *quotas(10**10)) as served,
        Caller(served.location, "m", ADA) as ada,
        Caller(served.location, "m", BOB) as bob,
    ):
        for caller in (ada, bob):
            caller.run(SMALL)
        before, most = served.memory(), 0
        with ThreadPoolExecutor(CALLS) as readers:
            calls = [ada.start(MUCH, 60) for _ in range(CALLS)]
            ends = [readers.submit(status, call) for call in calls]
            begun = time.monotonic()
            while time.monotonic() - begun < 3:
                bob.run(SMALL)
                most = max(most, served.memory() - before)
            refused = [call for call, end in zip(calls, ends, strict=True) if end.done()]
            assert served.spilled()
            for call in calls:
                call.cancel()
        assert 2 <= CALLS - len(refused) <= MEMORY / 2 / MINIMUM
        assert {call.code() for call in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert "calls of run of token 'ada'" in refused[0].details()
        assert "raise sql.memory_limit" in refused[0].details()
        assert most < MEMORY + 150 * MIB, f"{most:,} bytes more"
        eventually(lambda: ada.run(SMALL))
        wait_until(lambda: not served.spilled())


def test_what_a_statement_spills_counts_as_staged(tmp_path: Path) -> None:
    with serving(tmp_path, *quotas(SPILL)) as served, Caller(served.location, "m", ADA) as ada:
        ada.run("CREATE SCHEMA m.s")
        for text in (MUCH, f"CREATE TABLE m.s.t AS {MUCH}"):
            call = ada.start(text, 60)
            assert status(call) is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "limits.staged_bytes" in call.details()
            assert "max_temp" not in call.details()
            wait_until(lambda: not served.spilled())
        ada.run(SMALL)


# --- the shares


def taken(memory: StatementMemory, owner: str, count: int) -> list[int]:
    """Return the memory of each of several calls at once, at most `count`; they do not end."""
    found = []
    for _ in range(count):
        share = memory.reserve(owner)
        try:
            found.append(share.__enter__().memory_bytes)
        except LimitExceeded:
            break
        _held.append(share)
    return found


_held: list[object] = []


def test_one_token_has_at_most_half_of_the_memory() -> None:
    memory = StatementMemory(2 * 10**9, Limits(), 2)
    ada = taken(memory, "ada", 100)
    assert sum(ada) <= 10**9
    assert min(ada) >= MINIMUM
    assert len(ada) >= 6
    assert taken(memory, "bob", 100) == ada


def test_without_several_tokens_all_of_it_is_shared() -> None:
    memory = StatementMemory(2 * 10**9, Limits(), 0)
    assert 10**9 < sum(taken(memory, "", 100)) <= 2 * 10**9
    with pytest.raises(LimitExceeded, match="on this server"), memory.reserve(""):
        pass


def test_a_share_comes_back_when_the_call_ends_or_fails() -> None:
    memory = StatementMemory(100, Limits(), 0)
    for _ in range(3):
        with pytest.raises(KeyError), memory.reserve("ada") as share:
            assert share.memory_bytes == 100
            raise KeyError


def test_what_calls_of_one_token_spill_is_no_more_than_it_may_stage() -> None:
    limits = Limits(staged_bytes=1000, staged_bytes_per_token=1500)
    memory = StatementMemory(2 * 10**9, limits, 2)
    spilled = []
    for _ in range(6):
        share = memory.reserve("ada")
        spilled.append(share.__enter__().spill_bytes)
        _held.append(share)
    assert max(spilled) <= 1000
    assert 1000 < sum(spilled) <= 1500
