"""A server that notices what is left over: one exchange at a time, and every row spilled."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import Client, connect
from jetbridge.service import Server
from jetbridge.service.settings import Limits
from tests.faults.proxy import Proxy

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.float64()),
        pa.field("s", pa.string()),
    ]
)
ROWS = 64


def some_rows(first: int, count: int) -> pa.RecordBatch:
    ids = range(first, first + count)
    return pa.record_batch(
        [list(ids), [i / 4 for i in ids], [f"row {i}" for i in ids]], schema=COLUMNS
    )


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog(spill_bytes=0)


@pytest.fixture
def narrow(catalog: MemoryCatalog) -> Iterator[Server]:
    """Takes one exchange and two scans at a time."""
    limits = Limits(exchanges=1, scans=2)
    with Server({"memory": catalog}, port=0, limits=limits) as running:
        running.start()
        yield running


@pytest.fixture
def witness(narrow: Server) -> Iterator[Client]:
    """A client of the narrow server that is not cut, and its table."""
    with connect(narrow.location, "memory") as connected:
        connected.create_schema("s")
        connected.create_table("s", "t", COLUMNS, checks=["v >= 0"])
        connected.insert("s", "t", some_rows(0, ROWS))
        yield connected


@pytest.fixture
def proxy(narrow: Server) -> Iterator[Proxy]:
    with Proxy(narrow.location) as running:
        yield running
