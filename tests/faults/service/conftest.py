"""A server that notices what is left over: one exchange at a time, and every row spilled."""

from collections.abc import Iterator

import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import Client, connect
from jetbridge.config.model import Limits
from jetbridge.service import Server
from tests.faults.service.proxy import Proxy
from tests.faults.service.sample import COLUMNS, PATH, ROWS, some_rows


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog(spill_bytes=0)


@pytest.fixture
def narrow(catalog: MemoryCatalog) -> Iterator[Server]:
    """Start a server that accepts one exchange and two scans at a time."""
    limits = Limits(exchanges=1, scans=2)
    with Server({"memory": catalog}, port=0, limits=limits) as running:
        running.start()
        yield running


@pytest.fixture
def witness(narrow: Server) -> Iterator[Client]:
    """Connect a second client to the narrow server; return it and its table."""
    with connect(narrow.location, "memory") as connected:
        connected.create_schema("s")
        connected.create_table(*PATH, COLUMNS, checks=["v >= 0"])
        connected.insert(*PATH, some_rows(0, ROWS))
        yield connected


@pytest.fixture
def proxy(narrow: Server) -> Iterator[Proxy]:
    with Proxy(narrow.location) as running:
        yield running
