"""Measures the time of several works in turns."""

import mmap
import statistics
import time
from collections.abc import Callable, Mapping

import psutil

_MOST_TOUCHED = 6 * 1024**3

ROUNDS = 5
WARM_UPS = 2

Work = Callable[[], object]


def medians(
    works: Mapping[str, Work],
    *,
    rounds: int = ROUNDS,
    before: Work | None = None,
    warm_ups: int = WARM_UPS,
) -> dict[str, float]:
    """Return the median seconds of each work.

    All works run in every round, so that a busy moment of the machine affects all of them.
    `before` runs before each work and is not counted. If a work returns a float, that counts as
    its seconds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(warm_ups + rounds):
        for name, work in works.items():
            if before is not None:
                before()
            start = time.perf_counter()
            result = work()
            elapsed = time.perf_counter() - start
            if number >= warm_ups:
                seconds[name].append(result if isinstance(result, float) else elapsed)
    return {name: statistics.median(values) for name, values in seconds.items()}


def repeated(work: Work, times: int) -> Work:
    """Return a work that runs another one several times."""

    def run() -> None:
        for _ in range(times):
            work()

    return run


def summed(work: Callable[[], float], times: int) -> Work:
    """Return a work that runs another one several times and adds up the seconds it returns."""
    return lambda: sum(work() for _ in range(times))


def touch_memory() -> None:
    """Use much memory once and free it.

    In a virtual machine the first use of a page waits for the host, which takes ten times as long
    as the measured work.
    """
    size = min(_MOST_TOUCHED, psutil.virtual_memory().available // 2)
    with mmap.mmap(-1, size) as memory:
        for start in range(0, size, mmap.PAGESIZE):
            memory[start] = 1
