"""Scans of tables too large for one row group: in parts, by Arrow or by DuckDB, cold or warm."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.maintenance.optimize import optimize
from jetbridge.backends.lake.read import splits
from jetbridge.backends.lake.read.context import CHUNK_BYTES, ColumnCache, ColumnChunkKey
from jetbridge.catalog import ROWID, AddColumn, CreateTable, RenameColumn, Scan, SchemaInfo
from jetbridge.errors import BadRequest, Unavailable
from jetbridge.expr import Column, Comparison, Constant
from tests.conformance.harness import delete, insert, read
from tests.helpers.lakes import new_lake

pytestmark = pytest.mark.lake

ROWS = 600_000
COLUMNS = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
NAMES = ("id", "x", "s", ROWID)


def values(start: int, stop: int) -> pa.Table:
    ids = np.arange(start, stop)
    texts = pa.array(ids % 1000).cast(pa.string())
    return pa.table([pa.array(ids), pa.array(ids / 7), texts], schema=COLUMNS)


def batch(rows: pa.Table) -> pa.RecordBatch:
    (only,) = rows.combine_chunks().to_batches()
    return only


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    made = new_lake()
    made.create_schema(SchemaInfo("s"))
    return made


@pytest.fixture
def made(lake: LakeCatalog, request: Any) -> Callable[..., Any]:
    """Return a table of one file for each number of rows."""

    def make(*counts: int) -> Any:
        name = request.node.name.replace("[", "_").replace("]", "")
        table = lake.load_schema("s").create_table(CreateTable(name, COLUMNS))
        start = 0
        for count in counts:
            insert(table, batch(values(start, start + count)))
            start += count
        return lake.load_schema("s").load_table(name)

    return make


def all_rows(table: Any, names: tuple[str, ...] = NAMES, request: Scan | None = None) -> pa.Table:
    found = [read(table, names, part=part) for part in table.split(request or Scan())]
    return pa.concat_tables(found).sort_by("id")


def with_ids(rows: pa.Table, first: int = 0) -> pa.Table:
    ids = pa.array(np.arange(first, first + rows.num_rows))
    return rows.append_column(pa.field(ROWID, pa.int64(), nullable=False), ids)


def same(found: pa.Table, expected: pa.Table) -> bool:
    return bool(found.combine_chunks().equals(expected.cast(found.schema).combine_chunks()))


def queries_of(lake: LakeCatalog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the queries that DuckDB streams from now on."""
    seen: list[str] = []
    stream = lake.lake.read.reader.stream

    def noted(sql: str, *rest: Any, **tables: Any) -> Any:
        seen.append(sql)
        return stream(sql, *rest, **tables)

    monkeypatch.setattr(lake.lake.read.reader, "stream", noted)
    return seen


def test_a_large_file_is_read_in_parts_by_arrow(lake, made, monkeypatch):
    table = made(ROWS)
    asked = queries_of(lake, monkeypatch)
    names = table.split(Scan())
    assert names == ["0:0-245760", "0:245760-491520", "0:491520-600000"]
    for _ in ("cold", "warm"):
        assert same(all_rows(table), with_ids(values(0, ROWS)))
    assert same(all_rows(table, ("s", "id")), values(0, ROWS).select(["s", "id"]))
    assert asked == []


def test_small_files_are_read_together(made):
    table = made(100_000, 150_000, 20_000, 300_000, 30_000)
    sizes = [sum(b.num_rows for b in table.scan(Scan(part=part))) for part in table.split(Scan())]
    assert len(sizes) > 2
    assert sum(sizes) == ROWS
    assert same(all_rows(table), with_ids(values(0, ROWS)))


def test_filtered_scans_of_a_part_find_its_rows(made):
    table = made(ROWS)
    wanted = Comparison("<", Column("id"), Constant("BIGINT", 250_000))
    counts = [
        read(table, ("id",), part=part, filter=wanted).num_rows for part in table.split(Scan())
    ]
    assert counts == [245_760, 250_000 - 245_760, 0]
    assert table.split(Scan(filter=wanted)) == [splits.WHOLE]


def test_files_from_before_a_new_column_are_read_by_duckdb(lake, made, monkeypatch):
    table = made(ROWS)
    table.alter(AddColumn(pa.field("n", pa.int64(), metadata={"default": "5"})))
    table = lake.load_schema("s").load_table(table.info().name)
    later = values(ROWS, ROWS + 30_000)
    insert(table, batch(later.append_column("n", later.column("id"))))
    table = lake.load_schema("s").load_table(table.info().name)
    asked = queries_of(lake, monkeypatch)
    found = all_rows(table, ("id", "n", ROWID))
    assert found.column("id").to_numpy().tolist() == list(range(ROWS + 30_000))
    assert found.column("n").to_numpy().tolist() == [5] * ROWS + list(range(ROWS, ROWS + 30_000))
    assert found.column(ROWID).to_pylist() == list(range(ROWS + 30_000))
    assert len(asked) == 3  # the parts of the old file


def test_a_renamed_column_is_not_taken_for_another(lake, made):
    table = made(ROWS)
    table.alter(RenameColumn("x", "y"))
    table.alter(AddColumn(pa.field("x", pa.float64())))
    table = lake.load_schema("s").load_table(table.info().name)
    found = all_rows(table, ("id", "x", "y"))
    assert found.column("x").null_count == ROWS
    assert found.column("y").equals(values(0, ROWS).column("x"))


def test_deleted_rows_stay_away_in_every_part(lake, made):
    table = made(ROWS)
    assert same(all_rows(table), with_ids(values(0, ROWS)))
    gone = [0, 245_759, 245_760, ROWS - 1]
    delete(table, gone)
    table = lake.load_schema("s").load_table(table.info().name)
    assert len(table.split(Scan())) == 3
    mask = np.ones(ROWS, bool)
    mask[gone] = False
    assert same(all_rows(table), with_ids(values(0, ROWS)).filter(pa.array(mask)))


def test_rows_keep_their_ids_when_files_carry_them(lake, made, monkeypatch):
    table = made(ROWS)
    delete(table, [7])
    optimize(lake.lake, "s", table.info().name)
    table = lake.load_schema("s").load_table(table.info().name)
    assert any(file.own_row_ids for file in lake.lake.read.snapshot_files(table.state).files)
    asked = queries_of(lake, monkeypatch)
    mask = np.ones(ROWS, bool)
    mask[7] = False
    assert same(all_rows(table), with_ids(values(0, ROWS)).filter(pa.array(mask)))
    assert asked == []


@pytest.mark.parametrize("warm", [False, True])
def test_a_missing_file_is_named_even_if_its_rows_are_known(lake, made, warm):
    table = made(ROWS)
    if warm:
        all_rows(table)
    (file,) = lake.lake.read.snapshot_files(table.state).files
    Path(file.location.removeprefix("file:")).unlink()
    with pytest.raises(Unavailable, match=f"cannot be read.*{Path(file.location).name}"):
        all_rows(table)


def test_a_garbled_file_is_named(lake, made):
    table = made(ROWS)
    (file,) = lake.lake.read.snapshot_files(table.state).files
    path = Path(file.location.removeprefix("file:"))
    data = bytearray(path.read_bytes())
    data[1000:200_000] = bytes(199_000)
    path.write_bytes(data)
    with pytest.raises(Unavailable, match=f"cannot be read.*{path.name}"):
        all_rows(table)


@pytest.mark.parametrize(
    "name", ["nonsense", "1-1", "5:0-1", "0:0-600001", "0:9-9", "0-2", "-1-1", "0:0", "9" * 30]
)
def test_a_part_that_is_none_is_refused(lake, name):
    schema = lake.load_schema("s")
    if not any(table.info().name == "small" for table in schema.list_tables()):
        insert(schema.create_table(CreateTable("small", COLUMNS)), batch(values(0, 10)))
    with pytest.raises(BadRequest, match="has no part"):
        read(schema.load_table("small"), ("id",), part=name)


def test_what_was_read_longest_ago_is_forgotten():
    column = pa.chunked_array([pa.array(np.arange(100))])
    hot = ColumnCache(2 * (column.nbytes + CHUNK_BYTES))
    first, second, third = (ColumnChunkKey("file", number, b"1") for number in range(3))
    hot.put(first, column)
    hot.put(second, column)
    assert hot.get(first) is column
    hot.put(third, column)
    assert [hot.get(each) is column for each in (first, second, third)] == [True, False, True]


def test_a_table_larger_than_what_is_kept_is_not_kept(lake, made, monkeypatch):
    table = made(ROWS)
    hot = ColumnCache(1_000_000)
    monkeypatch.setattr(lake.lake.read, "columns", hot)
    assert same(all_rows(table), with_ids(values(0, ROWS)))
    assert not len(hot)


@pytest.mark.parametrize("name", ["filename", "file_row_number"])
def test_a_column_called_as_duckdbs_own_hides_no_rows(lake, name):
    columns = pa.schema([("id", pa.int64()), (name, pa.int64())])
    ids = np.arange(30_000)
    schema = lake.load_schema("s")
    insert(schema.create_table(CreateTable(f"of_{name}", columns)), {"id": ids, name: ids})
    schema.load_table(f"of_{name}").alter(AddColumn(pa.field("x", pa.int64())))
    found = read(schema.load_table(f"of_{name}"), ("id", name, "x")).sort_by("id")
    assert found.column("id").to_numpy().tolist() == ids.tolist()
    assert found.column(name).to_numpy().tolist() == ids.tolist()
    assert found.column("x").null_count == 30_000


def test_long_texts_that_repeat_are_not_unpacked_all_at_once(lake):
    name = f"{lake.lake.name}.s.fat"
    with lake.lake.warehouse.engine.session() as session:
        text = "repeat('abcdefghij', 100)"
        session.sql(f"CREATE TABLE {name} AS SELECT id, {text} AS t FROM range(200000)")
    table = lake.load_schema("s").load_table("fat")
    hot = lake.lake.read.columns
    before = len(hot)
    sizes = [(batch.num_rows, batch.nbytes) for batch in table.scan(Scan(("t",)))]
    assert sum(rows for rows, _ in sizes) == 200_000
    assert max(size for _, size in sizes) < 20_000_000
    assert len(hot) == before


def test_files_that_duckdb_cannot_read_are_not_copied_one_by_one(lake, caplog):
    name = f"{lake.lake.name}.s.orc"
    with lake.lake.warehouse.engine.session() as session:
        session.sql(
            f"CREATE TABLE {name} TBLPROPERTIES ('write.format.default' = 'orc', "
            "'format-version' = '3') AS SELECT id FROM range(15000)"
        )
        session.sql(f"INSERT INTO {name} SELECT id FROM range(15000, 30000)")
    table = lake.load_schema("s").load_table("orc")
    with caplog.at_level("INFO"):
        found = read(table, ("id",)).sort_by("id")
    assert found.column("id").to_numpy().tolist() == list(range(30_000))
    assert not [each for each in caplog.messages if "read by Spark" in each]


def test_a_snapshot_outlives_a_hundred_commits_of_others(lake):
    schema = lake.load_schema("s")
    insert(schema.create_table(CreateTable("busy", COLUMNS)), batch(values(0, 10)))
    pinned = lake.snapshot().load_schema("s").load_table("busy")
    state = pinned.state
    for path in Path(state.folder.removeprefix("file:")).glob("metadata/*.metadata.json"):
        if path.name in state.location:
            insert(schema.load_table("busy"), batch(values(10, 11)))
            path.unlink()  # as after a hundred more
    assert read(pinned, ("id",)).column("id").to_pylist() == list(range(10))
