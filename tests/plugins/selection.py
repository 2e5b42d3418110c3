"""Which tests `make test` runs, and which of them share a process of xdist.

`make test` leaves out tests with the marker `full`, those that may need a network, the tests of the
stand-ins, and of a test with the marker `sampled` all repetitions but one in so many. `make
test-all` runs them too.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.nodeid import NodeId

STANDINS = Path(__file__).resolve().parents[2] / "standins"
# The groups of the tests of a lake, each of which shares the Spark of a process (helpers/lakes.py).
# They take about the same time, and begin first, beside each other.
SPARK, INTEGRATION_SPARK = "spark", "spark integration"
INTEGRATION = Path(__file__).resolve().parents[1] / "integration"
# Samples of two backends take different repetitions, so more of them run somewhere.
FIRST = {"lake": 0, "mssql": 1}


def leave_out(items: Iterable[pytest.Item]) -> None:
    """Mark as `full` what `make test` leaves out.

    The memory backend runs all repetitions, which takes no time. The tests of the stand-ins run if
    you name their folder: then nobody calls this function.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        if item.path.is_relative_to(STANDINS) or item.get_closest_marker("installs"):
            item.add_marker(pytest.mark.full)
        sample = item.get_closest_marker("sampled")
        if sample is None or any(item.iter_markers("memory")) or any(item.iter_markers("soak")):
            continue
        (every,) = sample.args
        backend = next((name for name in FIRST if item.get_closest_marker(name)), "")
        test = (item.nodeid.partition("[")[0], backend)
        if seen[test] % every != FIRST.get(backend, 0) % every:
            item.add_marker(pytest.mark.full)
        seen[test] += 1


def put_into_groups(items: Iterable[pytest.Item]) -> None:
    """Give each test a group for `--dist loadgroup`.

    The marker `xdist_group` names a group. Other tests of a lake have one of two groups with Spark,
    and all others have the group of their file.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_default_group(item)))


def put_long_groups_first(items: list[pytest.Item]) -> None:
    """Sort tests: those with Spark come first, then other groups of more than one file."""
    order = {SPARK: 0, INTEGRATION_SPARK: 1}
    for item in items:
        if group_of(item) != file_of(item):
            order.setdefault(group_of(item), len(order))
    items.sort(key=lambda item: order.get(group_of(item), len(order)))


def _default_group(item: pytest.Item) -> str:
    if not item.get_closest_marker("lake"):
        return file_of(item)
    return INTEGRATION_SPARK if item.path.is_relative_to(INTEGRATION) else SPARK


def name_groups(items: Iterable[pytest.Item]) -> None:
    """Add the group to the name of each test, by which xdist's controller knows it.

    xdist 3.8 sets an attribute that pytest 9.2 does not read any more, so every test is a group of
    its own. test_selection.py fails when this is no longer needed.
    """
    for item in items:
        item._id = NodeId.parse(f"{item.nodeid}@{group_of(item)}")


def without_group(name: str) -> str:
    """Return the name of a test that you can run. The last `]` ends its parameters."""
    test, at, group = name.rpartition("@")
    return test if at and "]" not in group else name


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def group_of(item: pytest.Item) -> str:
    return str(next(item.iter_markers("xdist_group")).args[0])
