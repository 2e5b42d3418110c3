from jetbridge.catalog import (
    AsOf,
    AtUnit,
    CanAlter,
    CanDelete,
    CanInsert,
    CanSnapshot,
    CanTravel,
    CanUpdate,
    Catalog,
    Schema,
    Table,
)
from tests.conformance.harness import (
    CATALOG_CAPABILITIES,
    SCHEMA_CAPABILITIES,
    TABLE_CAPABILITIES,
)


def test_backend_has_exactly_the_capabilities_it_claims(harness, catalog, schema, create):
    table = create()
    found = {c for c in CATALOG_CAPABILITIES if isinstance(catalog, c)}
    found |= {c for c in SCHEMA_CAPABILITIES if isinstance(schema, c)}
    found |= {c for c in TABLE_CAPABILITIES if isinstance(table, c)}
    assert found == harness.claims


def test_core_protocols_are_fulfilled(catalog, schema, create):
    assert isinstance(catalog, Catalog)
    assert isinstance(schema, Schema)
    assert isinstance(create(), Table)


def test_snapshot_tables_have_the_capabilities_of_live_ones(needs, harness, catalog, create):
    needs(CanSnapshot)
    create()
    snapshot = catalog.snapshot()
    assert isinstance(snapshot, Catalog)
    table = snapshot.load_schema("sales").load_table("orders")
    found = {c for c in TABLE_CAPABILITIES if isinstance(table, c)}  # type: ignore[redundant-expr]
    assert found == harness.claims & TABLE_CAPABILITIES


def test_a_table_of_the_past_is_read_only(needs, create):
    needs(CanTravel)
    past = create().at(AsOf(AtUnit.VERSION, "0"))
    assert isinstance(past, Table)
    assert not any(isinstance(past, c) for c in (CanInsert, CanUpdate, CanDelete, CanAlter))
