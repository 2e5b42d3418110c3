import numpy as np
import pyarrow as pa
import pytest

from jetbridge.catalog import (
    CanDelete,
    CanInsert,
    CanUpdate,
    ChangeType,
    RemoveColumn,
    UniqueKey,
)
from jetbridge.errors import BadRequest, Conflict, ConstraintViolation, DuplicateKey, NotFound
from tests.conformance.harness import (
    RETURNING,
    SILENT,
    as_batch,
    delete,
    insert,
    read,
    rowids,
    rows,
    update,
)


@pytest.fixture(autouse=True)
def _claims(needs):
    needs(CanInsert, CanUpdate, CanDelete)


def test_update_changes_the_columns_that_are_sent(harness, schema, orders):
    ids = rowids(orders, "id", 2)
    assert update(orders, {"name": ["B"], "rowid": ids}).affected_rows == 1
    assert rows(orders) == [(1, "a"), (2, "b" if harness.frozen else "B"), (3, None)]
    assert rows(schema.load_table("orders")) == [(1, "a"), (2, "B"), (3, None)]
    assert rowids(schema.load_table("orders"), "name", "B") == ids


def test_update_to_null_and_from_null(schema, orders):
    ids = [*rowids(orders, "id", 1), *rowids(orders, "id", 3)]
    update(orders, {"name": [None, "c"], "rowid": ids})
    assert rows(schema.load_table("orders")) == [(1, None), (2, "b"), (3, "c")]


def test_failed_update_leaves_every_row(schema, orders):
    ids = rowids(orders, "id", 1)
    with pytest.raises(ConnectionError), orders.updating(SILENT) as write:
        write(as_batch({"name": ["X"], "rowid": ids}))
        raise ConnectionError
    assert rows(schema.load_table("orders")) == [(1, "a"), (2, "b"), (3, None)]


def test_update_returning_mirrors_what_was_sent(orders):
    ids = rowids(orders, "id", 2)
    sent = {"name": ["B"], "rowid": pa.array(ids, pa.int64()), "id": pa.array([2], pa.int32())}
    answer = update(orders, sent, RETURNING).returning_data
    assert answer.schema.names == ["name", "rowid", "id"]
    assert answer.schema.types == [pa.string(), pa.int64(), pa.int64()]
    assert answer.to_pylist() == [{"name": "B", "rowid": ids[0], "id": 2}]


def test_a_row_updated_twice_counts_once_and_the_last_value_wins(schema, orders):
    ids = rowids(orders, "id", 1)
    with orders.updating(SILENT) as write:
        first = write(as_batch({"name": ["x", "y"], "rowid": ids * 2})).affected_rows
        second = write(as_batch({"name": ["z"], "rowid": ids})).affected_rows
    assert (first, second) == (1, 0)
    assert (1, "z") in rows(schema.load_table("orders"))


def test_delete_removes_the_rows(harness, schema, orders):
    ids = [*rowids(orders, "id", 1), *rowids(orders, "id", 3)]
    assert delete(orders, ids).affected_rows == 2
    assert rows(schema.load_table("orders")) == [(2, "b")]
    if harness.frozen:
        assert rows(orders) == [(1, "a"), (2, "b"), (3, None)]


def test_failed_delete_leaves_every_row(schema, orders):
    ids = rowids(orders, "id", 1)
    with pytest.raises(ConnectionError), orders.deleting(SILENT) as write:
        write(as_batch({"rowid": ids}))
        raise ConnectionError
    assert rows(schema.load_table("orders")) == [(1, "a"), (2, "b"), (3, None)]


def test_delete_returning_answers_the_rows_in_the_order_sent(orders):
    ids = [rowids(orders, "id", n)[0] for n in (3, 1)]
    answer = delete(orders, ids, RETURNING).returning_data
    assert answer.schema.names == ["id", "name", "rowid"]
    assert answer.to_pylist() == [
        {"id": 3, "name": None, "rowid": ids[0]},
        {"id": 1, "name": "a", "rowid": ids[1]},
    ]


def test_a_row_deleted_twice_counts_once(schema, orders):
    ids = rowids(orders, "id", 1)
    with orders.deleting(RETURNING) as write:
        answers = [write(as_batch({"rowid": sent})) for sent in (ids * 2, ids)]
    assert [a.affected_rows for a in answers] == [1, 0]
    assert [a.returning_data.num_rows for a in answers] == [2, 1]
    assert rows(schema.load_table("orders")) == [(2, "b"), (3, None)]


def test_a_deleted_row_id_is_not_given_again(schema, orders):
    before = read(orders).column("rowid").to_pylist()
    delete(orders, before)
    insert(orders, {"id": [9], "name": ["z"]})
    assert not set(read(schema.load_table("orders")).column("rowid").to_pylist()) & set(before)


@pytest.mark.parametrize("rowid", [-1, 1_000_000])
def test_a_row_id_that_never_was_is_a_bad_request(harness, orders, rowid):
    kind, words = (Conflict, r"sales\.orders") if harness.keyed else (BadRequest, str(rowid))
    with pytest.raises(kind, match=words):
        delete(orders, [rowid])
    with pytest.raises(kind, match=words):
        update(orders, {"name": ["x"], "rowid": [rowid]})


def test_row_ids_must_be_there_and_must_be_integers(orders):
    with pytest.raises(BadRequest, match="rowid"):
        update(orders, {"name": ["x"]})
    with pytest.raises(BadRequest, match="rowid"), orders.deleting(SILENT) as write:
        write(as_batch({"id": [1]}))
    with pytest.raises(BadRequest, match="row ids"):
        update(orders, {"name": ["x"], "rowid": pa.array([None], pa.int64())})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", ["update", "delete"])
@pytest.mark.parametrize("second", ["update", "delete"])
def test_the_second_change_of_a_row_conflicts_and_applies_nothing(
    harness, schema, orders, first, second
):
    if harness.keyed and first == "update":
        pytest.skip("a changed row is the same row still")
    mine, other = rowids(orders, "id", 1)[0], rowids(orders, "id", 2)[0]
    work = {
        "update": lambda table, ids: update(table, {"name": ["!"] * len(ids), "rowid": ids}),
        "delete": delete,
    }
    work[first](orders, [mine])
    after = rows(schema.load_table("orders"))
    with pytest.raises(Conflict, match=r"sales\.orders"):
        work[second](orders, [other, mine])
    assert rows(schema.load_table("orders")) == after


@pytest.mark.parametrize("second", ["update", "delete"])
def test_a_row_changed_by_others_is_the_same_row_if_its_key_is_its_id(
    harness, schema, orders, second
):
    if not harness.keyed:
        pytest.skip("a changed row conflicts")
    update(schema.load_table("orders"), {"name": ["theirs"], "rowid": [1]})
    if second == "update":
        update(orders, {"name": ["mine"], "rowid": [1]})
    else:
        delete(orders, [1])
    mine = [(1, "mine")] if second == "update" else []
    assert rows(schema.load_table("orders")) == [*mine, (2, "b"), (3, None)]


def test_changes_of_different_rows_do_not_conflict(schema, orders):
    one, two = rowids(orders, "id", 1), rowids(orders, "id", 2)
    with orders.updating(SILENT) as first, orders.updating(SILENT) as second:
        first(as_batch({"name": ["A"], "rowid": one}))
        second(as_batch({"name": ["B"], "rowid": two}))
    assert rows(schema.load_table("orders")) == [(1, "A"), (2, "B"), (3, None)]


def test_a_fresh_handle_may_change_a_changed_row(schema, orders):
    ids = rowids(orders, "id", 1)
    for value in ("x", "y"):
        update(schema.load_table("orders"), {"name": [value], "rowid": ids})
    delete(schema.load_table("orders"), ids)
    assert rows(schema.load_table("orders")) == [(2, "b"), (3, None)]


def test_scans_do_not_wait_for_an_open_statement(schema, orders):
    ids = rowids(orders, "id", 1)
    with orders.updating(SILENT) as write:
        write(as_batch({"name": ["X"], "rowid": ids}))
        assert rows(schema.load_table("orders")) == [(1, "a"), (2, "b"), (3, None)]


def test_update_obeys_not_null(schema, create):
    columns = [pa.field("id", pa.int64(), nullable=False), ("v", pa.int8())]
    insert(create("t", columns), {"id": [1], "v": [1]})
    table = schema.load_table("t")
    with pytest.raises(ConstraintViolation, match=r"sales\.t\.id \(row 0\)"):
        update(table, {"id": pa.array([None], pa.int64()), "rowid": rowids(table, "id", 1)})
    assert rows(schema.load_table("t")) == [(1, 1)]


def test_update_obeys_checks_over_columns_it_does_not_set(harness, schema, create):
    columns = [("n", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]
    insert(create("t", columns, checks=("a < b",)), {"n": [0, 1], "a": [1, 3], "b": [2, 4]})
    table = schema.load_table("t")
    words = "a = 9, b = 2" if harness.own_words else r"547: .*CHECK.*sales\.t"
    with pytest.raises(ConstraintViolation, match=words):
        update(table, {"a": [9], "rowid": rowids(table, "a", 1)})
    assert rows(schema.load_table("t")) == [(0, 1, 2), (1, 3, 4)]


@pytest.fixture
def keyed(schema, create):
    columns = [("id", pa.int64()), ("v", pa.string())]
    insert(create("t", columns, keys=(UniqueKey(("id",), True),)), {"id": [1, 2], "v": ["a", "b"]})
    return schema.load_table("t")


def test_two_keys_can_be_swapped_in_one_update(schema, keyed):
    ids = [*rowids(keyed, "id", 1), *rowids(keyed, "id", 2)]
    with keyed.updating(SILENT) as write:
        write(as_batch({"id": [2], "rowid": ids[:1]}))
        write(as_batch({"id": [1], "rowid": ids[1:]}))
    assert rows(schema.load_table("t")) == [(1, "b"), (2, "a")]


def test_update_to_a_key_that_is_there_is_refused(harness, schema, keyed):
    words = r"\(id\) = \({}\)" if harness.own_words else r"2627: .*sales\.t.* \({}\)"
    with pytest.raises(DuplicateKey, match=words.format(2)):
        update(keyed, {"id": [2], "rowid": rowids(keyed, "id", 1)})
    with pytest.raises(DuplicateKey, match=words.format(7)):
        update(keyed, {"id": [7, 7], "rowid": read(keyed).column("rowid").to_pylist()})
    assert rows(schema.load_table("t")) == [(1, "a"), (2, "b")]


def test_the_key_of_a_deleted_row_is_free_again(schema, keyed):
    delete(keyed, rowids(keyed, "id", 1))
    insert(keyed, {"id": [1], "v": ["new"]})
    assert rows(schema.load_table("t")) == [(1, "new"), (2, "b")]


def test_a_column_altered_meanwhile_is_followed_or_conflicts(schema, orders):
    ids = rowids(orders, "id", 1)
    orders.alter(ChangeType(pa.field("id", pa.string())))
    update(orders, {"id": [9], "rowid": ids})
    assert ("9", "a") in rows(schema.load_table("orders"))
    handle = schema.load_table("orders")
    handle.alter(RemoveColumn("name"))
    with pytest.raises(Conflict, match="name"):
        update(handle, {"name": ["x"], "rowid": rowids(handle, "id", "2")})


def test_dropping_the_table_stops_running_changes(schema, orders):
    ids = rowids(orders, "id", 1)
    with pytest.raises((Conflict, NotFound)), orders.deleting(SILENT) as write:
        write(as_batch({"rowid": ids}))
        schema.drop_table("orders")
    for work in (orders.updating, orders.deleting):
        with pytest.raises(NotFound), work(SILENT):
            pass


def test_large_tables_are_changed_row_by_row_id(schema, create):
    count = 200_000
    insert(create(), {"id": np.arange(count), "name": [f"n{i}" for i in range(count)]})
    table = schema.load_table("orders")
    chosen = np.arange(0, count, 7)
    update(table, {"name": [f"u{i}" for i in chosen], "rowid": chosen})
    gone = np.arange(3, count, 11)
    delete(schema.load_table("orders"), gone)
    rows_left = read(schema.load_table("orders"), ("id", "name", "rowid"))
    found = rows_left.sort_by("rowid").to_pydict()
    kept = np.setdiff1d(np.arange(count), gone)
    assert found["id"] == found["rowid"] == kept.tolist()
    assert found["name"] == [f"u{i}" if i % 7 == 0 else f"n{i}" for i in kept]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["filename", "file_row_number"])
def test_a_column_may_have_any_name(schema, create, name):
    insert(create("t", [("id", pa.int64()), (name, pa.string())]), {"id": [1, 2], name: ["a", "b"]})
    table = schema.load_table("t")
    update(table, {name: ["x"], "rowid": rowids(table, "id", 1)})
    table = schema.load_table("t")
    delete(table, rowids(table, "id", 2))
    assert rows(schema.load_table("t")) == [(1, "x")]
