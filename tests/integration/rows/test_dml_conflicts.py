"""Statements side by side: atomicity, conflicts, and what a transaction sees."""

from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest

from jetbridge.client import Client, connect
from jetbridge.errors import (
    Conflict,
    DuplicateKey,
    ServerError,
)
from tests.helpers.raw import Raw
from tests.integration.rows.small_table import (
    HERE,
    INSERTED,
    QTY,
    ROWID_ONLY,
    ROWS,
    batch,
    columns,
    small_table,
    stored,
    with_ids,
)


@pytest.fixture
def raw(server, client) -> Iterator[Raw]:
    with small_table(server, client) as caller:
        yield caller


# --- atomicity and conflicts


def test_nothing_is_seen_by_others_before_the_half_close_is_answered(raw, client):
    with client.exchange("insert", "s", "T", INSERTED, returning=True) as statement:
        answer = statement.write(batch([{"id": 4, "name": "cyd", "qty": 1}]))
        assert answer.to_pylist() == [{"id": 4, "name": "cyd", "qty": 1, "rowid": 3}]
        assert stored(raw) == with_ids(ROWS)
        assert statement.finish() == 1
    assert stored(raw) == with_ids([*ROWS, {"id": 4, "name": "cyd", "qty": 1}])


@pytest.mark.parametrize(
    ("operation", "schema", "good", "bad"),
    [
        ("insert", INSERTED, {"id": 4, "name": "x", "qty": 1}, {"id": None, "name": "x", "qty": 1}),
        ("update", QTY, {"qty": 1, "rowid": 0}, {"qty": -1, "rowid": 1}),
        ("delete", ROWID_ONLY, {"rowid": 0}, {"rowid": 99}),
    ],
)
def test_error_in_the_last_batch_leaves_the_table_as_it_was(raw, operation, schema, good, bad):
    sent = [batch([good], schema)] * (1 if operation == "insert" else 20) + [batch([bad], schema)]
    with pytest.raises(grpc.RpcError):
        raw.exchange(operation, HERE, schema, sent)
    assert stored(raw) == with_ids(ROWS)


def test_cancelled_statement_leaves_the_table_as_it_was(raw, client):
    statement = client.exchange("insert", "s", "T", INSERTED, returning=True)
    statement.write(batch([{"id": 4, "name": "x", "qty": 1}]))
    statement.cancel()
    assert stored(raw) == with_ids(ROWS)


@pytest.mark.parametrize("second", ["update", "delete"])
@pytest.mark.parametrize("first", ["update", "delete"])
def test_second_of_two_statements_that_change_one_row_is_aborted(raw, server, first, second):
    schemas = {"update": QTY, "delete": ROWID_ONLY}
    rows = {"update": {"qty": 77, "rowid": 1}, "delete": {"rowid": 1}}
    other = {"update": {"qty": 77, "rowid": 0}, "delete": {"rowid": 0}}
    with connect(server.location, "memory") as ada, connect(server.location, "memory") as bob:
        early = ada.exchange(first, "s", "T", schemas[first])
        late = bob.exchange(second, "s", "T", schemas[second])
        early.write(batch([rows[first]], schemas[first]))
        late.write(batch([other[second], rows[second]], schemas[second]))
        assert early.finish() == 1
        with pytest.raises(Conflict, match=r"row 1 of table 's\.T'") as refused:
            late.finish()
    assert refused.value.status == "ABORTED"
    assert [row for row in stored(raw) if row["id"] != 2] == [
        {**ROWS[0], "rowid": 0},
        {**ROWS[2], "rowid": 2},
    ]


def test_statements_on_different_rows_and_inserts_never_conflict(raw, client):
    ada = client.exchange("update", "s", "T", QTY)
    bob = client.exchange("delete", "s", "T", ROWID_ONLY)
    cyd = client.exchange("insert", "s", "T", INSERTED)
    dan = client.exchange("insert", "s", "T", INSERTED)
    ada.write(batch([{"qty": 99, "rowid": 0}], QTY))
    bob.write(batch([{"rowid": 1}], ROWID_ONLY))
    cyd.write(batch([{"id": 4, "name": "cyd", "qty": 4}]))
    dan.write(batch([{"id": 5, "name": "dan", "qty": 5}]))
    assert [statement.finish() for statement in (dan, ada, cyd, bob)] == [1, 1, 1, 1]
    found = {(row["id"], row["name"], row["qty"]) for row in stored(raw)}
    assert found == {(1, "ada", 99), (3, None, 30), (4, "cyd", 4), (5, "dan", 5)}


# --- transactions


def visible(client: Client) -> set[tuple[Any, ...]]:
    return {tuple(row.values()) for row in client.read("s", "T", ["id", "qty"]).to_pylist()}


def test_transaction_sees_its_own_writes_and_not_those_of_others(raw, client):
    before = {(1, 10), (2, 20), (3, 30)}
    with client.transaction() as ada, client.transaction() as bob:
        assert visible(ada) == visible(bob) == before
        ada.insert("s", "T", batch([{"id": 4, "name": None, "qty": 40}]))
        assert visible(ada) == before | {(4, 40)}
        assert visible(bob) == before
        ada.update("s", "T", batch([{"qty": 11, "rowid": 0}], QTY))
        ada.delete("s", "T", [1])
        assert visible(ada) == {(1, 11), (3, 30), (4, 40)}
        assert visible(bob) == before
    assert visible(client) == {(1, 11), (3, 30), (4, 40)}


def test_update_of_what_another_changed_since_the_transaction_began_is_aborted(raw, client):
    with client.transaction() as ada:
        assert visible(ada) == {(1, 10), (2, 20), (3, 30)}
        client.update("s", "T", batch([{"qty": 21, "rowid": 1}], QTY))
        with pytest.raises(Conflict):
            ada.update("s", "T", batch([{"qty": 22, "rowid": 1}], QTY))
        ada.update("s", "T", batch([{"qty": 12, "rowid": 0}], QTY))
    assert visible(client) == {(1, 12), (2, 21), (3, 30)}


def test_statements_of_one_transaction_may_change_one_row_again_and_again(raw, client):
    with client.transaction() as ada:
        for qty in (1, 2, 3):
            rows = batch([{"qty": qty, "rowid": 0}], QTY)
            answer = ada.update("s", "T", rows, returning=True)
            assert answer.returning.to_pylist() == [{"qty": qty, "rowid": 0}]
        assert ada.delete("s", "T", [0], returning=True).returning.to_pylist() == [
            {"id": 1, "name": "ada", "qty": 3, "rowid": 0}
        ]
    assert visible(client) == {(2, 20), (3, 30)}


def test_scan_that_runs_while_its_update_is_open_sees_the_table_before(raw, client):
    """Do as DuckDB does: open the DoExchange first, then scan under the same id."""
    with client.transaction() as ada:
        with ada.exchange("update", "s", "T", QTY, returning=True) as statement:
            header = ("airport-transaction-id", ada.transaction_id)
            assert stored(raw, header) == with_ids(ROWS)
            answer = statement.write(batch([{"qty": 0, "rowid": 0}], QTY))
            assert answer.to_pylist() == [{"qty": 0, "rowid": 0}]
            assert stored(raw, header) == with_ids(ROWS)
            assert statement.finish() == 1
        assert visible(ada) == {(1, 0), (2, 20), (3, 30)}


def test_failed_statement_does_not_end_its_transaction(raw, client):
    with client.transaction() as ada:
        ada.insert("s", "T", batch([{"id": 4, "name": None, "qty": 40}]))
        with pytest.raises(DuplicateKey):
            ada.insert("s", "T", batch([{"id": 5, "name": None, "qty": 0}, {"id": 4}]))
        with pytest.raises(ServerError):
            ada.insert("s", "nope", batch(ROWS))
        assert visible(ada) == {(1, 10), (2, 20), (3, 30), (4, 40)}


def test_insert_in_a_transaction_knows_the_column_it_added(raw, client):
    with client.transaction() as ada:
        assert visible(ada) == {(1, 10), (2, 20), (3, 30)}
        ada.add_column("s", "T", pa.field("note", pa.string()))
        new = pa.table({"id": pa.array([4], pa.int64()), "note": ["new"]})
        ada.insert("s", "T", new)
        noted = pa.table({"note": ["old"], "rowid": [0]})
        ada.update("s", "T", noted)
        found = ada.read("s", "T", ["id", "note"]).to_pylist()
    assert {row["id"]: row["note"] for row in found} == {1: "old", 2: None, 3: None, 4: "new"}


@pytest.mark.parametrize("remade", [INSERTED, columns(word=pa.string())])
def test_insert_in_a_transaction_goes_to_the_table_it_made_anew(raw, client, remade):
    """Do as in BEGIN; SELECT ...; DROP TABLE t; CREATE TABLE t AS SELECT ..."""
    values = {"id": 7, "name": "gus", "qty": 70, "word": "w"}
    row = {name: values[name] for name in remade.names}
    with client.transaction() as ada:
        assert visible(ada) == {(1, 10), (2, 20), (3, 30)}
        ada.drop_table("s", "T")
        ada.create_table("s", "T", remade)
        assert ada.insert("s", "T", batch([row], remade)).affected_rows == 1
        assert ada.read("s", "T").to_pylist() == [row]
    assert client.read("s", "T").to_pylist() == [row]
