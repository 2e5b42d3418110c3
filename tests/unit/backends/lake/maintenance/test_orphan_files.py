"""Which files a table refers to, and which folders belong together."""

from pathlib import Path

import pytest

from jetbridge.backends.lake.maintenance.orphan_files import (
    is_below,
    overlap,
    referenced_names,
    removable,
    remove_files,
)
from jetbridge.backends.lake.warehouse.branches import new_name, own_snapshots, server_of
from jetbridge.backends.lake.warehouse.server_locks import ServerLock
from jetbridge.duckdb_engine.lake_reader import QueryError
from tests.unit.backends.lake.recorded_lake import RecordedLake


def files_of(name: str) -> set[str]:
    return {path.name for path in Path("recorded", name).rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["plain", "laid_out"])
def test_a_table_refers_to_all_its_files(recorded: RecordedLake, name: str):
    assert files_of(name) <= referenced_names(recorded.reader, recorded.state(name))


def test_an_older_version_does_not_refer_to_later_files(recorded: RecordedLake):
    first = referenced_names(recorded.reader, recorded.state("plain", 1))
    last = referenced_names(recorded.reader, recorded.state("plain", 6))
    assert first < last
    assert len({name for name in first if name.endswith(".parquet")}) == 1
    assert len({name for name in last if name.endswith(".parquet")}) == 3


def test_statistics_belong_to_a_table(recorded: RecordedLake):
    entry = {"statistics-path": "recorded/plain/metadata/a%20b.stats", "snapshot-id": 1}
    state = recorded.change("plain", **{"statistics": [entry], "partition-statistics": [entry]})
    assert {"a%20b.stats", "a b.stats"} <= referenced_names(recorded.reader, state)


def test_with_a_damaged_manifest_nothing_is_known(recorded: RecordedLake):
    path = next(Path("recorded/plain/metadata").glob("*-m0.avro"))
    path.write_bytes(b"no Avro")
    with pytest.raises(QueryError):
        referenced_names(recorded.reader, recorded.state("plain"))


def test_files_of_live_servers_and_other_tables_stay(recorded: RecordedLake, tmp_path: Path):
    other = ServerLock(str(tmp_path), "22222222")
    other.hold()
    shared = recorded.lake.read.snapshot_files(recorded.state("plain")).files[0].location
    names = {
        "stray": "recorded/plain/data/stray.parquet",
        "theirs": "recorded/plain/data/jetbridge-22222222-1.parquet",
        "dead": "recorded/plain/data/jetbridge-33333333-1.parquet",
        "shared": shared,
    }
    # Another table whose folder holds that of this one.
    recorded.change("laid_out", location="recorded")
    recorded.add("copy", recorded.metadata_files("plain")[-1])
    recorded.change("copy", location="recorded/plain", **{"table-uuid": "another"})
    state = recorded.state("plain")
    assert removable(recorded.lake, state, list(names.values())) == [names["stray"], names["dead"]]
    other.close()


def test_files_of_a_running_job_stay(recorded: RecordedLake):
    state = recorded.state("plain")
    stray = Path("recorded/plain/data/00000-1.parquet")
    stray.write_bytes(b"")
    lock = recorded.lake.warehouse.lock
    with lock.job(state.identity, state.title()):
        assert removable(recorded.lake, state, [str(stray)]) == []
        with lock.job("another table", "s.t"):
            assert removable(recorded.lake, state, ["recorded/none.parquet"]) == [
                "recorded/none.parquet"
            ]
    assert removable(recorded.lake, state, [str(stray)]) == [str(stray)]


def test_checksums_go_with_their_files(recorded: RecordedLake):
    file = Path("recorded/plain/data/x.parquet")
    checksum = file.with_name(".x.parquet.crc")
    file.write_bytes(b"")
    checksum.write_bytes(b"")
    remove_files(recorded.lake.warehouse, [str(file), "recorded/none.parquet"])
    assert not file.exists()
    assert not checksum.exists()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("/lake/s/t", "/lake/s/t", True),
        ("/lake/s/t/", "/lake/s/t/data", True),
        ("file:/lake/s/t", "/lake/s", True),
        ("/lake/s/t", "/lake/s/t2", False),
        ("s3://b/t", "s3://b/t/data", True),
        ("s3://b/t", "s3://c/t", False),
    ],
)
def test_folders_overlap(one: str, other: str, expected: bool):
    assert overlap([one], [other]) is expected
    assert overlap([other], [one]) is expected


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("/lake/s/t", True), ("/lake", False), ("/lake/", False), ("/other", False)]
    + [("/lake/../other", False), ("/lake2/s", False)],
)
def test_only_folders_inside_the_warehouse_are_removed(folder: str, expected: bool):
    assert is_below(folder, "/lake") is expected


def test_a_branch_has_snapshots_of_its_own(recorded: RecordedLake):
    state = recorded.state("laid_out")
    first, second = (snapshot.snapshot_id for snapshot in state.snapshots())
    assert own_snapshots(state, {"side"}) == set()
    references = {
        "main": {"snapshot-id": first, "type": "branch"},
        "side": {"snapshot-id": second, "type": "branch"},
    }
    changed = recorded.change("laid_out", refs=references)
    assert own_snapshots(changed, {"side"}) == {second}
    assert own_snapshots(changed, {"main", "side"}) == {first, second}


def test_the_name_of_a_branch_names_its_server():
    name = new_name("1a2b3c4d")
    assert server_of(name) == "1a2b3c4d"
    assert name != new_name("1a2b3c4d")
