"""What several suites share: a running server, and clients for it."""

import gc
import logging
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import Client, connect
from jetbridge.service import Server
from tests import class_archive
from tests.soak_report import SoakReport

# Most JVMs of the tests live for seconds, which their second compiler would fill by itself: half of
# the computing of a start, and a fifth of that of a long run. Threads to collect garbage cost more.
os.environ.setdefault(class_archive.OPTIONS, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

NEEDS_SPARK = re.compile(
    r"^tests/(?:pipeline/(?!test_ctas_mssql|.*\[(?:mssql|memory))|pipeline/.*_million_rows"
    r"|mssql/test_(?:large|load_settings|mixed|passwords)|conformance/(?:.*\[lake|test_fill_merge)"
    r"|integration/test_(?:lake|pipeline_translate|translations|spark_engine|readme|replay)"
    r"|security/.*(?:\[lake|test_\d_\d_lake_))"
)
# Loads into SQL Server that fail while Spark does its part have a Spark of their own.
FAILS = re.compile(r"^tests/faults/test_mssql_(?:connections|disk|errors|on_spark|twice|workers)")


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
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Sockets that are left open fail a test, unless its process has Spark, which leaves some."""
    marked = item.get_closest_marker("lake") or item.get_closest_marker("mssql")
    lakes = sys.modules.get("tests.lakes")
    if not marked and not (lakes is not None and lakes.is_used()):
        item.add_marker(pytest.mark.filterwarnings("error:unclosed <socket:ResourceWarning"))
    return (yield)


def pytest_runtest_setup() -> None:
    class_archive.use()


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """One process has all that needs the Spark of the run; other files go where there is time."""

    def _split_scope(self, nodeid: str) -> str:
        if FAILS.search(nodeid):
            return "failing loads"
        return "spark" if NEEDS_SPARK.search(nodeid) else nodeid.partition("::")[0]

    def schedule(self) -> None:
        """Failing loads come last: from then on a process has Spark, and the sockets it leaves."""
        super().schedule()
        if "failing loads" in self.workqueue:
            self.workqueue.move_to_end("failing loads")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark:
    return OneSpark(config, log)


def pytest_unconfigure() -> None:
    """A process of xdist ends without what `atexit` would do."""
    lakes = sys.modules.get("tests.lakes")
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
