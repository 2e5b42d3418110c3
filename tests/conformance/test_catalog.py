import pyarrow as pa
import pytest

from jetbridge.catalog import (
    CanAlter,
    CanCreateSchemas,
    CanCreateTables,
    CanDelete,
    CanList,
    CanSnapshot,
    CanUpdate,
    CreateTable,
    OnConflict,
    RenameTable,
    SchemaInfo,
    UniqueKey,
)
from jetbridge.errors import AlreadyExists, BadRequest, Conflict, FailedPrecondition, NotFound
from jetbridge.service.table_lookup import SnapshotPins
from tests.conformance.harness import delete, insert, rowids, rows, update


def test_schemas_are_listed_by_name_and_keep_their_spelling(needs, harness, catalog):
    needs(CanCreateSchemas)
    for name in ("Zoo", "alpha", "Beta"):
        catalog.create_schema(SchemaInfo(name))
    infos = [schema.info() for schema in catalog.list_schemas()]
    expected = sorted(["alpha", "Beta", "Zoo", *harness.always], key=str.lower)
    assert [info.name for info in infos] == expected
    assert catalog.load_schema("ZOO").info() == SchemaInfo("Zoo")


@pytest.fixture
def keeps_schema_comments(needs, harness):
    needs(CanCreateSchemas)
    if not harness.schema_comments():
        pytest.skip("this server keeps no comments of schemas")


@pytest.mark.usefixtures("keeps_schema_comments")
def test_comments_and_tags_of_schemas_are_listed(catalog):
    for name in ("Zoo", "alpha"):
        catalog.create_schema(SchemaInfo(name, comment=f"c {name}", tags={"k": name}))
    infos = {schema.info().name: schema.info() for schema in catalog.list_schemas()}
    assert infos["alpha"] == SchemaInfo("alpha", "c alpha", {"k": "alpha"})
    assert catalog.load_schema("ZOO").info() == SchemaInfo("Zoo", "c Zoo", {"k": "Zoo"})


@pytest.mark.usefixtures("keeps_schema_comments")
def test_comment_and_tags_of_a_schema_are_any_text_and_go_with_it(catalog):
    comment = 'it\'s 100% [ours]: "ä" 🦆\n; DROP SCHEMA x --'
    info = SchemaInfo("s", comment, {"o'r]": "", "jetbridge.tag.k": "it's", "": "none"})
    catalog.create_schema(info)
    assert catalog.load_schema("s").info() == info
    catalog.drop_schema("s")
    catalog.create_schema(SchemaInfo("s"))
    assert catalog.load_schema("s").info() == SchemaInfo("s")


def test_creating_a_schema_twice_is_refused_in_any_case(needs, catalog, schema):
    needs(CanCreateSchemas)
    with pytest.raises(AlreadyExists, match="SALES"):
        catalog.create_schema(SchemaInfo("SALES"))


def test_missing_schema_is_not_found(needs, catalog):
    needs(CanCreateSchemas)
    with pytest.raises(NotFound, match="nope"):
        catalog.load_schema("nope")
    with pytest.raises(NotFound, match="nope"):
        catalog.drop_schema("nope")


def test_schema_with_tables_cannot_be_dropped_until_they_are_gone(
    needs, harness, catalog, schema, create
):
    needs(CanCreateSchemas, CanCreateTables)
    create()
    with pytest.raises(FailedPrecondition, match="sales"):
        catalog.drop_schema("sales")
    schema.drop_table("Orders")
    catalog.drop_schema("SALES")
    assert [s.info().name for s in catalog.list_schemas()] == list(harness.always)


def test_a_handle_on_a_dropped_schema_creates_no_table(needs, catalog, schema, create):
    needs(CanCreateSchemas, CanCreateTables)
    catalog.drop_schema("sales")
    with pytest.raises(NotFound, match="sales"):
        create()


def test_version_rises_with_every_ddl_and_with_nothing_else(needs, catalog, schema, create):
    needs(CanCreateSchemas, CanCreateTables)
    seen = [catalog.version().number]
    table = create()
    seen.append(catalog.version().number)
    insert(table, {"id": [1], "name": ["x"]})
    assert catalog.version().number == seen[-1]
    schema.drop_table("orders")
    seen.append(catalog.version().number)
    catalog.drop_schema("sales")
    seen.append(catalog.version().number)
    assert seen == sorted(set(seen))
    assert not catalog.version().fixed


def test_tables_are_listed_by_name(needs, schema, create):
    needs(CanCreateTables)
    for name in ("Zeta", "alpha", "Beta"):
        create(name)
    assert [t.info().name for t in schema.list_tables()] == ["alpha", "Beta", "Zeta"]


def test_new_table_keeps_columns_comments_defaults_and_constraints(needs, harness, schema, create):
    needs(CanCreateTables)
    columns = [
        pa.field("Id", pa.int64(), nullable=False),
        pa.field("qty", pa.int32(), metadata={"default": "7", "comment": "how many"}),
    ]
    create(
        "Items",
        columns,
        checks=("qty > 0",),
        keys=(UniqueKey(("ID",), primary=True), UniqueKey(("qty", "Id"))),
        comment="things",
    )
    info = schema.load_table("items").info()
    assert info.name == "Items"
    if harness.comments:
        assert info.comment == "things"
    else:
        columns[1] = columns[1].with_metadata({"default": "7"})
    assert info.schema.equals(pa.schema(columns), check_metadata=True)
    assert info.checks == ("(qty > 0)",)
    assert info.keys == (UniqueKey(("Id",), True), UniqueKey(("qty", "Id")))


def test_creating_a_table_twice_is_refused(needs, create):
    needs(CanCreateTables)
    create()
    with pytest.raises(AlreadyExists, match="ORDERS"):
        create("ORDERS")


def test_create_if_not_exists_answers_the_table_that_is_there(needs, schema, orders):
    needs(CanCreateTables)
    request = CreateTable("ORDERS", pa.schema([("z", pa.int8())]), OnConflict.IGNORE)
    there = schema.create_table(request)
    assert there.info().name == "orders"
    assert rows(there) == [(1, "a"), (2, "b"), (3, None)]


def test_create_or_replace_swaps_the_table(needs, harness, schema, orders):
    needs(CanCreateTables)
    request = CreateTable("Orders", pa.schema([("z", pa.int8())]), OnConflict.REPLACE)
    assert rows(schema.create_table(request)) == []
    assert schema.load_table("orders").info().schema.names == ["z"]
    if harness.frozen:
        assert rows(orders) == [(1, "a"), (2, "b"), (3, None)]
    else:
        with pytest.raises(Conflict, match=r"sales\.orders was altered"):
            rows(orders)


def test_missing_table_is_not_found(needs, schema):
    needs(CanCreateTables)
    with pytest.raises(NotFound, match=r"sales\.nope"):
        schema.load_table("nope")
    with pytest.raises(NotFound, match=r"sales\.nope"):
        schema.drop_table("nope")


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("columns", "options", "named"),
    [
        ([], {}, "column"),
        ([("a", pa.int8()), ("A", pa.int8())], {}, "A"),
        ([("RowId", pa.int64())], {}, "RowId"),
        ([("", pa.int64())], {}, "name"),
        ([("a", pa.int8())], {"checks": ("b > 1",)}, "b"),
        ([("a", pa.int8())], {"checks": ("a > ",)}, "a >"),
        ([("a", pa.int8())], {"checks": ("(SELECT 1) = a",)}, "subquery"),
        ([("a", pa.int8())], {"checks": ("sum(a) > 1",)}, "sum"),
        ([("a", pa.int8())], {"checks": ("random() > a",)}, "random"),
        ([("a", pa.int8())], {"keys": (UniqueKey(("b",)),)}, "b"),
        ([("a", pa.int8())], {"keys": (UniqueKey(()),)}, "key"),
        ([("a", pa.int8())], {"keys": (UniqueKey(("a", "A")),)}, "twice"),
        (
            [("a", pa.int8()), ("b", pa.int8())],
            {"keys": (UniqueKey(("a",), True), UniqueKey(("b",), True))},
            "primary",
        ),
        ([pa.field("a", pa.int8(), metadata={"default": "'x'"})], {}, "'x'"),
        ([pa.field("a", pa.int8(), metadata={"default": "b + 1"})], {}, "b"),
        ([("a", pa.decimal256(60, 2))], {}, "decimal256"),
    ],
)
def test_impossible_tables_are_refused_by_name(needs, schema, create, columns, options, named):
    needs(CanCreateTables)
    with pytest.raises(BadRequest) as error:
        create("t", columns, **options)
    assert named in str(error.value)
    assert schema.list_tables() == []


def test_primary_key_columns_are_not_null(needs, create):
    needs(CanCreateTables)
    info = create("t", [("a", pa.int8()), ("b", pa.int8())], keys=(UniqueKey(("A",), True),)).info()
    assert [field.nullable for field in info.schema] == [False, True]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        (pa.dictionary(pa.uint8(), pa.string()), pa.string()),
        (pa.list_(pa.dictionary(pa.uint8(), pa.string())), pa.list_(pa.string())),
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.null(), pa.int32()),
    ],
)
def test_encodings_are_stored_as_their_values(needs, harness, create, declared, stored):
    needs(CanCreateTables)
    if pa.types.is_list(declared) and ("INTEGER[]", "lossless") in harness.lacks:
        with pytest.raises(BadRequest, match="'e'"):
            create("t", [("e", declared)])
        return
    assert create("t", [("e", declared)]).info().schema.field("e").type == stored


def test_snapshot_sees_one_moment_of_all_tables(needs, harness, catalog, schema, create):
    needs(CanSnapshot, CanCreateTables)
    if not harness.frozen:
        pytest.skip("its snapshots begin with their first read")
    insert(create("one"), {"id": [1], "name": ["a"]})
    insert(create("two"), {"id": [2], "name": ["b"]})
    snapshot = catalog.snapshot()
    before = snapshot.version()
    update(schema.load_table("one"), {"name": ["X"], "rowid": [0]})
    delete(schema.load_table("two"), rowids(schema.load_table("two"), "id", 2))
    create("three")
    frozen = snapshot.load_schema("SALES")
    assert [t.info().name for t in frozen.list_tables()] == ["one", "two"]
    assert rows(frozen.load_table("ONE")) == [(1, "a")]
    assert rows(frozen.load_table("two")) == [(2, "b")]
    assert snapshot.version() == before != catalog.version()
    assert [s.info().name for s in snapshot.list_schemas()] == ["sales"]
    with pytest.raises(NotFound):
        frozen.load_table("three")
    with pytest.raises(NotFound):
        snapshot.load_schema("other")


def test_snapshot_sees_one_moment_from_its_first_read_on(needs, catalog, schema, create):
    needs(CanSnapshot, CanCreateTables)
    insert(create("one"), {"id": [1], "name": ["a"]})
    insert(create("two"), {"id": [2], "name": ["b"]})
    frozen = catalog.snapshot().load_schema("SALES")
    assert rows(frozen.load_table("ONE")) == [(1, "a")]
    one, two = schema.load_table("one"), schema.load_table("two")
    update(one, {"name": ["X"], "rowid": rowids(one, "id", 1)})
    delete(two, rowids(two, "id", 2))
    assert rows(frozen.load_table("one")) == [(1, "a")]
    assert rows(frozen.load_table("two")) == [(2, "b")]
    assert rows(schema.load_table("one")) == [(1, "X")]


def test_a_dropped_table_is_gone_from_snapshots_too(needs, catalog, schema, create):
    needs(CanSnapshot, CanCreateTables)
    insert(create("one"), {"id": [1], "name": ["a"]})
    create("two")
    snapshot = catalog.snapshot()
    schema.drop_table("one")
    frozen = snapshot.load_schema("sales")
    assert [t.info().name for t in frozen.list_tables()] == ["two"]
    with pytest.raises(NotFound):
        frozen.load_table("one")


@pytest.mark.parametrize("change", ["drop", "replace", "rename"])
def test_a_transaction_reads_no_other_table_of_the_same_name(
    needs, harness, catalog, schema, create, change
):
    needs(CanSnapshot, CanCreateTables, CanAlter)
    insert(create("one"), {"id": [1], "name": ["a"]})
    before, transaction = schema.load_table("one").info(), SnapshotPins()
    assert rows(transaction.table(catalog, "sales", "one")) == [(1, "a")]
    if change == "drop":
        schema.drop_table("one")
    elif change == "rename":
        schema.load_table("one").alter(RenameTable("two"))
    insert(create("one", on_conflict=OnConflict.REPLACE), {"id": [2], "name": ["b"]})
    # In a lake OR REPLACE makes a new version of the same table, and the one before is kept.
    same = schema.load_table("one").info().identity == before.identity
    if same or (change == "rename" and harness.frozen):
        assert rows(transaction.table(catalog, "sales", "one")) == [(1, "a")]
    else:
        with pytest.raises(Conflict, match=r"sales\.one was replaced .* start a new transaction"):
            transaction.table(catalog, "sales", "one")
    assert rows(SnapshotPins().table(catalog, "sales", "one")) == [(2, "b")]


@pytest.mark.parametrize("change", [update, delete])
def test_a_change_that_a_snapshot_missed_is_a_conflict(needs, catalog, schema, orders, change):
    needs(CanSnapshot, CanUpdate, CanDelete)
    late = catalog.snapshot().load_schema("sales").load_table("orders")
    one, two = rowids(late, "id", 1), rowids(late, "id", 2)
    update(schema.load_table("orders"), {"name": ["X"], "rowid": one})
    data = {update: {"name": ["Y", "Y"], "rowid": [*one, *two]}, delete: [*one, *two]}
    with pytest.raises(Conflict):
        change(late, data[change])
    assert rows(schema.load_table("orders")) == [(1, "X"), (2, "b"), (3, None)]
    delete(late, two)
    assert rows(schema.load_table("orders")) == [(1, "X"), (3, None)]


def test_listing_is_of_one_moment(needs, catalog, create):
    needs(CanList, CanCreateTables)
    create("one")
    listing = catalog.listing()
    create("two")
    catalog.create_schema(SchemaInfo("later"))
    (schema,) = listing.list_schemas()
    assert schema.info() == SchemaInfo("sales")
    assert [table.info().name for table in schema.list_tables()] == ["one"]
    assert listing.version().number < catalog.version().number


def test_writes_through_a_snapshot_go_to_the_live_table(needs, harness, catalog, schema, orders):
    needs(CanSnapshot)
    table = catalog.snapshot().load_schema("sales").load_table("orders")
    if not harness.frozen:
        assert len(rows(table)) == 3
    insert(table, {"id": [4], "name": ["d"]})
    assert rows(table) == [(1, "a"), (2, "b"), (3, None)]
    assert (4, "d") in rows(schema.load_table("orders"))
