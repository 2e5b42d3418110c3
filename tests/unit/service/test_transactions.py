"""Transactions and tables that other callers drop and create again."""

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CanCreateTables, Catalog, CreateTable, SchemaInfo, supports
from jetbridge.service.table_lookup import SnapshotPins
from tests.conformance.harness import insert, read

COLUMNS = pa.schema([("id", pa.int64())])


class WithoutSnapshots:
    """Hide the snapshots of a catalog, so that its tables are pinned one by one."""

    def __init__(self, inner: Catalog) -> None:
        self.list_schemas, self.load_schema = inner.list_schemas, inner.load_schema
        self.version = inner.version


@pytest.fixture(params=["snapshots", "no snapshots"])
def catalog(request: pytest.FixtureRequest) -> Catalog:
    catalog = MemoryCatalog()
    catalog.create_schema(SchemaInfo("s"))
    for name in ("t", "other"):
        make(catalog, name, 1)
    return catalog if request.param == "snapshots" else WithoutSnapshots(catalog)


def make(catalog: Catalog, name: str, *ids: int) -> None:
    """Create a table of version 1 with one row."""
    schema = catalog.load_schema("s")
    assert supports(schema, CanCreateTables)
    schema.create_table(CreateTable(name, COLUMNS))
    add(catalog, name, *ids)


def add(catalog: Catalog, name: str, *ids: int) -> None:
    insert(catalog.load_schema("s").load_table(name), {"id": pa.array(ids, pa.int64())})


def ids(transaction: SnapshotPins, catalog: Catalog, name: str) -> list[int]:
    ids: list[int] = read(transaction.table(catalog, "s", name)).column("id").to_pylist()
    return ids


def test_a_table_that_was_made_anew_is_seen_as_it_is_now(catalog):
    transaction = SnapshotPins()
    assert ids(transaction, catalog, "t") == [1]
    before = transaction.table(catalog, "s", "t").info()
    catalog.load_schema("s").drop_table("t")
    make(catalog, "T", 2)
    after = transaction.table(catalog, "s", "t").info()
    assert (after.name, after.version) == ("T", before.version)
    assert after.identity != before.identity
    assert ids(transaction, catalog, "t") == [2]


def test_then_it_is_pinned_again_and_other_tables_stay_as_they_were(catalog):
    transaction = SnapshotPins()
    assert [ids(transaction, catalog, name) for name in ("t", "other")] == [[1], [1]]
    catalog.load_schema("s").drop_table("t")
    make(catalog, "t", 2)
    add(catalog, "other", 2)
    assert ids(transaction, catalog, "t") == [2]
    add(catalog, "t", 3)
    assert ids(transaction, catalog, "t") == [2]
    assert ids(transaction, catalog, "other") == [1]
