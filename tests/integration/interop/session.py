"""One session against a lake, whichever catalog it has, and what other engines read of it."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.catalog import (
    AddColumn,
    AsOf,
    AtUnit,
    ChangeType,
    CreateTable,
    RemoveColumn,
    RenameColumn,
    RenameTable,
    Scan,
    SchemaInfo,
    UniqueKey,
)
from jetbridge.errors import AlreadyExists, Conflict, DuplicateKey, NotFound
from tests.conformance.harness import delete, insert, rowids, rows, update
from tests.helpers.lakes import engine
from tests.helpers.waiting import wait_until
from tests.integration.interop.same_rows import assert_same_rows

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


def by_service(catalog: LakeCatalog, schema: str, table: str) -> pa.Table:
    found = catalog.load_schema(schema).load_table(table)
    names = tuple(found.info().schema.names)
    empty = found.info().schema.empty_table()
    return pa.concat_tables([empty, *map(_table, found.scan(Scan(names)))])


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def by_spark(catalog: LakeCatalog, schema: str, table: str) -> pa.Table:
    return spark_sql(f"SELECT * FROM {catalog.lake.name}.{schema}.{table}")


def spark_sql(text: str) -> pa.Table:
    """Run plain Spark SQL."""
    with engine().session() as session:
        return session.sql(text).toArrow()


def by_pyiceberg(catalog: LakeCatalog, schema: str, table: str) -> pa.Table:
    return catalog.lake.iceberg.load_table((schema, table)).scan().to_arrow()


def assert_all_agree(catalog: LakeCatalog, schema: str, table: str) -> pa.Table:
    ours = by_service(catalog, schema, table)
    assert_same_rows(ours, by_spark(catalog, schema, table))
    assert_same_rows(ours, by_pyiceberg(catalog, schema, table))
    return ours


def run_session(catalog: LakeCatalog) -> None:
    """Run every kind of statement once; the answers are those of any other backend."""
    version = catalog.version().number
    schema = catalog.create_schema(SchemaInfo("sales", comment="what we sell"))
    create_and_change_rows(schema)
    assert_all_agree(catalog, "sales", "orders")
    travel_in_time(schema)
    keep_a_snapshot(catalog)
    alter(schema)
    read = assert_all_agree(catalog, "sales", "orders")
    assert read.to_pylist() == [
        {"id": 2, "title": "zwei", "price": None},
        {"id": 3, "title": None, "price": None},
        {"id": 4, "title": "vier", "price": 4},
    ]
    rename_and_drop(catalog, schema)
    assert catalog.version().number > version


def create_and_change_rows(schema: Any) -> None:
    key = UniqueKey(("id",), primary=True)
    table = schema.create_table(CreateTable("orders", COLUMNS, keys=(key,)))
    insert(table, {"id": [1, 2, 3], "name": ["eins", "zwei", None]})
    with pytest.raises(DuplicateKey):
        insert(schema.load_table("orders"), {"id": [2]})
    insert(schema.load_table("orders"), {"id": [7]})
    table = schema.load_table("orders")
    stale = table
    update(table, {"rowid": rowids(table, "id", 7), "name": ["sieben"]})
    table = schema.load_table("orders")
    assert rows(table, "id", "name")[-1] == (7, "sieben")
    delete(table, rowids(table, "id", 7))
    with pytest.raises(Conflict):
        update(stale, {"rowid": rowids(stale, "id", 7), "name": ["zu spät"]})
    assert rows(schema.load_table("orders")) == [(1, "eins"), (2, "zwei"), (3, None)]


def travel_in_time(schema: Any) -> None:
    table = schema.load_table("orders")
    then = table.info().version
    moment = f"{datetime.now(UTC):%F %T.%f}"
    # The next commit must be later, and has its time in milliseconds.
    wait_until(lambda: f"{datetime.now(UTC):%F %T.%f}"[:-3] > moment)
    delete(table, rowids(table, "id", 1))
    table = schema.load_table("orders")
    assert rows(table, "id") == [(2,), (3,)]
    for point in (AsOf(AtUnit.VERSION, str(then)), AsOf(AtUnit.TIMESTAMP, moment)):
        assert rows(table.at(point), "id") == [(1,), (2,), (3,)]


def keep_a_snapshot(catalog: LakeCatalog) -> None:
    """Check that reads of one transaction stay what they were."""
    snapshot = catalog.snapshot()
    insert(catalog.load_schema("sales").load_table("orders"), {"id": [4], "name": ["vier"]})
    assert rows(snapshot.load_schema("sales").load_table("orders"), "id") == [(2,), (3,)]
    assert rows(catalog.load_schema("sales").load_table("orders"), "id") == [(2,), (3,), (4,)]


def alter(schema: Any) -> None:
    for change in (
        AddColumn(pa.field("price", pa.int32())),
        AddColumn(pa.field("junk", pa.string())),
        RenameColumn("name", "title"),
        RemoveColumn("junk"),
        ChangeType(pa.field("price", pa.int64())),  # widens
    ):
        schema.load_table("orders").alter(change)
    table = schema.load_table("orders")
    update(table, {"rowid": rowids(table, "id", 4), "price": [40]})
    # Values change, so that all rows are written anew.
    schema.load_table("orders").alter(ChangeType(pa.field("price", pa.int32()), "price // 10"))


def rename_and_drop(catalog: LakeCatalog, schema: Any) -> None:
    schema.load_table("orders").alter(RenameTable("sold"))
    assert len(by_spark(catalog, "sales", "sold")) == 3
    with pytest.raises(AlreadyExists):
        schema.create_table(CreateTable("sold", COLUMNS))
    schema.drop_table("sold")
    with pytest.raises(NotFound):
        schema.load_table("sold")
    catalog.drop_schema("sales")
    assert [each.info().name for each in catalog.list_schemas()] == []
