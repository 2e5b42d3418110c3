"""Changes that other engines make are seen by the next statement, whoever reads the table."""

import gc
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io import pyarrow as pyiceberg_arrow

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.read.fallback import _streamed
from jetbridge.backends.lake.read.relation import open_snapshot
from jetbridge.catalog import AsOf, AtUnit, CreateTable, Scan, SchemaInfo
from jetbridge.client import Client, connect
from jetbridge.errors import Conflict, NotFound
from jetbridge.service import Server
from tests.conformance.harness import delete, insert, rowids, rows, update
from tests.helpers.lakes import engine, new_lake
from tests.integration.catalogs.rest_catalog import running_rest_catalog
from tests.integration.interop import foreign_tables as foreign
from tests.integration.interop.same_rows import assert_same_rows, plain_duckdb
from tests.integration.interop.session import assert_all_agree, by_service, by_spark, spark_sql

pytestmark = pytest.mark.lake

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    catalog = new_lake()
    catalog.create_schema(SchemaInfo("s"))
    return catalog


@pytest.fixture(scope="module")
def client(lake: LakeCatalog) -> Iterator[Client]:
    with Server({"lake": lake}, port=0) as server:
        server.start()
        with connect(server.location, "lake") as connected:
            yield connected


def table(lake: LakeCatalog, name: str) -> Any:
    return lake.load_schema("s").load_table(name)


def staged(lake: LakeCatalog) -> list[str]:
    folder = Path(local_path(lake.lake.warehouse.staging_folder()) or "")
    return sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []


def test_rows_of_others_are_seen_at_the_next_statement(lake, client):
    foreign.by_pyiceberg(lake, "rows", 2)
    title = f"{lake.lake.name}.s.rows"

    def seen() -> list[tuple[int, str]]:
        found = client.read("s", "rows").to_pydict()
        assert sorted(zip(found["id"], found["name"], strict=True), key=repr) == rows(
            table(lake, "rows")
        )
        return [(i, n) for i, n in zip(found["id"], found["name"], strict=True) if i >= 50]

    assert seen() == []
    lake.lake.iceberg.load_table("s.rows").append(pa.table({"id": [50], "name": ["PyIceberg"]}))
    assert seen() == [(50, "PyIceberg")]
    spark_sql(f"INSERT INTO {title} VALUES (60, 'Spark')")
    assert sorted(seen()) == [(50, "PyIceberg"), (60, "Spark")]
    spark_sql(f"UPDATE {title} SET name = 'changed' WHERE id = 50")
    assert sorted(seen()) == [(50, "changed"), (60, "Spark")]
    lake.lake.iceberg.load_table("s.rows").delete("id < 60")
    assert seen() == [(60, "Spark")]
    assert client.read("s", "rows").num_rows == 1


def test_ddl_of_others_is_seen_at_the_next_statement(lake, client):
    name = lake.lake.name
    insert(lake.load_schema("s").create_table(CreateTable("ddl", COLUMNS)), {"id": [1]})
    version = lake.version().number

    def has_risen() -> bool:
        nonlocal version
        before, version = version, lake.version().number
        return bool(version > before)

    spark_sql(f"INSERT INTO {name}.s.ddl VALUES (50, 'no DDL')")
    assert not has_risen()
    statements = {
        "ALTER TABLE {}.s.ddl ADD COLUMN price DOUBLE": ["id", "name", "price"],
        "ALTER TABLE {}.s.ddl RENAME COLUMN name TO title": ["id", "title", "price"],
        "ALTER TABLE {}.s.ddl DROP COLUMN price": ["id", "title"],
    }
    for statement, names in statements.items():
        spark_sql(statement.format(name))
        assert has_risen(), statement
        assert client.read("s", "ddl", columns=names).to_pydict()[names[1]] == [None, "no DDL"]
    assert_all_agree(lake, "s", "ddl")
    spark_sql(f"ALTER TABLE {name}.s.ddl RENAME TO s.moved")
    assert has_risen()
    assert client.read("s", "moved").num_rows == 2
    lake.lake.iceberg.drop_table("s.moved")
    assert has_risen()
    with pytest.raises(NotFound):
        client.read("s", "moved")


def test_row_that_another_engine_has_changed_is_a_conflict(lake):
    made = lake.load_schema("s").create_table(CreateTable("conflict", COLUMNS))
    insert(made, {"id": [1, 2, 3], "name": ["a", "b", "c"]})
    seen = table(lake, "conflict")
    one, two, three = (rowids(seen, "id", number)[0] for number in (1, 2, 3))
    spark_sql(f"UPDATE {lake.lake.name}.s.conflict SET name = 'Spark' WHERE id = 1")
    spark_sql(f"DELETE FROM {lake.lake.name}.s.conflict WHERE id = 2")
    for row in (one, two):
        with pytest.raises(Conflict):
            update(seen, {"rowid": [row], "name": ["ours"]})
        with pytest.raises(Conflict):
            delete(seen, [row])
    update(seen, {"rowid": [three], "name": ["ours"]})
    assert rows(table(lake, "conflict")) == [(1, "Spark"), (3, "ours")]
    assert_all_agree(lake, "s", "conflict")


def test_what_duckdb_writes_is_seen_at_the_next_statement(tmp_path):
    """Use a REST catalog, the only one through which DuckDB writes."""
    with running_rest_catalog(tmp_path) as uri, plain_duckdb() as duckdb:
        lake = LakeCatalog("lake_of_duckdb", tmp_path / "warehouse", engine(), {"uri": uri})
        schema = lake.create_schema(SchemaInfo("s"))
        insert(schema.create_table(CreateTable("ours", COLUMNS)), {"id": [1], "name": ["we"]})
        foreign.by_pyiceberg(lake, "theirs", 2)
        options = f"TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none'"
        duckdb.execute(f"ATTACH '{tmp_path / 'warehouse'}' AS rest ({options})")
        for name in ("ours", "theirs"):
            before = rows(table(lake, name))
            duckdb.execute(f"INSERT INTO rest.s.{name} VALUES (70, 'DuckDB'), (71, NULL)")
            assert rows(table(lake, name)) == sorted(
                [*before, (70, "DuckDB"), (71, None)], key=repr
            )
            duckdb.execute(f"DELETE FROM rest.s.{name} WHERE id IN (1, 71)")
            left = [row for row in before if row[0] != 1]
            assert rows(table(lake, name)) == sorted([*left, (70, "DuckDB")], key=repr)
            assert_all_agree(lake, "s", name)
        ours = table(lake, "ours")
        update(ours, {"rowid": rowids(ours, "id", 70), "name": ["both"]})
        assert duckdb.execute("FROM rest.s.ours").fetchall() == [(70, "both")]
        lake.close()


NESTED = (
    "id INT, at TIMESTAMP, day DATE, place STRUCT<city: STRING, position: STRUCT<north: DOUBLE>>, "
    "marks ARRAY<STRUCT<mark: INT>>, known MAP<STRING, STRUCT<x: INT>>, junk STRING"
)
VALUES = (
    "SELECT CAST(id AS INT), timestamp'1501-02-03 04:05:06', date'0001-01-01', "
    "named_struct('city', concat('c', id), 'position', named_struct('north', id / 2)), "
    "array(named_struct('mark', CAST(id AS INT))), map('k', named_struct('x', CAST(id AS INT))), "
    "'junk' FROM range(4)"
)
ALTERED = (
    "RENAME COLUMN place.city TO town",
    "ADD COLUMN place.zip INT",
    "RENAME COLUMN marks.element.mark TO note",
    "RENAME COLUMN known.value.x TO y",
    "ALTER COLUMN id TYPE BIGINT",
    "RENAME COLUMN day TO date",
    "DROP COLUMN junk",
    "ADD COLUMN junk BIGINT",
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("version", "form"), [(1, "orc"), (2, "parquet"), (3, "avro")])
def test_nested_columns_that_others_alter_keep_their_values(lake, version, form):
    name = f"nested_{form}"
    more = {"format.default": form}
    title = foreign.created_by_spark(lake, name, version, NESTED, **more)
    spark_sql(f"INSERT INTO {title} {VALUES}")
    spark_sql(f"INSERT INTO {title} (id) VALUES (9)")
    before = by_service(lake, "s", name)
    assert_same_rows(before, by_spark(lake, "s", name))
    for change in ALTERED:  # no snapshot comes of it: the newest one has another schema
        spark_sql(f"ALTER TABLE {title} {change}")
    assert_same_rows(by_service(lake, "s", name), by_spark(lake, "s", name))
    place = {"town": "c2", "position": {"north": 1.0}, "zip": None}
    assert place in by_service(lake, "s", name).column("place").to_pylist()
    moment = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"
    past = table(lake, name).at(AsOf(AtUnit.TIMESTAMP, moment))
    names = tuple(past.info().schema.names)
    assert_same_rows(pa.Table.from_batches(past.scan(Scan(names))), before)
    assert staged(lake) == []


def test_who_reads_a_table_is_logged_once(lake, caplog):
    foreign.by_spark(lake, "orc", 3, **{"format.default": "orc"})
    with caplog.at_level(logging.INFO, "jetbridge.backends.lake"):
        for _ in range(2):
            assert len(rows(table(lake, "orc"))) == len(foreign.IDS)
            assert len(rows(table(lake, "orc"), "rowid")) == len(foreign.IDS)
    assert sorted(each.getMessage() for each in caplog.records) == [
        "table s.orc is read by PyIceberg: DuckDB does not read ORC files",
        "table s.orc is read by Spark: DuckDB does not read ORC files",
    ]


def test_copy_by_spark_is_gone_when_a_reader_stops(lake):
    title = foreign.created_by_spark(lake, "large", 3, "id BIGINT", **{"format.default": "avro"})
    spark_sql(f"INSERT INTO {title} SELECT id FROM range(300000)")
    batches = iter(table(lake, "large").scan(Scan(("id", "rowid"))))
    next(batches)
    assert len(staged(lake)) == 1
    del batches
    assert staged(lake) == []


def test_pyiceberg_reads_one_file_after_the_other(lake, monkeypatch):
    read = []
    foreign.by_pyiceberg(lake, "files", 2)
    scan = lake.lake.iceberg.load_table("s.files").scan()
    original = pyiceberg_arrow._task_to_record_batches

    def noted(io: Any, task: Any, *rest: Any) -> Any:
        read.append(task)
        return original(io, task, *rest)

    monkeypatch.setattr(pyiceberg_arrow, "_task_to_record_batches", noted)
    batches = _streamed(scan, scan.to_arrow().schema)
    read.clear()
    next(batches)
    assert len(read) == 1
    assert sum(1 for _ in batches) >= 1
    assert len(read) == 2


def test_positions_that_share_a_file_are_kept_only_as_long_as_needed(lake):
    foreign.by_spark(lake, "shared", 3)
    spark_sql(f"DELETE FROM {lake.lake.name}.s.shared WHERE id IN (1, 8)")
    state = table(lake, "shared").state
    with open_snapshot(lake.lake.read, state) as there:
        (kept,) = staged(lake)
        lake.lake.read.sources.clear()
        gc.collect()
        assert staged(lake) == [kept]
        assert len(lake.lake.read.reader.query(f"SELECT id FROM {there.sql}")) == 7
    del there
    gc.collect()
    assert staged(lake) == []
