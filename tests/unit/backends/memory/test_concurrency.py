"""Concurrent statements on one table: no change is lost, and every statement ends."""

import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.memory.row_lookup import replace_values
from jetbridge.catalog import (
    AddColumn,
    CreateTable,
    DMLOptions,
    RenameTable,
    Scan,
    SchemaInfo,
    UniqueKey,
)
from jetbridge.errors import AlreadyExists, BadRequest, Conflict, DuplicateKey


def _schema(**options):
    schema = MemoryCatalog().create_schema(SchemaInfo("s"))
    columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    schema.create_table(CreateTable("t", columns, **options))
    with schema.load_table("t").inserting(DMLOptions()) as write:
        write(pa.record_batch({"id": [0, 1, 2, 3], "n": [0, 0, 0, 0]}))
    return schema


def _run_threads(work, count):
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == []


def _column(schema, name):
    return pa.Table.from_batches(schema.load_table("t").scan(Scan((name,)))).column(0).to_pylist()


def test_no_increment_is_lost_when_many_update_one_row():
    schema = _schema()

    def work(number):
        done = 0
        while done < 10:
            table = schema.load_table("t")
            value = pa.Table.from_batches(table.scan(Scan(("n",)))).column(0)[0].as_py()
            try:
                with table.updating(DMLOptions()) as write:
                    write(pa.record_batch({"n": [value + 1], "rowid": [0]}))
                done += 1
            except Conflict:
                pass

    _run_threads(work, 4)
    assert _column(schema, "n") == [40, 0, 0, 0]


def test_concurrent_updates_of_different_rows_are_all_applied():
    schema = _schema()

    def work(number):
        for value in range(1, 11):
            with schema.load_table("t").updating(DMLOptions()) as write:
                write(pa.record_batch({"n": [value], "rowid": [number]}))

    _run_threads(work, 4)
    assert _column(schema, "n") == [10, 10, 10, 10]


def test_concurrent_inserts_of_one_key_store_it_once():
    schema = _schema(keys=(UniqueKey(("id",)),))
    inserted = []

    def work(number):
        for key in range(100, 110):
            try:
                with schema.load_table("t").inserting(DMLOptions()) as write:
                    write(pa.record_batch({"id": [key], "n": [number]}))
                inserted.append(key)
            except DuplicateKey:
                pass

    _run_threads(work, 4)
    assert sorted(inserted) == list(range(100, 110))
    assert sorted(_column(schema, "id")) == [0, 1, 2, 3, *range(100, 110)]


def test_a_statement_that_loses_three_times_holds_the_lock():
    schema = _schema()
    table = schema.load_table("t")
    store, cell = table._store, table._cell
    tries = []

    def change(state):
        tries.append(state.version)
        if len(tries) <= 3:  # another statement is faster
            with schema.load_table("t").inserting(DMLOptions()) as write:
                write(pa.record_batch({"id": [9], "n": [9]}))
        commented = replace(state.definition, comment="mine")
        return replace(state, definition=commented, version=state.version + 1)

    after = store.publish(cell, change)
    assert tries == [1, 2, 3, 4]
    assert (after.version, after.definition.comment) == (5, "mine")
    assert len(_column(schema, "id")) == 7


def test_of_two_concurrent_renames_to_one_name_one_is_refused():
    schema = _schema()
    schema.create_table(CreateTable("u", pa.schema([("a", pa.int8())])))
    outcomes = []

    def work(number):
        try:
            schema.load_table("tu"[number]).alter(RenameTable("x"))
            outcomes.append("renamed")
        except AlreadyExists:
            outcomes.append("refused")

    _run_threads(work, 2)
    assert sorted(outcomes) == ["refused", "renamed"]
    assert len(schema.list_tables()) == 2


def test_an_update_keeps_a_column_that_was_added_while_it_ran():
    schema = _schema()
    table = schema.load_table("t")
    with table.updating(DMLOptions()) as write:
        write(pa.record_batch({"n": [5], "rowid": [1]}))
        table.alter(AddColumn(pa.field("z", pa.string(), metadata={"default": "'d'"})))
    rows = [row for b in schema.load_table("t").scan(Scan(("n", "z"))) for row in b.to_pylist()]
    assert rows == [{"n": n, "z": "d"} for n in (0, 5, 0, 0)]


def test_a_batch_of_an_update_with_other_columns_is_refused():
    table = _schema().load_table("t")
    with pytest.raises(BadRequest, match="same columns"), table.updating(DMLOptions()) as write:
        write(pa.record_batch({"n": [5], "rowid": [1]}))
        write(pa.record_batch({"id": [5], "rowid": [1]}))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3]),
        pa.array([True, None, False]),
        pa.array(["a", None, "c"]),
        pa.array([[1], None, []]),
        pa.array(["{}", None, "[]"]).cast(pa.json_()),
        pa.array([(1, 2, 3), None, (4, 5, 6)], pa.month_day_nano_interval()),
    ],
    ids=lambda column: str(column.type),
)
def test_values_are_replaced_in_columns_of_any_type(column):
    positions = pa.array([0, 2]).to_numpy()
    for _ in range(2):  # the memory for positions is used again
        replaced = replace_values(column, positions, column.take(pa.array([1, 0])))
        assert replaced.to_pylist() == [None, None, column[0].as_py()]
