import re
import threading

import pyarrow as pa
import pytest

from jetbridge.catalog import AddColumn, CanAlter, CanInsert, RemoveColumn, SetNotNull, UniqueKey
from jetbridge.errors import BadRequest, Conflict, ConstraintViolation, DuplicateKey, NotFound
from tests.conformance.harness import RETURNING, SILENT, as_batch, insert, read, rows


@pytest.fixture(autouse=True)
def _claims(needs):
    needs(CanInsert)


def test_rows_are_published_at_the_end_of_the_statement(schema, create):
    with create().inserting(SILENT) as write:
        assert write(as_batch({"id": [1], "name": ["a"]})).affected_rows == 1
        assert write(as_batch({"id": [2, 3], "name": ["b", "c"]})).returning_data is None
        assert rows(schema.load_table("orders")) == []
    assert rows(schema.load_table("orders")) == [(1, "a"), (2, "b"), (3, "c")]


def test_failed_insert_leaves_no_rows(schema, orders):
    with pytest.raises(ConnectionError), orders.inserting(SILENT) as write:
        write(as_batch({"id": [9], "name": ["z"]}))
        raise ConnectionError
    assert rows(schema.load_table("orders")) == [(1, "a"), (2, "b"), (3, None)]


def test_a_handle_never_changes(harness, schema, orders):
    version = orders.info().version
    insert(orders, {"id": [4], "name": ["d"]})
    if not harness.frozen:
        assert rows(orders) == rows(schema.load_table("orders"))
        assert (4, "d") in rows(orders)
        return
    assert rows(orders) == [(1, "a"), (2, "b"), (3, None)]
    assert orders.info().version == version
    assert schema.load_table("orders").info().version == version + 1


def test_columns_are_taken_by_name_in_any_order_and_case(schema, create):
    insert(create(), {"NAME": ["a"], "Id": [1]})
    assert rows(schema.load_table("orders")) == [(1, "a")]


def test_columns_not_sent_get_their_default_or_null(schema, create):
    columns = [
        pa.field("id", pa.int64()),
        pa.field("qty", pa.int32(), metadata={"default": "6 * 7"}),
        pa.field("note", pa.string()),
    ]
    insert(create("t", columns), {"id": [1, 2]})
    assert rows(schema.load_table("t")) == [(1, 42, None), (2, 42, None)]


def test_random_defaults_differ_by_row(schema, create):
    columns = [pa.field("id", pa.int64()), pa.field("u", pa.uuid(), metadata={"default": "uuid()"})]
    insert(create("t", columns), {"id": list(range(100))})
    assert len(set(read(schema.load_table("t"), ("u",)).column("u").to_pylist())) == 100


def test_returning_answers_each_write_with_its_rows_and_row_ids(harness, schema, create):
    columns = [pa.field("id", pa.int64()), pa.field("q", pa.int8(), metadata={"default": "5"})]
    with create("t", columns).inserting(RETURNING) as write:
        answers = [write(as_batch({"id": ids})).returning_data for ids in ([1, 2], [3])]
    names = ["id", "q", "rowid"] if harness.returns_row_ids else ["id", "q"]
    assert [a.schema.names for a in answers] == [names] * 2
    assert [a.num_rows for a in answers] == [2, 1]
    returned = pa.Table.from_batches(answers)
    stored = read(schema.load_table("t"), tuple(names))
    assert returned.to_pylist() == stored.sort_by("id").to_pylist()


def test_row_ids_are_never_reused(harness, schema, create):
    if not harness.returns_row_ids:
        pytest.skip("does not know row ids before it publishes")
    table = create()
    first = insert(table, {"id": [1], "name": ["a"]}, RETURNING).returning_data
    with pytest.raises(ConnectionError), table.inserting(RETURNING) as write:
        lost = write(as_batch({"id": [2], "name": ["b"]})).returning_data
        raise ConnectionError
    second = insert(table, {"id": [3], "name": ["c"]}, RETURNING).returning_data
    ids = [b.column("rowid")[0].as_py() for b in (first, lost, second)]
    assert len(set(ids)) == 3


def test_not_null_names_table_column_and_row(schema, create):
    table = create("t", [pa.field("id", pa.int64(), nullable=False)])
    with (
        pytest.raises(ConstraintViolation, match=r"sales\.t\.id \(row 3\)"),
        table.inserting(SILENT) as write,
    ):
        write(as_batch({"id": [1, 2]}))
        write(as_batch({"id": pa.array([3, None])}))
    assert rows(schema.load_table("t")) == []


def test_a_missing_not_null_column_without_default_is_refused(create):
    table = create("t", [pa.field("id", pa.int64(), nullable=False), ("a", pa.int8())])
    with pytest.raises(ConstraintViolation, match=r"sales\.t\.id"):
        insert(table, {"a": pa.array([1], pa.int8())})


def test_check_names_the_constraint_and_the_first_offending_value(harness, schema, create):
    table = create("t", [("qty", pa.int64())], checks=("qty > 0",))
    insert(table, {"qty": [1, None]})
    with pytest.raises(ConstraintViolation) as error:
        insert(table, {"qty": [5, -1, -2]})
    if harness.own_words:
        expected = "CHECK constraint failed: sales.t: (qty > 0), first row with qty = -1"
        assert str(error.value) == expected
    else:
        assert re.search(r"SQL Server says 547: .*CHECK.*sales\.t", str(error.value))
    assert rows(schema.load_table("t")) == [(1,), (None,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "there", "clash"),
    [
        (pa.int64(), [1, 2], 2),
        (pa.string(), ["a", "b"], "b"),
        (pa.float64(), [1.5, float("nan")], float("nan")),
        (pa.uuid(), [b"0" * 16, b"1" * 16], b"1" * 16),
        (pa.timestamp("us", "UTC"), [0, 1], 1),
        (pa.list_(pa.int32()), [[1], [2, None]], [1]),
    ],
)
def test_a_key_refuses_duplicates_of_every_kind(harness, schema, create, kind, there, clash):
    if pa.types.is_list(kind) and ("INTEGER[]", "lossless") in harness.lacks:
        pytest.skip("has no lists")
    if pa.types.is_floating(kind) and ("DOUBLE", "lossless") in harness.refuses:
        there, clash = [1.5, 2.5], 2.5
    table = create("t", [("k", kind), ("v", pa.int8())], keys=(UniqueKey(("k",)),))
    insert(table, {"k": _array(there, kind), "v": [1, 2]})
    own = r"Duplicate key in sales\.t: \(k\) = "
    words = own if harness.own_words else r"2627: .*sales\.t.*duplicate key value is \("
    with pytest.raises(DuplicateKey, match=words):
        insert(table, {"k": _array([clash], kind), "v": [3]})
    fresh = create("u", [("k", kind), ("v", pa.int8())], keys=(UniqueKey(("k",)),))
    with pytest.raises(DuplicateKey):
        insert(fresh, {"k": _array([clash, clash], kind), "v": [3, 4]})
    assert len(rows(schema.load_table("t"), "v")) == 2
    assert rows(schema.load_table("u"), "v") == []


def _array(values, kind):
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def test_nulls_in_a_key_never_clash(harness, schema, create):
    table = create("t", [("a", pa.int64()), ("b", pa.string())], keys=(UniqueKey(("a", "b")),))
    if harness.nulls_clash:
        insert(table, {"a": [1, None], "b": [None, "x"]})
        with pytest.raises(DuplicateKey, match=r"sales\.t"):
            insert(table, {"a": pa.array([None], pa.int64()), "b": ["x"]})
        assert len(rows(schema.load_table("t"))) == 2
        return
    insert(table, {"a": [1, None, None], "b": [None, "x", "x"]})
    insert(table, {"a": [1, None], "b": [None, "x"]})
    insert(table, {"a": [1], "b": ["x"]})
    assert len(rows(schema.load_table("t"))) == 6
    with pytest.raises(DuplicateKey, match=r"\(a, b\) = \(1, 'x'\)"):
        insert(table, {"a": [2, 1], "b": ["x", "x"]})


def test_error_messages_stay_short(harness, create):
    table = create("t", [("a", pa.string())], keys=(UniqueKey(("a",)),), checks=("a <> 'b'",))
    with pytest.raises(DuplicateKey) as error:
        insert(table, {"a": ["x" * harness.longest_key] * 2})
    assert len(str(error.value)) < 500


def test_a_text_that_is_too_long_for_a_key_is_refused_with_row_and_column(harness, create):
    if harness.longest_key >= 10_000:
        pytest.skip("takes any length")
    table = create("t", [("a", pa.string())], keys=(UniqueKey(("a",)),))
    with pytest.raises(BadRequest, match="column 'a', row 1: ") as error:
        insert(table, {"a": ["x", "x" * (harness.longest_key + 1)]})
    assert len(str(error.value)) < 500


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"id": [1], "nope": [1]}, "nope"),
        ({"id": [1], "rowid": [1]}, "rowid"),
        ({"id": [1, 2], "name": [b"\xff", b"ok"]}, "row 0"),
        ({"id": ["1", "x"]}, "row 1"),
        ({"id": [1.0, 2.5]}, "row 1"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_row_and_column(schema, create, data, named):
    with pytest.raises(BadRequest, match=named):
        insert(create(), data)
    assert rows(schema.load_table("orders")) == []


def test_an_insert_of_nothing_changes_nothing(schema, orders):
    before = orders.info().version
    with orders.inserting(SILENT):
        pass
    insert(orders, {"id": pa.array([], pa.int64())})
    assert schema.load_table("orders").info().version == before


def test_inserts_at_the_same_time_never_conflict(schema, create):
    table = create()
    start = threading.Barrier(4)

    def work(number):
        start.wait()
        for i in range(10):
            insert(table, {"id": [number * 10 + i], "name": ["x"]})

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(schema.load_table("orders"))
    assert sorted(found.column("id").to_pylist()) == list(range(40))
    assert len(set(found.column("rowid").to_pylist())) == 40


def test_dropping_the_table_stops_a_running_insert(schema, orders):
    with pytest.raises((Conflict, NotFound)), orders.inserting(SILENT) as write:
        write(as_batch({"id": [9], "name": ["z"]}))
        schema.drop_table("orders")
    with pytest.raises(NotFound):
        insert(orders, {"id": [9], "name": ["z"]})


def test_an_insert_follows_a_table_that_gets_a_column_meanwhile(needs, schema, orders):
    needs(CanAlter)
    with orders.inserting(SILENT) as write:
        write(as_batch({"id": [9], "name": ["z"]}))
        orders.alter(AddColumn(pa.field("q", pa.int64(), metadata={"default": "5"})))
    assert (9, "z", 5) in rows(schema.load_table("orders"))


def test_an_insert_into_a_column_that_is_removed_meanwhile_conflicts(needs, schema, orders):
    needs(CanAlter)
    with pytest.raises(Conflict, match="name"), orders.inserting(SILENT) as write:
        write(as_batch({"id": [9], "name": ["z"]}))
        orders.alter(RemoveColumn("name"))
    assert rows(schema.load_table("orders")) == [(1,), (2,), (3,)]


def test_an_insert_obeys_not_null_that_is_set_meanwhile(needs, schema, create):
    needs(CanAlter)
    table = create()
    with pytest.raises(ConstraintViolation), table.inserting(SILENT) as write:
        write(as_batch({"id": [9], "name": pa.array([None], pa.string())}))
        table.alter(SetNotNull("name"))
    assert rows(schema.load_table("orders")) == []
