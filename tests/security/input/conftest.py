"""A server in a process of its own, whose memory tests measure."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from jetbridge.client import connect
from tests.helpers.peers import ServerProcess
from tests.helpers.raw import Raw

MIB = 1024 * 1024
CONFIG = """
[limits]
message_bytes = 16777216
staged_bytes = 268435456
spill_bytes = 1048576
[catalogs.memory]
type = "memory"
"""
COLUMNS = pa.schema([("n", pa.int64()), ("s", pa.string())])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), CONFIG) as running:
        with connect(running.location, "memory") as client:
            client.create_schema("s")
            client.create_table("s", "t", COLUMNS)
            rows = pa.table({"n": [1], "s": ["warm"]}, schema=COLUMNS)
            client.insert("s", "t", rows)
        yield running
        assert running.process.poll() is None
        assert "Traceback" not in running.log.read_text()


@pytest.fixture
def raw(server: ServerProcess) -> Iterator[Raw]:
    with Raw(server.location, ("airport-catalog", "memory")) as caller:
        yield caller
    with connect(server.location, "memory") as client:  # it is alive, and nothing was added
        assert client.read("s", "t").to_pylist() == [{"n": 1, "s": "warm"}]


def peak_bytes(server: ServerProcess) -> int:
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


@contextmanager
def grows_by_less_than(server: ServerProcess, limit: int) -> Iterator[None]:
    """Check the growth of the peak of the server's memory."""
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")  # the peak begins anew
    before = peak_bytes(server)
    yield
    grown = peak_bytes(server) - before
    assert grown < limit, f"{grown // MIB} MiB"
