"""What several suites share: a running server, and clients for it."""

import sys
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
    """What needs the one Spark of the run goes to one process, all else to the other.

    PySpark leaves the sockets of its results to the garbage collector (pyspark/util.py).
    """
    for item in items:
        lake = item.get_closest_marker("lake") is not None
        if lake:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        shared = lake and "faults" not in item.path.parts
        item.add_marker(pytest.mark.xdist_group("spark" if shared else "other"))


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
