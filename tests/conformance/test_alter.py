import pyarrow as pa
import pytest

from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddField,
    AddKey,
    CanAlter,
    CanTravel,
    ChangeType,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    SetDefault,
    SetNotNull,
    UniqueKey,
)
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    NotFound,
    NotSupported,
)
from tests.conformance.harness import delete, insert, read, rowids, rows


@pytest.fixture(autouse=True)
def _claims(needs):
    needs(CanAlter)


@pytest.fixture
def items(schema, create):
    columns = [
        pa.field("id", pa.int64(), False),
        pa.field("qty", pa.int64()),
        pa.field("name", pa.string()),
    ]
    table = create("items", columns, checks=("qty > 0",), keys=(UniqueKey(("id",), True),))
    insert(table, {"id": [1, 2, 3], "qty": [10, 20, None], "name": ["1", "2", "x"]})
    return schema.load_table("items")


@pytest.fixture
def nested(harness, schema, create):
    if not harness.has_structs():
        pytest.skip("has no type for a STRUCT")
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    columns = [("s", inner), ("l", pa.list_(inner)), ("n", pa.struct([("deep", inner)]))]
    value = {"a": 1, "b": "x"}
    data = {"s": [value, None], "l": [[value, value], None], "n": [{"deep": value}, None]}
    insert(create("t", columns), pa.record_batch(data, schema=pa.schema(columns)))
    return schema.load_table("t")


def test_alter_answers_the_table_afterwards_and_raises_the_versions(
    harness, catalog, schema, items
):
    before, ddl = items.info().version, catalog.version().number
    after = items.alter(AddColumn(pa.field("z", pa.int8())))
    has_versions = CanTravel in harness.claims
    assert after.info().version == (before + 1 if has_versions else None)
    assert catalog.version().number == ddl + 1
    assert after.info().schema.names == ["id", "qty", "name", "z"]
    assert items.info().schema.names == ["id", "qty", "name"]
    assert schema.load_table("items").info() == after.info()


def test_added_column_is_filled_with_its_default_or_null(items):
    items.alter(AddColumn(pa.field("n", pa.string())))
    field = pa.field("d", pa.int32(), False, metadata={"default": "40 + 2"})
    table = items.alter(AddColumn(field))
    assert rows(table, "id", "n", "d") == [(1, None, 42), (2, None, 42), (3, None, 42)]


def test_added_column_errors(items):
    assert items.alter(AddColumn(pa.field("QTY", pa.int8()), if_not_exists=True)).info() == (
        items.info()
    )
    with pytest.raises(AlreadyExists, match="QTY"):
        items.alter(AddColumn(pa.field("QTY", pa.int8())))
    with pytest.raises(FailedPrecondition, match="z"):
        items.alter(AddColumn(pa.field("z", pa.int8(), nullable=False)))
    with pytest.raises(BadRequest, match="RowID"):
        items.alter(AddColumn(pa.field("RowID", pa.int8())))
    assert (
        items.alter(AddColumn(pa.field("e", pa.dictionary(pa.int8(), pa.string()))))
        .info()
        .schema.field("e")
        .type
        == pa.string()
    )


def test_removed_column_is_gone_and_comes_back_empty(schema, items):
    table = items.alter(RemoveColumn("NAME"))
    assert rows(table) == [(1, 10), (2, 20), (3, None)]
    table = table.alter(AddColumn(pa.field("name", pa.int8())))
    assert rows(table, "id", "name") == [(1, None), (2, None), (3, None)]


def test_a_column_in_use_goes_only_with_cascade(items):
    with pytest.raises(FailedPrecondition, match="qty"):
        items.alter(RemoveColumn("qty"))
    with pytest.raises(FailedPrecondition, match="ID"):
        items.alter(RemoveColumn("ID"))
    info = items.alter(RemoveColumn("qty", cascade=True)).info()
    assert (info.checks, info.keys) == ((), items.info().keys)
    info = items.alter(RemoveColumn("id", cascade=True)).info()
    assert (info.schema.names, info.keys) == (["name"], ())


def test_the_last_column_stays(create):
    table = create("one", [("a", pa.int8())])
    with pytest.raises(FailedPrecondition, match="a"):
        table.alter(RemoveColumn("a"))


def test_removing_a_missing_column(items):
    with pytest.raises(NotFound, match="nope"):
        items.alter(RemoveColumn("nope"))
    assert items.alter(RemoveColumn("nope", if_exists=True)).info() == items.info()


def test_renamed_column_takes_its_constraints_along(harness, schema, items):
    table = items.alter(RenameColumn("QTY", "Amount")).alter(RenameColumn("id", "ID"))
    info = table.info()
    assert info.schema.names == ["ID", "Amount", "name"]
    assert info.keys == (UniqueKey(("ID",), True),)
    with pytest.raises(ConstraintViolation, match=harness.words("Amount = -1", "items")):
        insert(table, {"id": [4], "amount": [-1]})
    with pytest.raises(DuplicateKey):
        insert(table, {"id": [1], "amount": [1]})
    assert rows(table) == [(1, 10, "1"), (2, 20, "2"), (3, None, "x")]


def test_renaming_columns_errors(items):
    with pytest.raises(NotFound, match="nope"):
        items.alter(RenameColumn("nope", "x"))
    with pytest.raises(AlreadyExists, match="Name"):
        items.alter(RenameColumn("id", "Name"))
    for name in ("rowid", ""):
        with pytest.raises(BadRequest):
            items.alter(RenameColumn("id", name))


def test_renamed_table_is_found_under_its_new_name_only(schema, items, create):
    create("other")
    with pytest.raises(AlreadyExists, match="OTHER"):
        items.alter(RenameTable("OTHER"))
    table = items.alter(RenameTable("Things"))
    assert table.info().name == schema.load_table("THINGS").info().name == "Things"
    with pytest.raises(NotFound):
        schema.load_table("items")
    assert items.alter(RenameTable("THINGS")).info().name == "THINGS"
    with pytest.raises(BadRequest):
        items.alter(RenameTable(""))


def test_a_default_applies_to_later_inserts(schema, items):
    table = items.alter(SetDefault("Qty", "5"))
    insert(table, {"id": [4]})
    assert rows(schema.load_table("items"), "id", "qty")[-1] == (4, 5)
    assert table.info().schema.field("qty").metadata == {b"default": b"5"}
    for bad in ("'x'", "id + 1", "(SELECT 1)"):
        with pytest.raises(BadRequest):
            items.alter(SetDefault("qty", bad))
    with pytest.raises(NotFound):
        items.alter(SetDefault("nope", "5"))


def test_changed_type_casts_the_values(harness, items):
    table = items.alter(ChangeType(pa.field("QTY", pa.int8())))
    table = table.alter(ChangeType(pa.field("ID", pa.string())))
    assert rows(table, "id", "qty") == [("1", 10), ("2", 20), ("3", None)]
    small = pa.uint8() if harness.own_types else pa.int8()  # what SQL Server calls tinyint
    assert table.info().schema.types == [pa.string(), small, pa.string()]
    assert not table.info().schema.field("id").nullable


def test_a_check_that_the_new_type_breaks_stops_the_type_change(items):
    with pytest.raises(FailedPrecondition, match="qty > 0"):
        items.alter(ChangeType(pa.field("qty", pa.string())))


def test_changed_type_with_an_expression_over_the_old_row(harness, items):
    if not harness.computes:
        with pytest.raises(NotSupported, match="add another column"):
            items.alter(ChangeType(pa.field("name", pa.int32()), "length(name) + id"))
        return
    table = items.alter(ChangeType(pa.field("name", pa.int32()), "length(name) + id"))
    assert rows(table, "name") == [(2,), (3,), (4,)]
    with pytest.raises(BadRequest):
        items.alter(ChangeType(pa.field("name", pa.int32()), "nope + 1"))


def test_a_value_that_does_not_survive_stops_the_type_change(schema, items):
    with pytest.raises(FailedPrecondition, match="name"):
        items.alter(ChangeType(pa.field("name", pa.int32())))
    delete(items, rowids(items, "name", "x"))
    table = schema.load_table("items").alter(ChangeType(pa.field("name", pa.int32())))
    assert rows(table, "name") == [(1,), (2,)]
    with pytest.raises(NotFound):
        items.alter(ChangeType(pa.field("nope", pa.int32())))


def test_type_change_verifies_keys_and_checks(harness, items):
    if not harness.computes:
        with pytest.raises(NotSupported, match="USING"):
            items.alter(ChangeType(pa.field("id", pa.int64()), "id // 2"))
        return
    with pytest.raises(FailedPrecondition, match="Duplicate key"):
        items.alter(ChangeType(pa.field("id", pa.int64()), "id // 2"))
    with pytest.raises(FailedPrecondition, match="CHECK"):
        items.alter(ChangeType(pa.field("qty", pa.int64()), "-qty"))
    with pytest.raises(FailedPrecondition, match="NULL"):
        items.alter(ChangeType(pa.field("id", pa.int64()), "NULL"))
    assert rows(items, "id", "qty") == [(1, 10), (2, 20), (3, None)]


def test_set_not_null_wants_no_nulls(schema, items):
    with pytest.raises(FailedPrecondition, match=r"qty.* 1 NULL"):
        items.alter(SetNotNull("qty"))
    delete(items, rowids(items, "id", 3))
    table = schema.load_table("items").alter(SetNotNull("QTY"))
    assert not table.info().schema.field("qty").nullable
    with pytest.raises(ConstraintViolation, match="qty"):
        insert(table, {"id": [9]})
    assert table.alter(DropNotNull("qty")).info().schema.field("qty").nullable
    with pytest.raises(NotFound):
        items.alter(SetNotNull("nope"))


def test_a_primary_key_stays_not_null(items):
    with pytest.raises(FailedPrecondition, match="primary key"):
        items.alter(DropNotNull("id"))
    with pytest.raises(NotFound):
        items.alter(DropNotNull("nope"))


def test_added_check_judges_old_and_new_rows(harness, items):
    with pytest.raises(FailedPrecondition, match=harness.words("qty = 20", "items")):
        items.alter(AddCheck("qty < 20"))
    with pytest.raises(BadRequest, match="nope"):
        items.alter(AddCheck("nope < 20"))
    table = items.alter(AddCheck("qty < 100"))
    assert table.info().checks == ("(qty > 0)", "(qty < 100)")
    with pytest.raises(ConstraintViolation, match=harness.words("qty < 100", "items")):
        insert(table, {"id": [9], "qty": [100]})


def test_added_key_judges_old_and_new_rows(harness, schema, items):
    insert(items, {"id": [4, 5], "qty": [10, None], "name": ["4", None]})
    table = schema.load_table("items")
    with pytest.raises(FailedPrecondition, match=harness.words(r"\(qty\) = \(10\)", "items")):
        table.alter(AddKey(UniqueKey(("qty",))))
    with pytest.raises(FailedPrecondition, match="primary"):
        table.alter(AddKey(UniqueKey(("name",), True)))
    after = table.alter(AddKey(UniqueKey(("NAME",))))
    assert after.info().keys[-1] == UniqueKey(("name",))
    with pytest.raises(DuplicateKey, match=harness.words("name", "items")):
        insert(after, {"id": [6], "qty": [1], "name": ["4"]})


def test_added_primary_key_wants_no_nulls(schema, create):
    insert(create(keys=()), {"id": [1, 2], "name": ["a", None]})
    orders = schema.load_table("orders")
    with pytest.raises(FailedPrecondition, match="name"):
        orders.alter(AddKey(UniqueKey(("name",), True)))
    info = orders.alter(AddKey(UniqueKey(("id",), True))).info()
    assert not info.schema.field("id").nullable


def test_field_added_to_structs_at_any_depth(nested):
    table = nested.alter(AddField(("S",), pa.field("c", pa.int8())))
    table = table.alter(AddField(("l", "element"), pa.field("c", pa.int8())))
    table = table.alter(AddField(("n", "DEEP"), pa.field("c", pa.int8())))
    value = {"a": 1, "b": "x", "c": None}
    assert read(table, ("s", "l", "n")).to_pylist() == [
        {"s": value, "l": [value, value], "n": {"deep": value}},
        {"s": None, "l": None, "n": None},
    ]
    with pytest.raises(AlreadyExists):
        table.alter(AddField(("s",), pa.field("C", pa.int8())))
    same = table.alter(AddField(("s",), pa.field("C", pa.int8()), if_not_exists=True))
    assert same.info() == table.info()


def test_field_removed_from_structs_at_any_depth(nested):
    table = nested.alter(RemoveField(("s", "A")))
    table = table.alter(RemoveField(("l", "element", "a"))).alter(RemoveField(("n", "deep", "b")))
    assert read(table, ("s", "l", "n")).to_pylist() == [
        {"s": {"b": "x"}, "l": [{"b": "x"}, {"b": "x"}], "n": {"deep": {"a": 1}}},
        {"s": None, "l": None, "n": None},
    ]
    with pytest.raises(FailedPrecondition, match="last"):
        table.alter(RemoveField(("s", "b")))
    with pytest.raises(NotFound, match="zz"):
        table.alter(RemoveField(("s", "zz")))
    assert table.alter(RemoveField(("s", "zz"), if_exists=True)).info() == table.info()


def test_field_renamed_in_structs_at_any_depth(nested):
    table = nested.alter(RenameField(("s", "a"), "Z")).alter(RenameField(("n", "deep"), "d"))
    table = table.alter(RenameField(("l", "element", "b"), "Z"))
    assert read(table, ("s", "l", "n")).to_pylist()[0] == {
        "s": {"Z": 1, "b": "x"},
        "l": [{"a": 1, "Z": "x"}] * 2,
        "n": {"d": {"a": 1, "b": "x"}},
    }
    with pytest.raises(AlreadyExists):
        table.alter(RenameField(("s", "Z"), "B"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (AddField(("nope",), pa.field("x", pa.int8())), NotFound),
        (AddField(("s", "a"), pa.field("x", pa.int8())), BadRequest),
        (AddField((), pa.field("x", pa.int8())), BadRequest),
        (AddField(("s", "zz"), pa.field("x", pa.int8())), NotFound),
        (RemoveField(("s",)), BadRequest),
        (RenameField(("s",), "x"), BadRequest),
        (RenameField(("s", "a"), ""), BadRequest),
        (RenameField(("s", "zz"), "x"), NotFound),
    ],
)
def test_impossible_field_changes(nested, change, error):
    with pytest.raises(error):
        nested.alter(change)


def test_without_structs_there_are_no_fields_to_change(harness, items):
    if harness.has_structs():
        pytest.skip("has them")
    for change in (AddField(("name",), pa.field("x", pa.int8())), RemoveField(("name", "x"))):
        with pytest.raises((NotSupported, BadRequest)):
            items.alter(change)


def test_a_dropped_table_takes_no_alter(schema, items):
    schema.drop_table("items")
    with pytest.raises(NotFound):
        items.alter(DropNotNull("qty"))
