"""Damaged manifests are found before DuckDB plans a scan: it would abort the process."""

import os
from pathlib import Path

import pytest

from jetbridge.backends.lake.files import Files
from jetbridge.backends.lake.metadata.manifest_check import ManifestChecker
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import Unavailable
from tests.unit.backends.lake.recorded_lake import RecordedLake


def checker(recorded: RecordedLake) -> ManifestChecker:
    return ManifestChecker(recorded.reader, Files({}))


def manifests(recorded: RecordedLake, name: str = "plain") -> list[Path]:
    snapshot = recorded.state(name).snapshot
    assert snapshot is not None
    rows = recorded.reader.query(queries.manifests(str(snapshot.manifest_list)))
    return [Path(path) for path in rows.column("manifest_path").to_pylist()]


def test_formats_of_a_snapshot(recorded: RecordedLake):
    assert checker(recorded).formats(recorded.state("plain")) == {"PARQUET", "PUFFIN"}
    assert checker(recorded).formats(recorded.state("laid_out")) == {"PARQUET"}
    assert checker(recorded).formats(recorded.state("plain", 0)) == frozenset()


def test_specs_of_a_snapshot(recorded: RecordedLake):
    assert checker(recorded).specs(recorded.state("plain")) == {0}
    assert checker(recorded).specs(recorded.state("laid_out")) == {1}
    assert checker(recorded).specs(recorded.state("plain", 0)) == frozenset()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def garble(path: Path) -> None:
    """Without a change of its size."""
    data = path.read_bytes()
    path.write_bytes(data[:200] + bytes(len(data) - 200))


@pytest.mark.parametrize("damage", [cut, garble, Path.unlink])
@pytest.mark.parametrize("number", [0, 3])
def test_a_damaged_manifest_is_named(recorded: RecordedLake, damage, number: int):
    path = manifests(recorded)[number]
    damage(path)
    with pytest.raises(Unavailable, match=rf"table 's\.plain' cannot be read: .*{path.name}"):
        checker(recorded).formats(recorded.state("plain"))


@pytest.mark.parametrize("damage", [cut, garble, Path.unlink])
def test_a_manifest_that_is_damaged_later_is_found(recorded: RecordedLake, damage):
    known = checker(recorded)
    state = recorded.state("plain")
    known.formats(state)
    path = manifests(recorded)[1]
    damage(path)
    with pytest.raises(Unavailable, match=path.name):
        known.formats(state)


def test_a_manifest_that_was_only_touched_is_read_again(recorded: RecordedLake):
    known = checker(recorded)
    state = recorded.state("plain")
    known.formats(state)
    os.utime(manifests(recorded)[1], (1, 1))
    assert known.formats(state) == {"PARQUET", "PUFFIN"}


def test_one_damaged_snapshot_leaves_the_others(recorded: RecordedLake):
    state = recorded.state("plain")
    vectors = [path for path in manifests(recorded) if path not in older_manifests(recorded)]
    for path in vectors:
        cut(path)
    before = state.at_snapshot(state.snapshots()[2])
    assert checker(recorded).formats(before) == {"PARQUET"}
    with pytest.raises(Unavailable):
        checker(recorded).formats(state)


def older_manifests(recorded: RecordedLake) -> list[Path]:
    rows = recorded.reader.query(
        queries.manifests(str(recorded.state("plain").snapshots()[2].manifest_list))
    )
    return [Path(path) for path in rows.column("manifest_path").to_pylist()]
