"""Definitions are stored with types and expressions that clients can read and tables can hold."""

import doctest
from decimal import Decimal

import pyarrow as pa
import pytest

from jetbridge.backends import memory
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddField,
    AsOf,
    AtUnit,
    ChangeType,
    CreateTable,
    RemoveField,
    RenameColumn,
    RenameField,
    SchemaInfo,
    SetDefault,
    UniqueKey,
)
from jetbridge.errors import BadRequest, DuplicateKey, FailedPrecondition, NotFound
from tests.conformance.harness import RETURNING, delete, insert, rows, update


@pytest.fixture
def schema():
    return MemoryCatalog().create_schema(SchemaInfo("s"))


def _create(schema, fields, **more):
    return schema.create_table(CreateTable("t", pa.schema(fields), **more))


def test_the_example_of_the_package_runs():
    result = doctest.testmod(memory)
    assert result.attempted > 0
    assert result.failed == 0


def _default(table, name):
    return (table.info().schema.field(name).metadata or {}).get(b"default")


def test_defaults_and_checks_are_stored_in_the_spelling_of_duckdb(schema):
    field = pa.field("n", pa.int32(), metadata={"default": "1 /* one */"})
    table = _create(schema, [field], checks=["n > 0 -- always", "t.n < 9"])
    assert _default(table, "n") == b"1"
    assert table.info().checks == ("(n > 0)", "(n < 9)")
    table = table.alter(AddCheck("T.n<>5"))
    assert table.info().checks[-1] == "(n != 5)"
    table = table.alter(SetDefault("n", "1+1 -- two"))
    assert _default(table, "n") == b"(1 + 1)"
    table = table.alter(AddColumn(pa.field("m", pa.int8(), metadata={"default": "-  7"})))
    assert _default(table, "m") == b"-7"
    table = table.alter(RenameColumn("n", "the n"))
    assert table.info().checks[0] == '("the n" > 0)'


@pytest.mark.parametrize("text", ["1) || (2", "1, 2", "1;"])
def test_a_default_is_one_expression(schema, text):
    table = _create(schema, [("v", pa.string())])
    with pytest.raises(BadRequest):
        table.alter(SetDefault("v", text))


NESTED = [
    (pa.map_(pa.string_view(), pa.string_view()), [[("a", "b")], None]),
    (pa.list_(pa.string_view(), 2), [["a", "b"], None]),
    (pa.large_list(pa.string_view()), [["a"], None]),
    (pa.list_view(pa.binary_view()), [[b"a"], None]),
    (pa.map_(pa.string(), pa.list_(pa.dictionary(pa.int8(), pa.string()))), [[("a", ["b"])], None]),
    (pa.struct([("a", pa.list_(pa.run_end_encoded(pa.int32(), pa.int8())))]), [None, None]),
    (pa.duration("s"), [1, None]),
    (pa.decimal32(5, 2), [Decimal("1.50"), None]),
    (pa.decimal64(15, 2), [Decimal("1.50"), None]),
]


@pytest.mark.parametrize(("data_type", "values"), NESTED, ids=[str(case[0]) for case in NESTED])
def test_every_accepted_type_can_be_written_updated_and_read(schema, data_type, values):
    table = _create(schema, [("v", data_type), ("w", pa.int32())])
    stored = table.info().schema.field("v").type
    for sent in (stored, data_type) if values[0] is not None else (stored,):
        try:
            array = pa.array(values, sent)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
            continue  # pyarrow cannot convert Python values to this type
        insert(table, {"v": array, "w": pa.array([1, 2], pa.int32())})
    table = schema.load_table("t")
    updated = pa.array([values[1], values[0]], stored)
    update(table, {"v": updated, "rowid": [0, 1]}, RETURNING)
    table = schema.load_table("t")
    delete(table, [0], RETURNING)
    assert updated.to_pylist()[1] in [row[0] for row in rows(schema.load_table("t"))]


@pytest.mark.parametrize("data_type", [pa.decimal32(5, 2), pa.decimal64(15, 2), pa.duration("us")])
def test_every_accepted_type_can_be_a_key(schema, data_type):
    table = _create(schema, [("v", data_type)], keys=(UniqueKey(("v",)),))
    stored = table.info().schema.field("v").type
    one = Decimal(1) if pa.types.is_decimal(stored) else 1
    insert(table, {"v": pa.array([one], stored)})
    with pytest.raises(DuplicateKey):
        insert(table, {"v": pa.array([one], stored)})


@pytest.mark.parametrize("far", ["290000-01-01", "infinity", "9999-12-31 23:59:59"])
def test_a_timestamp_in_the_far_future_reads_the_newest_version(schema, far):
    table = _create(schema, [("v", pa.int32())])
    insert(table, {"v": pa.array([1], pa.int32())})
    assert rows(table.at(AsOf(AtUnit.TIMESTAMP, far))) == [(1,)]


@pytest.mark.parametrize("far", ["0001-01-01 (BC)", "-infinity", "1000-01-01"])
def test_a_timestamp_in_the_far_past_has_no_version(schema, far):
    table = _create(schema, [("v", pa.int32())])
    with pytest.raises(NotFound, match="versions"):
        table.at(AsOf(AtUnit.TIMESTAMP, far))


def test_a_type_that_the_default_does_not_fit_is_refused(schema):
    table = _create(schema, [pa.field("v", pa.string(), metadata={"default": "'none'"})])
    with pytest.raises(FailedPrecondition, match="drop the default"):
        table.alter(ChangeType(pa.field("v", pa.int32()), ""))


def test_fields_inside_the_values_of_a_map_are_changed(schema):
    inner = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    table = _create(schema, [("m", pa.map_(pa.string(), inner))])
    insert(table, {"m": pa.array([[("k", {"a": 1, "b": 2})], None, []], pa.map_("string", inner))})
    table = table.alter(RemoveField(("m", "value", "a"), False, False))
    table = table.alter(RenameField(("m", "value", "b"), "c"))
    table = table.alter(AddField(("m", "value"), pa.field("d", pa.int8()), False))
    maps = [row[0] for row in rows(table)]
    assert sorted(maps, key=repr) == sorted([[("k", {"c": 2, "d": None})], None, []], key=repr)
