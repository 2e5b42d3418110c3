"""`optimize`: fewer files, the same rows with the same ids, while others work."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.maintenance import optimize as maintenance
from jetbridge.backends.lake.maintenance.optimize import OptimizeOptions, optimize
from jetbridge.backends.lake.warehouse import branches
from jetbridge.catalog import AsOf, AtUnit, ChangeType, CreateTable, SchemaInfo
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import FailedPrecondition, NotFound
from tests.conformance.harness import delete, insert, read, rowids, rows, update
from tests.helpers.lakes import new_lake

pytestmark = pytest.mark.lake

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.float64())])
NOW = OptimizeOptions(older_than=timedelta(0))


def data(start: int, stop: int) -> dict[str, list[Any]]:
    numbers = range(start, stop)
    return {
        "id": list(numbers),
        "name": [f"n{n % 5}" for n in numbers],
        "v": [n / 2 for n in numbers],
    }


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    made = new_lake()
    made.create_schema(SchemaInfo("s"))
    return made


class Words:
    """Hold a table, and ask about it."""

    def __init__(self, lake: LakeCatalog, name: str) -> None:
        self.lake, self.name = lake, name
        self.said: list[str] = []

    def create(self) -> "Words":
        self.lake.load_schema("s").create_table(CreateTable(self.name, COLUMNS))
        return self

    def load(self) -> Any:
        return self.lake.load_schema("s").load_table(self.name)

    def state(self) -> Any:
        return self.lake.lake.tables.load("s", self.name)

    def lineage(self) -> list[tuple[Any, ...]]:
        """Return each row with its id and its last change."""
        state = self.state()
        source = queries.table(state.location, state.snapshot_id)
        columns = f"id, name, v, {queries.ROW_ID}, {queries.UPDATED}"
        found = self.lake.lake.read.reader.query(f"SELECT {columns} FROM {source} ORDER BY id")
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def optimize(self, options: OptimizeOptions = NOW) -> dict[str, tuple[str, str]]:
        self.said.clear()
        table = optimize(self.lake.lake, "s", self.name, options, self.said.append)
        return {what: (before, after) for what, before, after in table}

    def spark(self, what: str) -> list[tuple[Any, ...]]:
        with self.lake.lake.warehouse.engine.session() as session:
            name = f"`{self.lake.lake.name}`.s.`{self.name}`"
            return [tuple(row) for row in session.sql(what.format(name)).collect()]

    def files(self) -> set[str]:
        return {path.name for path in Path(self.state().folder).rglob("*") if path.is_file()}


def test_small_files_and_vectors_become_one_file_with_the_same_rows(lake):
    table = Words(lake, "small").create()
    for start in range(0, 50, 10):
        insert(table.load(), data(start, start + 10))
    update(table.load(), {"v": [-1.0] * 3, "rowid": [3, 14, 25]})
    delete(table.load(), [7, 8, 33])
    before = table.lineage()
    report = table.optimize()
    assert table.lineage() == before, "values, row ids and last changes"
    assert report["data files"] == ("6", "1")
    assert report["delete files"][1] == "0"
    assert report["rows"] == ("47", "47")
    assert report["manifests"][1] == "1"
    assert report["snapshots"] == ("7", "1")
    assert [line.split(":")[0] for line in table.said] == [
        "compaction",
        "manifests",
        "snapshots",
        "orphan files",
    ]
    assert all(line.endswith(" s)") for line in table.said)
    # A handle from before still tells whose change is younger.
    update(table.load(), {"v": [5.0], "rowid": [3]})
    assert read(table.load()).num_rows == 47
    again = table.optimize()
    assert again["data files"] == ("2", "1")
    assert table.optimize()["data files"] == ("1", "1")
    assert "compaction: nothing to do" in table.said[0]


def test_a_handle_from_before_the_compaction_writes_without_a_conflict(lake):
    table = Words(lake, "handles").create()
    insert(table.load(), data(0, 5))
    insert(table.load(), data(5, 10))
    seen = table.load()
    table.optimize(OptimizeOptions())
    update(seen, {"name": ["new"], "rowid": rowids(seen, "id", 7)})
    assert (7, "new", 3.5) in rows(table.load())
    assert read(seen, ("id",)).num_rows == 10, "its snapshot is kept"


def test_an_expired_version_says_so(lake):
    table = Words(lake, "expired").create()
    for start in range(3):
        insert(table.load(), data(start, start + 1))
    assert len(rows(table.load().at(AsOf(AtUnit.VERSION, "1")))) == 1
    table.optimize(OptimizeOptions(older_than=timedelta(hours=1)))
    assert len(rows(table.load().at(AsOf(AtUnit.VERSION, "1")))) == 1, "it is young"
    table.optimize()
    with pytest.raises(NotFound, match=r"versions \d+ to \d+ are kept"):
        table.load().at(AsOf(AtUnit.VERSION, "1"))


@pytest.mark.full
def test_a_layout_is_applied_to_rows_that_are_there(lake):
    table = Words(lake, "relaid").create()
    insert(table.load(), data(0, 40))
    insert(table.load(), data(40, 60))
    before = table.lineage()
    report = table.optimize(OptimizeOptions(timedelta(0), partition_by="name", sort_by="v DESC"))
    assert table.lineage() == before
    assert report["data files"] == ("2", "5")
    found = dict(table.spark("SELECT partition.name, record_count FROM {}.partitions"))
    assert found == {f"n{n}": 12 for n in range(5)}
    assert "layout: changed for all rows" in table.said[0]
    assert table.optimize()["data files"] == ("5", "5")
    assert "compaction: nothing to do" in table.said[0]


@pytest.mark.full
def test_rows_that_alter_wrote_anew_find_back_to_their_partitions(lake):
    table = Words(lake, "altered").create()
    table.load().lay_out("name", "id")
    insert(table.load(), data(0, 20))
    table.load().alter(ChangeType(pa.field("v", pa.string())))
    assert table.spark("SELECT DISTINCT spec_id FROM {}.files") == [(0,)], "outside"
    insert(table.load(), {"id": [20], "name": ["n0"], "v": ["new"]})
    update(table.load(), {"v": ["changed"], "rowid": rowids(table.load(), "id", 7)})
    delete(table.load(), rowids(table.load(), "id", 8))
    before = table.lineage()
    table.optimize()
    assert table.lineage() == before
    found = dict(table.spark("SELECT partition.name, record_count FROM {}.partitions"))
    assert found == {"n0": 5, "n1": 4, "n2": 4, "n3": 3, "n4": 4}
    values = {n: str(n / 2) for n in range(20) if n != 8} | {7: "changed", 20: "new"}
    assert dict(rows(table.load(), "id", "v")) == values


def test_files_that_nobody_refers_to_go_unless_their_server_lives(lake):
    table = Words(lake, "strays").create()
    insert(table.load(), data(0, 3))
    folder = Path(table.state().data_folder)
    strays = ["00000-1-dead.parquet", "jetbridge-0badcafe-1.parquet", ".00000-1-dead.parquet.crc"]
    running = f"{lake.lake.warehouse.file_prefix()}-running.parquet"
    for name in (*strays, running):
        (folder / name).write_bytes(b"x")
    report = table.optimize(OptimizeOptions(older_than=timedelta(hours=1)))
    assert report["orphan files removed"] == ("", "0"), "they are young"
    report = table.optimize()
    assert report["orphan files removed"] == ("", "2")
    assert not table.files() & set(strays)
    assert running in table.files()
    (folder / running).unlink()
    assert rows(table.load(), "id") == [(0,), (1,), (2,)]


def test_a_table_inside_the_folder_of_another_keeps_its_files(lake):
    table = Words(lake, "renamed").create()
    insert(table.load(), data(0, 3))
    other = f"`{lake.lake.name}`.s.`inside`"
    inside = f"{table.state().folder}/inside"
    columns = "id BIGINT, name STRING, v DOUBLE"
    table.spark(f"CREATE TABLE {other} ({columns}) USING iceberg LOCATION '{inside}'")
    table.spark(f"INSERT INTO {other} VALUES (1, 'a', 0.5)")
    assert table.optimize()["orphan files removed"] == ("", "0")
    assert rows(lake.load_schema("s").load_table("inside")) == [(1, "a", 0.5)]


def test_branches_of_dead_servers_go(lake):
    table = Words(lake, "branches").create()
    insert(table.load(), data(0, 3))
    mine = branches.new_name(lake.lake.warehouse.server)
    for name in (mine, f"{branches.prefix_of('0badcafe')}x", "others"):
        table.spark(f"ALTER TABLE {{}} CREATE BRANCH `{name}`")
    table.optimize()
    assert sorted(table.state().references) == sorted([mine, "main", "others"])


@pytest.mark.full
@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_an_old_table_is_upgraded_when_asked(lake, version):
    table = Words(lake, f"old{version}")
    kind = f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    table.spark(f"CREATE TABLE {{}} (id BIGINT, name STRING, v DOUBLE) USING iceberg {kind}")
    for start in (0, 10):
        values = ", ".join(f"({n}, 'n{n % 5}', {n / 2})" for n in range(start, start + 10))
        table.spark(f"INSERT INTO {{}} VALUES {values}")
    if version == 2:
        table.spark("DELETE FROM {} WHERE id IN (3, 14)")
    there = rows(table.load())
    assert table.optimize()["data files"][1] == "1"
    with pytest.raises(FailedPrecondition, match="--upgrade"):
        update(table.load(), {"v": [0.0], "rowid": [0]})
    table.spark("INSERT INTO {} VALUES (100, 'late', 1.0)")
    if version == 2:
        table.spark("DELETE FROM {} WHERE id = 5")
        there = [row for row in there if row[0] != 5]
    report = table.optimize(OptimizeOptions(timedelta(0), upgrade=True))
    assert report["delete files"][1] == "0"
    assert f"format {version} to 3" in table.said[0]
    assert rows(table.load()) == sorted([*there, (100, "late", 1.0)], key=repr)
    update(table.load(), {"v": [9.0], "rowid": rowids(table.load(), "id", 100)})
    delete(table.load(), rowids(table.load(), "id", 4))
    left = [row for row in there if row[0] != 4]
    assert rows(table.load()) == sorted([*left, (100, "late", 9.0)], key=repr)
    ids = read(table.load(), ("rowid",)).column(0).to_pylist()
    assert len(set(ids)) == len(ids)
    assert "already" in (table.optimize(OptimizeOptions(upgrade=True)) and table.said[0])


def test_an_empty_table_is_no_error(lake):
    table = Words(lake, "empty").create()
    report = table.optimize(OptimizeOptions(timedelta(0), upgrade=True, sort_by="id"))
    assert report["data files"] == ("0", "0")
    with pytest.raises(NotFound, match="s.nowhere"):
        optimize(lake.lake, "s", "nowhere")


@pytest.mark.full
@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_others_write_while_a_table_is_compacted(lake, rounds):
    table = Words(lake, f"busy{rounds}").create()
    for start in range(0, 60, 10):
        insert(table.load(), data(start, start + 10))
    ended = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        number = 1000
        try:
            while not ended.is_set() or number < 1010:
                seen = table.load()
                update(seen, {"v": [float(number)], "rowid": rowids(seen, "id", number % 60)})
                insert(table.load(), data(number, number + 1))
                number += 1
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(rounds):
            table.optimize(OptimizeOptions(older_than=timedelta(hours=1)))
    finally:
        ended.set()
        writer.join(300)
    assert not failures
    now = rows(table.load(), "id", "v")
    inserted = [n for n, _ in now if n >= 1000]
    assert sorted(inserted) == list(range(1000, 1000 + len(inserted)))
    expected = {n: n / 2 for n in range(60)} | {n: n / 2 for n in inserted}
    expected |= {n % 60: float(n) for n in sorted(inserted)}
    assert dict(now) == expected
    assert len(now) == len(expected)


@pytest.mark.full
def test_a_compaction_that_others_outrun_is_said(lake, monkeypatch):
    table = Words(lake, "outrun").create()
    for start in range(0, 30, 10):
        insert(table.load(), data(start, start + 10))
    monkeypatch.setattr(maintenance, "_PAUSE", 0.0)
    nothing = {"rewritten_data_files_count": 0, "failed_data_files_count": 0}
    call = maintenance._Optimize._call

    def outrun(self, procedure, **arguments):
        if procedure == "rewrite_data_files":
            return nothing
        return call(self, procedure, **arguments)

    monkeypatch.setattr(maintenance._Optimize, "_call", outrun)
    table.optimize()
    assert any(each.startswith("compaction: 3 left: others keep changing") for each in table.said)
