"""Times of several things, taken in turns."""

import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 5
WARM_UPS = 2

Work = Callable[[], object]


def medians(works: Mapping[str, Work], *, rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of each; all run in every round, so that a busy moment hits them alike."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for number in range(WARM_UPS + rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            seconds = time.perf_counter() - start
            if number >= WARM_UPS:
                taken[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def repeated(work: Work, times: int) -> Work:
    def run() -> None:
        for _ in range(times):
            work()

    return run
