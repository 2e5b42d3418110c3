"""Opens recorded tables as a lake without Spark."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.backends.lake.recorded_lake import HERE, RecordedLake


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedLake]:
    """A copy of the recorded tables; their locations are relative to the working directory."""
    shutil.copytree(HERE / "recorded", tmp_path / "recorded")
    monkeypatch.chdir(tmp_path)
    lake = RecordedLake(tmp_path)
    yield lake
    lake.close()
