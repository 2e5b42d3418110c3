"""Limits of concurrent calls, and the end of the server."""

import threading
import time

import pytest

from jetbridge.errors import LimitExceeded, Unavailable
from jetbridge.service.admission.concurrency import ConcurrencyLimit, ShutdownGate


def test_a_closed_server_refuses_calls_and_waits_for_running_ones():
    door, inside, done = ShutdownGate(), threading.Event(), threading.Event()

    def call() -> None:
        with door.enter():
            inside.set()
            done.wait(10)

    running = threading.Thread(target=call)
    running.start()
    assert inside.wait(10)
    closing = threading.Thread(target=door.close, args=(10,))
    closing.start()
    _refused(door)
    assert closing.is_alive()
    done.set()
    closing.join(10)
    assert not closing.is_alive()
    running.join(10)


def _refused(door: ShutdownGate) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            with door.enter():
                pass
        except Unavailable:
            return
    raise AssertionError("it is still open")


def test_a_closed_door_waits_no_longer_than_it_is_told():
    door = ShutdownGate()
    with door.enter():
        door.close(0.01)
    with pytest.raises(Unavailable), door.enter():
        pass


def test_a_call_that_fails_has_left():
    door = ShutdownGate()
    with pytest.raises(ValueError, match="failed"), door.enter():
        raise ValueError("failed")
    door.close(0)
    gate = ConcurrencyLimit("scans", 1)
    with pytest.raises(ValueError, match="failed"), gate.enter():
        raise ValueError("failed")
    with gate.enter(), pytest.raises(LimitExceeded), gate.enter():
        pass
