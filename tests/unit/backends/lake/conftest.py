"""Opens recorded tables as a lake without Spark."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.backends.lake.recorded_lake import RecordedLake, template


@pytest.fixture
def recorded(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RecordedLake]:
    """A copy of the recorded tables; their locations are relative to the working directory."""
    parent = tmp_path_factory.getbasetemp()
    shutil.copytree(template(parent), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    lake = RecordedLake(tmp_path, parent)
    yield lake
    lake.close()
