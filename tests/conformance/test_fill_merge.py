"""Tables that appear with their rows, rows that are merged, and what engines read by themselves."""

from dataclasses import replace

import pyarrow as pa
import pytest

from jetbridge.catalog import (
    MERGE_ACTION,
    CanBeReached,
    CanFill,
    CanFillOnSpark,
    CanMerge,
    CanRelate,
    CanRelateOnSpark,
    CreateTable,
    OnConflict,
    SchemaInfo,
)
from jetbridge.errors import AlreadyExists, BadRequest, Conflict, ConstraintViolation, NotFound
from tests.conformance.harness import insert, rowids, rows

pytestmark = pytest.mark.xdist_group("spark")

REQUEST = CreateTable("filled", pa.schema([pa.field("a", pa.int64(), nullable=False)]))
ROWS = pa.record_batch({"a": [1, 2]})


def test_a_table_appears_with_its_rows(needs, schema):
    needs(CanFill)
    with schema.creating(REQUEST) as write:
        assert write(ROWS).affected_rows == ROWS.num_rows
        with pytest.raises(NotFound):
            schema.load_table("filled")
    assert rows(schema.load_table("filled")) == [(1,), (2,)]
    with pytest.raises(AlreadyExists, match="filled"), schema.creating(REQUEST):
        pass


def test_a_table_that_fails_to_fill_is_not_there(needs, schema, orders):
    needs(CanFill)
    with pytest.raises(ConstraintViolation, match="NOT NULL"), schema.creating(REQUEST) as write:
        write(pa.record_batch({"a": pa.array([None], pa.int64())}))
    replaced = replace(REQUEST, name="orders", on_conflict=OnConflict.REPLACE)
    with pytest.raises(KeyError), schema.creating(replaced) as write:
        write(ROWS)
        raise KeyError
    assert [table.info().name for table in schema.list_tables()] == ["orders"]
    assert rows(schema.load_table("orders")) == [(1, "a"), (2, "b"), (3, None)]


def test_a_table_that_someone_else_makes_meanwhile_stays_theirs(needs, schema):
    needs(CanFill)
    with pytest.raises(AlreadyExists, match="filled"), schema.creating(REQUEST) as write:
        write(ROWS)
        theirs = schema.create_table(REQUEST)
        insert(theirs, {"a": [7]})
    assert rows(schema.load_table("filled")) == [(7,)]


def test_a_filled_table_takes_the_place_of_another(needs, harness, schema, orders):
    needs(CanFill)
    with schema.creating(replace(REQUEST, name="ORDERS", on_conflict=OnConflict.REPLACE)) as write:
        write(ROWS)
    assert rows(schema.load_table("orders")) == [(1,), (2,)]
    if harness.frozen:
        assert rows(orders) == [(1, "a"), (2, "b"), (3, None)]
    else:
        with pytest.raises(Conflict, match=r"sales\.orders was altered"):
            rows(orders)


def test_spark_fills_a_table(needs, harness):
    needs(CanFillOnSpark)
    catalog = (harness.with_spark or harness.make)()
    schema = catalog.create_schema(SchemaInfo("sales"))
    insert(schema.create_table(replace(REQUEST, name="orders")), ROWS)
    filled = schema.create_on_spark(REQUEST, "SELECT id AS a FROM range(3)")
    assert filled.rows == len(rows(schema.load_table("filled"))) == 3
    with pytest.raises(ConstraintViolation, match="NOT NULL"):
        schema.create_on_spark(replace(REQUEST, name="bad"), "SELECT CAST(NULL AS BIGINT) AS a")
    request = replace(REQUEST, name="orders", on_conflict=OnConflict.REPLACE)
    schema.create_on_spark(request, "SELECT id + 5 AS a FROM range(2)")
    assert rows(schema.load_table("orders")) == [(5,), (6,)]
    assert sorted(table.info().name for table in schema.list_tables()) == ["filled", "orders"]


def test_merge_changes_removes_and_adds_at_once(needs, orders, schema):
    needs(CanMerge)
    found = {name: rowids(orders, "name", name)[0] for name in ("a", "b")}
    data = {
        MERGE_ACTION: ["UPDATE", "DELETE", "INSERT"],
        "rowid": pa.array([found["a"], found["b"], None], pa.int64()),
        "id": pa.array([1, 2, 9], pa.int64()),
        "name": ["changed", None, "new"],
    }
    with orders.merging() as write:
        write(pa.record_batch(data))
    assert rows(schema.load_table("orders")) == [(1, "changed"), (3, None), (9, "new")]
    twice = {name: [values[0], values[0]] for name, values in data.items() if name != "rowid"}
    twice["rowid"] = pa.array([found["a"]] * 2, pa.int64())
    with pytest.raises(BadRequest, match="several rows"), orders.merging() as write:
        write(pa.record_batch(twice))


def test_duckdb_and_spark_have_a_relation(needs, orders):
    needs(CanRelate)
    needs(CanRelateOnSpark)
    with orders.relation(row_ids=True) as text:
        assert "rowid" in text
    found = orders.spark_relation()
    assert dict(found.types) == {"id": "BIGINT", "name": "VARCHAR"}
    assert (dict(found.missing), found.size > 0) == ({}, True)


def test_duckdb_is_told_which_folders_to_read(needs, catalog):
    needs(CanBeReached)
    assert catalog.reach().folders
