"""What several suites share: a running server, and clients for it."""

from collections.abc import Iterator

import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import Client, connect
from jetbridge.service import Server
from tests.soak_report import SoakReport


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "soak" and not config.option.collectonly:
        config.pluginmanager.register(SoakReport())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves the sockets of its results to the garbage collector (pyspark/util.py)."""
    for item in items:
        if item.get_closest_marker("lake"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


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
