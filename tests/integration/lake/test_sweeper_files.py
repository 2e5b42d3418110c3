"""The sweeper on real files, without Spark: PyIceberg makes the tables (of format 2)."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.maintenance.sweeper import Grace, Sweeper
from jetbridge.backends.lake.options import LakeOptions
from jetbridge.backends.lake.warehouse.dropped_tables import DroppedTable, new_folder
from jetbridge.backends.lake.warehouse.server_locks import live_jobs
from jetbridge.catalog import Scan
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.errors import Conflict, Unavailable
from jetbridge.spark.engine import SparkEngine
from tests.helpers.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
AT_ONCE = Grace(files=0, dropped=0)
DEAD = "0badcafe"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> LakeReader:
    """Share one reader, which takes half a second to open."""
    return LakeReader([str(tmp_path_factory.getbasetemp())])


@pytest.fixture
def lake(tmp_path: Path, reader: LakeReader) -> Iterator[LakeCatalog]:
    """Provide a lake with a table s.t of three commits, one row each."""
    made = opened(tmp_path / "lake", reader)
    made.lake.iceberg.create_namespace("s")
    make(made, "t")
    yield made
    made.close()


def opened(folder: Path, reader: LakeReader, server: str = "11111111") -> LakeCatalog:
    engine = SparkEngine(log_file=folder / "spark.log")
    options = LakeOptions(str(folder), server=server)
    return LakeCatalog("lake", folder, engine, options=options, reader=reader)


def make(lake: LakeCatalog, name: str, commits: int = 3) -> Any:
    warehouse = lake.lake.warehouse.folder
    schema = pa.schema([("id", pa.int64())])
    place = f"{warehouse}/s/{name}"
    table = lake.lake.iceberg.create_table(("s", name), schema, location=place)
    for number in range(commits):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    return table


def folder(lake: LakeCatalog) -> Path:
    return Path(lake.lake.warehouse.folder)


def ids(lake: LakeCatalog, name: str = "t") -> list[int]:
    table = lake.load_schema("s").load_table(name)
    return sorted(n for batch in table.scan(Scan(("id",))) for n in batch.column(0).to_pylist())


def files(lake: LakeCatalog) -> set[Path]:
    """Return all but what the catalog and the live server keep."""
    kept = ("catalog.db", "11111111")
    return {p for p in folder(lake).rglob("*") if p.is_file() and not p.name.startswith(kept)}


def leave(path: Path, age: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left behind")
    os.utime(path, (time.time() - age,) * 2)
    return path


def bury(lake: LakeCatalog, *jobs: dict[str, Any], age: float = 0.0) -> Path:
    """Leave the file of a server that is no more."""
    place = folder(lake) / ".jetbridge/servers"
    for number, job in enumerate(jobs):
        note = place / f"{DEAD}.jobs" / f"{number}.json"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(job))
    file = leave(place / DEAD, age)
    file.write_text(json.dumps({"started": time.time() - age}))
    os.utime(file, (time.time() - age,) * 2)
    return file


def job_on(lake: LakeCatalog, name: str, started: float) -> dict[str, Any]:
    identity = lake.lake.tables.load("s", name).identity
    return {"identity": identity, "title": f"s.{name}", "started": started, "ended": None}


@contextmanager
def killed(lake: LakeCatalog) -> Iterator[None]:
    """Run a process that writes rows; it dies at the end of the block, with its statement open."""
    module = "tests.unit.backends.lake.doomed_insert"
    command = [sys.executable, "-m", module, str(folder(lake)), DEAD]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield
        process.kill()


def test_what_a_killed_process_has_written_goes_and_nothing_else(lake):
    before = files(lake)
    with killed(lake):
        assert any(path.name.startswith(f"jetbridge-{DEAD}") for path in files(lake))
        assert not lake.sweep(AT_ONCE), "it lives"
        assert any(path.name.startswith(f"jetbridge-{DEAD}") for path in files(lake))
    swept = lake.sweep(AT_ONCE)
    assert files(lake) == before
    assert ids(lake) == [0, 1, 2]
    assert swept.servers == [DEAD]
    assert swept.files
    assert not lake.sweep(AT_ONCE)


def test_files_of_a_dead_server_that_are_referred_to_stay(lake):
    table = make(lake, "u", commits=0)
    data = folder(lake) / "s/u/data"
    name = data / f"jetbridge-{DEAD}-1-00000.parquet"
    data.mkdir(parents=True)
    pa.parquet.write_table(pa.table({"id": pa.array([7], pa.int64())}), name)
    table.add_files([str(name)])
    stray = leave(data / f"jetbridge-{DEAD}-2-00000.parquet")
    vectors = leave(data / f"jetbridge-{DEAD}-abc.puffin")
    staged = leave(folder(lake) / f".jetbridge/staging/jetbridge-{DEAD}-1.parquet")
    other = leave(data / "jetbridge-22222222-1-00000.parquet")
    bury(lake)
    lake.sweep(AT_ONCE)
    assert [path.exists() for path in (stray, vectors, staged)] == [False] * 3
    assert name.exists()
    assert other.exists(), "nobody knows whose it is"
    assert ids(lake, "u") == [7]


def test_files_of_old_snapshots_stay(lake):
    table = lake.lake.iceberg.load_table(("s", "t"))
    table.delete()
    before = files(lake)
    bury(lake, job_on(lake, "t", 0))
    lake.sweep(AT_ONCE)
    assert files(lake) == before


def test_files_of_spark_go_where_a_job_died_and_after_a_while(lake):
    data = folder(lake) / "s/t/data"
    old = leave(data / "00000-1-aa.parquet", age=5_000)
    checksum = leave(data / ".00000-1-aa.parquet.crc", age=5_000)
    nested = leave(data / "region=n/00000-2-aa-deletes.puffin", age=4_000)
    young = leave(data / "00001-1-aa.parquet", age=60)
    earlier = leave(data / "00000-1-bb.parquet", age=9_000)
    elsewhere = leave(folder(lake) / "s/u/data/00000-1-cc.parquet", age=5_000)
    make(lake, "u")
    server = bury(lake, job_on(lake, "t", time.time() - 6_000), age=7_000)
    lake.sweep()
    assert [path.exists() for path in (old, checksum, nested)] == [False] * 3
    assert [path.exists() for path in (young, earlier, elsewhere)] == [True] * 3
    assert server.exists(), "a file is too young yet"
    lake.sweep(AT_ONCE)
    assert [path.exists() for path in (young, earlier, elsewhere, server)] == [
        False,
        True,
        True,
        False,
    ]
    assert ids(lake) == [0, 1, 2]


def test_files_of_spark_stay_while_a_living_server_works_on_the_table(lake, reader):
    stray = leave(folder(lake) / "s/t/data/00000-1-aa.parquet", age=5_000)
    server = bury(lake, job_on(lake, "t", time.time() - 6_000), age=7_000)
    other = opened(folder(lake), reader, "22222222")
    with other.lake.warehouse.lock.job(lake.lake.tables.load("s", "t").identity, "s.t"):
        assert {job.title for job in live_jobs(server.parent)} == {"s.t"}
        lake.sweep(AT_ONCE)
        assert stray.exists()
        assert server.exists()
    lake.sweep(AT_ONCE)
    assert not stray.exists()
    other.close()


def test_metadata_of_a_commit_that_was_not_made_goes(lake):
    metadata = folder(lake) / "s/t/metadata"
    strays = [
        leave(metadata / "snap-1-1-aa.avro"),
        leave(metadata / "aa-m0.avro"),
        leave(metadata / "00009-aa.metadata.json"),
    ]
    hint = leave(metadata / "version-hint.text")
    bury(lake, age=60)
    lake.sweep(Grace(files=30))
    assert all(path.exists() for path in strays), "they are young"
    lake.sweep(AT_ONCE)
    assert not any(path.exists() for path in strays)
    assert hint.exists()
    assert ids(lake) == [0, 1, 2]


def test_a_failed_job_of_this_server_is_swept(lake):
    stray = folder(lake) / "s/t/data/00000-1-aa.parquet"
    identity = lake.lake.tables.load("s", "t").identity
    called = threading.Event()
    lake.lake.warehouse.on_trouble = called.set
    with pytest.raises(Unavailable), lake.lake.warehouse.lock.job(identity, "s.t"):
        leave(stray)
        raise Unavailable("Spark has died")
    lake.sweep()
    assert stray.exists()
    lake.sweep(AT_ONCE)
    assert not stray.exists()
    assert not list((folder(lake) / ".jetbridge/servers").rglob("*.json"))


def test_a_job_that_was_refused_leaves_no_note(lake):
    with pytest.raises(Conflict), lake.lake.warehouse.lock.job("x", "s.t"):
        raise Conflict("someone was faster")
    assert not list((folder(lake) / ".jetbridge/servers").rglob("*.json"))


def test_a_table_whose_manifests_cannot_be_read_keeps_its_files(lake, caplog):
    stray = leave(folder(lake) / f"s/t/data/jetbridge-{DEAD}-1.parquet")
    (manifest,) = {
        each.manifest_path
        for each in lake.lake.iceberg.load_table(("s", "t"))
        .current_snapshot()
        .manifests(lake.lake.iceberg.load_table(("s", "t")).io)
        if each.added_files_count and each.sequence_number == 1
    }
    Path(manifest.removeprefix("file://")).write_bytes(b"damaged")
    bury(lake)
    lake.sweep(AT_ONCE)
    assert stray.exists()
    assert "not swept" in caplog.text


def drop(lake: LakeCatalog, name: str) -> DroppedTable:
    state = lake.lake.tables.load("s", name)
    note = DroppedTable(state.folder, state.title(), time.time(), state.identity, state.location)
    lake.lake.warehouse.dropped.add(note)
    lake.lake.iceberg.drop_table(("s", name))
    return note


def test_the_folder_of_a_dropped_table_goes_after_a_while(lake):
    make(lake, "u")
    drop(lake, "t")
    assert not lake.sweep()
    assert (folder(lake) / "s/t").exists(), "someone may read it yet"
    swept = lake.sweep(AT_ONCE)
    assert swept.tables == ["s.t"]
    assert not (folder(lake) / "s/t").exists()
    assert ids(lake, "u") == [0, 1, 2]
    assert not lake.sweep(AT_ONCE)


def test_a_table_that_has_taken_the_folder_of_a_dropped_one_keeps_its_files(lake):
    drop(lake, "t")
    make(lake, "t", commits=2)
    lake.sweep(AT_ONCE)
    assert ids(lake) == [0, 1]
    referred = len([path for path in files(lake) if path.suffix == ".parquet"])
    assert referred == 2, "those of the dropped table are gone"


def test_a_drop_that_failed_drops_nothing(lake):
    state = lake.lake.tables.load("s", "t")
    lake.lake.warehouse.dropped.add(
        DroppedTable(state.folder, state.title(), 0.0, state.identity, state.location)
    )
    lake.sweep(AT_ONCE)
    assert ids(lake) == [0, 1, 2]
    assert not lake.lake.warehouse.dropped.all()


@pytest.mark.parametrize(
    "place", ["{root}", "{root}/../outside", "/nowhere/else", "{root}/s/../.."]
)
def test_only_folders_below_the_warehouse_go(lake, tmp_path, place):
    outside = leave(tmp_path / "outside/file")
    lake.lake.warehouse.dropped.add(DroppedTable(place.format(root=folder(lake)), "s.x", 0.0, "x"))
    lake.sweep(AT_ONCE)
    assert outside.exists()
    assert ids(lake) == [0, 1, 2]


def test_a_table_with_gc_disabled_keeps_its_folder(lake):
    with lake.lake.iceberg.load_table(("s", "t")).transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    drop(lake, "t")
    lake.sweep(AT_ONCE)
    assert (folder(lake) / "s/t").exists()


def test_the_folder_of_a_table_that_was_never_made_goes(lake):
    made = leave(folder(lake) / "s/half-1/metadata/00000-a.metadata.json").parent.parent
    lake.lake.warehouse.dropped.add(DroppedTable(str(made), "s.half", time.time(), maker=DEAD))
    lake.lake.warehouse.lock.hold()
    mine = leave(folder(lake) / "s/mine-1/metadata/00000-a.metadata.json").parent.parent
    lake.lake.warehouse.dropped.add(
        DroppedTable(str(mine), "s.mine", time.time(), maker="11111111")
    )
    lake.sweep(AT_ONCE)
    assert not made.exists()
    assert mine.exists(), "it is being made"


@pytest.mark.parametrize("name", ["a/b", "..", "../../etc", "", "ü" * 300, "x" * 300])
def test_no_name_leads_out_of_the_warehouse(name):
    place = new_folder("/lake", "s", name)
    assert place.startswith("/lake/s/")
    assert len(place.encode()) < 100
    assert "/.." not in place
    assert "/" not in place.removeprefix("/lake/s/")


def test_the_sweeper_runs_at_the_start_and_when_asked(lake):
    first = leave(folder(lake) / f"s/t/data/jetbridge-{DEAD}-1.parquet")
    server = bury(lake)
    sweeper = Sweeper(lake.lake, AT_ONCE)
    sweeper.start()
    wait_until(lambda: not server.exists())
    assert not first.exists()
    second = leave(folder(lake) / f"s/t/data/jetbridge-{DEAD}-2.parquet")
    bury(lake)
    sweeper.wake()
    wait_until(lambda: not second.exists())
    sweeper.stop()


def test_the_sweeper_survives_a_sweep_that_fails(lake, monkeypatch, caplog):
    monkeypatch.setattr(lake.lake.warehouse.dropped, "all", lambda: 1 / 0)
    lake.start_sweeper(AT_ONCE)
    wait_until(lambda: "failed: division" in caplog.text)
    monkeypatch.undo()
    stray = leave(folder(lake) / f"s/t/data/jetbridge-{DEAD}-1.parquet")
    bury(lake)
    lake.lake.warehouse.on_trouble()
    wait_until(lambda: not stray.exists())
