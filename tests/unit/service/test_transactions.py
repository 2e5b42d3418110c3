"""Transactions and tables that other callers drop and create again."""

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import (
    CanCreateTables,
    Catalog,
    CreateTable,
    OnConflict,
    RenameTable,
    SchemaInfo,
    supports,
)
from jetbridge.errors import Conflict
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


def test_a_table_that_was_created_again_is_refused_until_the_pin_moves(catalog):
    transaction = SnapshotPins()
    assert [ids(transaction, catalog, name) for name in ("t", "other")] == [[1], [1]]
    catalog.load_schema("s").drop_table("t")
    make(catalog, "T", 2)
    add(catalog, "other", 2)
    for _ in range(2):
        with pytest.raises(Conflict, match=r"s\.t was replaced .* start a new transaction"):
            transaction.table(catalog, "s", "t")
    transaction.move_pin(catalog, "s", "t")
    assert ids(transaction, catalog, "t") == [2]
    add(catalog, "t", 3)
    assert ids(transaction, catalog, "t") == [2]
    assert ids(transaction, catalog, "other") == [1]


def test_or_replace_does_not_change_what_a_transaction_reads(catalog):
    transaction = SnapshotPins()
    assert ids(transaction, catalog, "t") == [1]
    replacing = CreateTable("t", COLUMNS, OnConflict.REPLACE)
    catalog.load_schema("s").create_table(replacing)
    with pytest.raises(Conflict, match="start a new transaction"):
        transaction.table(catalog, "s", "t")


def test_a_table_that_was_renamed_is_not_mixed_up_with_the_next_of_its_name(catalog):
    transaction = SnapshotPins()
    assert ids(transaction, catalog, "t") == [1]
    catalog.load_schema("s").load_table("t").alter(RenameTable("u"))
    make(catalog, "t", 2)
    if isinstance(catalog, WithoutSnapshots):
        with pytest.raises(Conflict, match="start a new transaction"):
            transaction.table(catalog, "s", "t")
    else:
        assert ids(transaction, catalog, "t") == [1]


def test_a_table_that_was_created_after_the_first_read_is_pinned_when_it_is_read(catalog):
    transaction = SnapshotPins()
    assert ids(transaction, catalog, "t") == [1]
    make(catalog, "new", 2)
    assert ids(transaction, catalog, "new") == [2]
    add(catalog, "new", 3)
    assert ids(transaction, catalog, "new") == [2]
