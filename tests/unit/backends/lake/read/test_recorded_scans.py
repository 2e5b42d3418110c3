"""Recorded tables are read as Spark wrote them, by DuckDB and by Arrow."""

from typing import Any

import pyarrow as pa
import pytest

from jetbridge.backends.lake.catalog import LakeSnapshot
from jetbridge.backends.lake.read import relation, splits
from jetbridge.backends.lake.table import LakeTable
from jetbridge.catalog import AsOf, AtUnit, CatalogVersion, Scan
from jetbridge.errors import BadRequest, NotFound, Unavailable
from jetbridge.expr import Column, Comparison, Constant
from tests.unit.backends.lake.recorded_lake import RecordedLake

ROWS = [(1, "a", None), (2, "b", None), (3, "c", None), (5, "e", 50)]


def table(recorded: RecordedLake, name: str = "plain") -> LakeTable:
    return LakeTable(recorded.lake, recorded.state(name))


def rows(handle: Any, **request: Any) -> list[tuple[object, ...]]:
    data = pa.Table.from_batches(handle.scan(Scan(**request)))
    return sorted(tuple(row.values()) for row in data.to_pylist())


def at(number: int) -> AsOf:
    return AsOf(AtUnit.VERSION, str(number))


def test_rows_of_a_table(recorded: RecordedLake):
    assert rows(table(recorded), columns=("id", "label", "size")) == ROWS
    assert table(recorded).count_rows() == 4


def test_rows_keep_their_ids(recorded: RecordedLake):
    assert rows(table(recorded), columns=("id", "rowid")) == [(1, 0), (2, 1), (3, 2), (5, 4)]


def test_rows_of_every_version(recorded: RecordedLake):
    handle = table(recorded)
    counts = [len(rows(handle.at(at(number)), columns=("id",))) for number in range(1, 5)]
    assert counts == [2, 3, 5, 4]
    assert rows(handle.at(at(2)), columns=("id", "name")) == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(BadRequest, match="has no column 'size'"):
        rows(handle.at(at(2)), columns=("size",))


def test_a_filter_is_pushed_down(recorded: RecordedLake):
    above = Comparison(">", Column("ID"), Constant("BIGINT", 2))
    assert rows(table(recorded), columns=("id",), filter=above) == [(3,), (5,)]


def test_rows_of_a_partitioned_table(recorded: RecordedLake):
    assert sorted(rows(table(recorded, "laid_out"), columns=("id",))) == [(1,), (2,), (3,), (4,)]


def test_a_small_table_is_one_split(recorded: RecordedLake):
    request = Scan(("id",))
    assert table(recorded).split(request) == [splits.WHOLE]
    for name in ("x", "9-10", "0:5-6", "2-1"):
        with pytest.raises(BadRequest, match="has no part"):
            splits.find_split(recorded.lake.read, recorded.state("plain"), name)
    chosen = splits.find_split(recorded.lake.read, recorded.state("plain"), "1-3")
    assert chosen is not None
    assert len(chosen.files) == 2


def test_a_missing_data_file_is_named(recorded: RecordedLake):
    state = recorded.state("plain")
    file = recorded.lake.read.snapshot_files(state).files[0]
    recorded.lake.read.files.delete([file.location])
    with pytest.raises(Unavailable, match=file.location.rsplit("/", 1)[-1]):
        rows(table(recorded), columns=("label",))


def test_spark_reads_columns_with_the_same_values(recorded: RecordedLake):
    found = relation.spark_relation(recorded.lake.read, recorded.state("plain"))
    assert dict(found.types) == {"id": "BIGINT", "label": "VARCHAR", "size": "INTEGER"}
    assert found.missing == {}


def test_an_old_snapshot_reads_what_it_listed(recorded: RecordedLake):
    recorded.state("plain", 1)
    lake = recorded.lake
    snapshot = LakeSnapshot(lake, lake.tables.listing(), CatalogVersion(1))
    recorded.state("plain", 6)
    assert rows(snapshot.load_schema("S").load_table("Plain"), columns=("id",)) == [(1,), (2,)]
    recorded.remove("plain")
    with pytest.raises(NotFound):
        snapshot.load_schema("s").load_table("plain")


def test_a_damaged_table_is_left_out_and_logged_once(recorded: RecordedLake, caplog):
    lake = recorded.lake
    recorded.add("broken", "recorded/none.metadata.json")
    snapshot = LakeSnapshot(lake, lake.tables.listing(), CatalogVersion(1))
    for _ in range(2):
        names = [handle.info().name for handle in snapshot.load_schema("s").list_tables()]
        assert names == ["laid_out", "plain"]
    assert [m for m in caplog.messages if "is not served" in m] == [
        m for m in caplog.messages if "table s.broken is not served" in m
    ][:1]
