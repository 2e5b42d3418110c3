"""One server of a lake for all tests that leave it usable."""

from collections.abc import Iterator

import pytest

from tests.faults.lake.process import BUSY, LakeServer


@pytest.fixture(scope="session")
def lake_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    """Start one server for all tests that leave it usable; each test has its own schema."""
    with LakeServer(tmp_path_factory.mktemp("lake"), "--busy-seconds", str(BUSY)) as running:
        yield running
