"""Wait for conditions with a deadline, in the place of sleeps of a fixed length."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import psutil

# The machine may be busy: the deadline tells a hang from slowness.
PATIENCE = 30.0
Result = TypeVar("Result")


def wait_until(condition: Callable[[], Any], seconds: float = PATIENCE, step: float = 0.002) -> Any:
    """Wait until the condition is true; return its value."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(step)


def wait_until_it_succeeds(
    attempt: Callable[[], Result],
    *errors: type[Exception],
    seconds: float = PATIENCE,
    step: float = 0.02,
) -> Result:
    """Repeat an attempt as long as it raises one of these errors; return what it returns."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except errors:
            if time.monotonic() > deadline:
                raise
            time.sleep(step)


def wait_until_computing(process: psutil.Process, seconds: float = 0.3) -> None:
    """Wait until a process has computed for so long, e.g. because its statement runs."""

    def computed() -> float:
        times = process.cpu_times()
        return times.user + times.system

    before = computed()
    wait_until(lambda: computed() - before > seconds, step=0.02)
