"""Times of several things, taken in turns."""

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
    """Seconds of each; all run in every round, so that a busy moment hits them alike.

    `before` runs ahead of each work and is not counted. A work that answers a float has taken its
    own time, and that counts.
    """
    taken: dict[str, list[float]] = {name: [] for name in works}
    for number in range(warm_ups + rounds):
        for name, work in works.items():
            if before is not None:
                before()
            start = time.perf_counter()
            answer = work()
            elapsed = time.perf_counter() - start
            seconds = answer if isinstance(answer, float) else elapsed
            if number >= warm_ups:
                taken[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def repeated(work: Work, times: int) -> Work:
    def run() -> None:
        for _ in range(times):
            work()

    return run


def summed(work: Callable[[], float], times: int) -> Work:
    """As `repeated`, of a work that takes its own time."""
    return lambda: sum(work() for _ in range(times))


def touch_memory() -> None:
    """Uses memory once and gives it back.

    In a virtual machine the first use of a page waits for the host, which takes ten times as long
    as the work that is to be measured.
    """
    size = min(_MOST_TOUCHED, psutil.virtual_memory().available // 2)
    with mmap.mmap(-1, size) as memory:
        for start in range(0, size, mmap.PAGESIZE):
            memory[start] = 1
