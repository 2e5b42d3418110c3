"""What several suites share: a running server, and clients for it."""

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
from tests.soak_report import SoakReport

# Most JVMs of the tests live for seconds, which their second compiler would fill by itself: half of
# the computing of a start, and a fifth of that of a long run.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

NEEDS_SPARK = re.compile(
    r"^tests/(?:pipeline/|mssql/test_(?:large|mixed)|conformance/.*\[lake|integration/test_(?:lake|pipeline_translate|translations"
    r"|sql_lake|serve_lake|spark_engine|readme|replay)"
    r"|faults/test_mssql_(?:connections|errors|on_spark|twice|workers))"
)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "soak" and not config.option.collectonly:
        config.pluginmanager.register(SoakReport())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves the sockets of its results to the garbage collector (pyspark/util.py)."""
    for item in items:
        if item.get_closest_marker("lake") or item.get_closest_marker("mssql"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """One process has all that needs the Spark of the run; other files go where there is time."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if NEEDS_SPARK.search(nodeid) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark:
    return OneSpark(config, log)


def pytest_unconfigure() -> None:
    """A process of xdist ends without what `atexit` would do."""
    lakes = sys.modules.get("tests.lakes")
    if lakes is not None:
        lakes.close()


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
