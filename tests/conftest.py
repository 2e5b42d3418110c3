"""What several suites share: a running server, and clients for it."""

import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterator

import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import Client, connect
from jetbridge.service import Server
from tests.plugins import class_archive
from tests.plugins.selection import (
    file_of,
    group_of,
    leave_out,
    name_groups,
    put_into_groups,
    put_long_groups_first,
    without_group,
)
from tests.plugins.soak_report import SoakReport

# Most JVMs of the tests live for seconds, which their second compiler would fill by itself: half of
# the computing of a start, and a fifth of that of a long run. Threads to collect garbage cost more.
os.environ.setdefault(class_archive.OPTIONS, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Set in the processes that xdist starts.
XDIST = "PYTEST_XDIST_WORKER"


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "soak" and not config.option.collectonly:
        config.pluginmanager.register(SoakReport())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are no garbage: to look through them often takes a sixth of a run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    leave_out(items)
    put_into_groups(items)
    yield
    put_long_groups_first(items)  # pytest itself has changed the order meanwhile, by fixtures
    if config.getoption("loadgroup", False):  # in a process of xdist
        name_groups(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remove the group from the name of a test, once xdist's controller has the report."""
    if XDIST not in os.environ:
        report.nodeid = without_group(report.nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Fail a test that leaves a socket open, unless it may have used Spark, which leaves some."""
    lakes = sys.modules.get("tests.helpers.lakes")
    marked = item.get_closest_marker("lake") or item.get_closest_marker("mssql")
    if not marked and not (lakes is not None and lakes.is_used()):
        item.add_marker(pytest.mark.filterwarnings("error:unclosed <socket:ResourceWarning"))
    answer = yield
    if nextitem is not None and group_of(nextitem) != group_of(item):
        end_spark()
    return answer


def end_spark() -> None:
    """End the Spark of this process, if it runs, and the sockets that it has left."""
    lakes = sys.modules.get("tests.helpers.lakes")
    if lakes is not None and lakes.is_used():
        lakes.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that starts the Spark of its process, and whose markers do not say so."""
    lakes = sys.modules.get("tests.helpers.lakes")
    if group_of(item) == file_of(item) and lakes is not None and lakes.is_used():
        pytest.fail("this test starts Spark: it needs the marker `lake` or an `xdist_group`")


def pytest_runtest_setup() -> None:
    class_archive.use()


def pytest_unconfigure() -> None:
    """A process of xdist ends without what `atexit` would do."""
    lakes = sys.modules.get("tests.helpers.lakes")
    if lakes is not None:
        lakes.close()
    class_archive.end()


@pytest.fixture
def log_as_it_was() -> Iterator[None]:
    """A command sets the log up for its process, and here it is the process of all tests."""
    log = logging.getLogger("jetbridge")
    level, propagate, handlers = log.level, log.propagate, list(log.handlers)
    yield
    log.setLevel(level)
    log.propagate, log.handlers[:] = propagate, handlers


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog()


@pytest.fixture
def server(catalog: MemoryCatalog) -> Iterator[Server]:
    with Server({"memory": catalog}, port=0) as running:
        running.start()
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with connect(server.location, "memory") as connected:
        yield connected
