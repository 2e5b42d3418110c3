"""The time quota of a token, on a clock that the test sets."""

from contextlib import ExitStack

import pytest

from jetbridge.errors import LimitExceeded
from jetbridge.service.admission import time_limit
from jetbridge.service.admission.time_limit import TimeQuota


class Clock:
    now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time_limit, "time", clock)
    return clock


def test_statements_that_run_beside_each_other_each_count(clock):
    quota = TimeQuota(100)
    with ExitStack() as statements:
        for _ in range(3):
            statements.enter_context(quota.measure("ada"))
        clock.now += 33
        assert quota.error("ada") is None
        clock.now += 1
        assert quota.error("ada") is not None
    assert quota.error("bob") is None


def test_what_was_used_is_forgotten_an_hour_later(clock):
    quota = TimeQuota(100)
    for _ in range(2):
        with quota.measure("ada"):
            clock.now += 60
        clock.now += 1200
    with pytest.raises(LimitExceeded, match="try again in 18 min"), quota.measure("ada"):
        raise AssertionError
    clock.now += 1000
    with pytest.raises(LimitExceeded, match=r"try again in \d+ "):
        quota.refuse_if_used_up("ada")
    clock.now += 120
    with quota.measure("ada"):
        clock.now += 7200
    assert quota.error("ada") is not None, "it counts when it ends, however long it took"
    clock.now += 3600
    assert quota.error("ada") is None


def test_a_statement_that_is_refused_does_not_count(clock):
    quota = TimeQuota(10)
    with quota.measure("ada"):
        clock.now += 10
    with pytest.raises(LimitExceeded), quota.measure("ada"):
        raise AssertionError
    clock.now += 3600
    with quota.measure("ada"):
        clock.now += 9
        assert quota.error("ada") is None
