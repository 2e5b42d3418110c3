"""Files and deletion vectors of recorded snapshots."""

from pathlib import Path
from posixpath import basename

import numpy as np
import pytest

from jetbridge.backends.lake.files import Files
from jetbridge.backends.lake.metadata.history import state_at
from jetbridge.backends.lake.metadata.snapshot_files import (
    DataFileEntry,
    SnapshotFiles,
    positions_of,
)
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.errors import Unavailable
from tests.unit.backends.lake.recorded_lake import RecordedLake


def files_of(recorded: RecordedLake, version: int) -> SnapshotFiles:
    state = state_at(recorded.state("plain"), AsOf(AtUnit.VERSION, str(version)))
    return recorded.lake.read.snapshot_files(state)


def vector_file(recorded: RecordedLake) -> Path:
    [vector] = files_of(recorded, 4).vectors.values()
    return Path(vector.location)


def test_each_snapshot_has_its_files(recorded: RecordedLake):
    counts = [len(files_of(recorded, version).files) for version in range(5)]
    assert counts == [0, 1, 2, 3, 3]
    by_first_id = sorted(files_of(recorded, 4).files, key=lambda file: file.first_row_id or 0)
    assert [(f.first_row_id, f.rows, f.sequence_number) for f in by_first_id] == [
        (0, 2, 1),
        (2, 1, 2),
        (3, 2, 3),
    ]
    assert {file.file_format for file in by_first_id} == {"PARQUET"}
    assert not any(file.own_row_ids for file in by_first_id)


def test_a_deletion_vector_names_file_and_position(recorded: RecordedLake):
    assert files_of(recorded, 3).vectors == {}
    files = files_of(recorded, 4)
    [(data_file, vector)] = files.vectors.items()
    assert {file.location: file.rows for file in files.files}[data_file] == 2
    assert vector.rows == 1
    state = recorded.state("plain")
    [(_, positions)] = positions_of(Files({}), state, [vector])
    assert positions.tolist() == [0]
    assert not files.shares_vectors()
    assert not files.old_deletes


@pytest.mark.parametrize("cut", [0, 3, 40])
def test_a_damaged_vector_is_named(recorded: RecordedLake, cut: int):
    path = vector_file(recorded)
    data = path.read_bytes()
    path.write_bytes(data[:cut] + data[-4:])
    files = files_of(recorded, 4)
    with pytest.raises(Unavailable, match=rf"s\.plain.*{path.name}"):
        list(positions_of(Files({}), recorded.state("plain"), files.vectors.values()))


def test_a_missing_vector_is_named(recorded: RecordedLake):
    path = vector_file(recorded)
    path.unlink()
    files = files_of(recorded, 4)
    with pytest.raises(Unavailable, match=rf"{path.name}.*No such file"):
        list(positions_of(Files({}), recorded.state("plain"), files.vectors.values()))


@pytest.mark.parametrize("damage", [b"", b"Obj\x01 but no Avro"])
def test_a_damaged_manifest_list_is_named(recorded: RecordedLake, damage: bytes):
    snapshot = recorded.state("plain").snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    Path(snapshot.manifest_list).write_bytes(damage)
    with pytest.raises(Unavailable, match=basename(snapshot.manifest_list)):
        recorded.lake.read.snapshot_files(recorded.state("plain"))


def test_answers_are_kept_until_they_are_forgotten(recorded: RecordedLake):
    state = recorded.state("plain")
    first = recorded.lake.read.snapshot_files(state)
    assert recorded.lake.read.snapshot_files(state) is first
    recorded.lake.read.forget()
    again = recorded.lake.read.snapshot_files(state)
    assert again is not first
    assert again == first


def test_rows_are_looked_for_in_files_that_may_have_them(recorded: RecordedLake):
    files = files_of(recorded, 4)
    firsts = {file.location: file.first_row_id for file in files.files}

    def candidates(*row_ids: int) -> list[int]:
        return sorted(firsts[name] or 0 for name in files.may_hold(np.array(row_ids)))

    assert candidates(0) == [0]
    assert candidates(1, 2) == [0, 2]
    assert candidates(4) == [3]
    assert candidates(5, 100) == []


def test_files_with_ids_of_their_own_may_hold_any_row():
    moved = DataFileEntry("a", 10, 100, own_row_ids=True, sequence_number=1, file_format="PARQUET")
    plain = DataFileEntry("b", 10, 200, own_row_ids=False, sequence_number=1, file_format="PARQUET")
    files = SnapshotFiles((moved, plain), {})
    assert files.may_hold(np.array([5])) == ["a"]
    assert files.may_hold(np.array([205])) == ["a", "b"]
    assert files.mixes(np.array([105]))
    assert not files.mixes(np.array([5, 205]))
