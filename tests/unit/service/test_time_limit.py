"""The time limit of a call, also on a machine that cannot start threads."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from jetbridge.errors import LimitExceeded
from jetbridge.runtime.cancellation import Cancellation
from jetbridge.service.admission.time_limit import TimeLimit
from tests.helpers.waiting import PATIENCE, wait_until

CONTEXT: Any = SimpleNamespace(cancel=bool)


def test_one_call_that_cannot_be_ended_does_not_keep_the_others_from_it():
    class Broken(Cancellation):
        def cancel(self, error=None):
            raise RuntimeError("can't start new thread")

    limit = TimeLimit(0.05)
    ended = Cancellation()
    with limit.apply(Broken(), CONTEXT), limit.apply(ended, CONTEXT):
        wait_until(lambda: ended.error() is not None)
        assert isinstance(ended.error(), LimitExceeded)


def test_a_thread_that_cannot_start_is_started_for_the_next_call(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    limit = TimeLimit(0.05)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError), limit.apply(Cancellation(), CONTEXT):
            raise AssertionError
    assert not limit._running
    ended = Cancellation()
    with limit.apply(ended, CONTEXT):
        wait_until(lambda: ended.error() is not None)


def test_the_garbage_collector_may_end_a_call_while_calls_are_checked():
    limit = TimeLimit(60)
    done = threading.Event()

    def end_within():
        call = limit.apply(Cancellation(), CONTEXT)
        call.__enter__()
        with limit._lock:
            call.__exit__(None, None, None)
        done.set()

    threading.Thread(target=end_within, daemon=True).start()
    assert done.wait(PATIENCE)
    assert not limit._running
