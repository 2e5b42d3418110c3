"""INSERT, UPDATE and DELETE over the wire: RETURNING, atomicity, conflicts and constraints."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import grpc
import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from jetbridge.catalog import CatalogVersion, DMLOptions, SchemaInfo, Table, Write
from jetbridge.client import Client, connect
from jetbridge.errors import (
    BadRequest,
    Conflict,
    ConstraintViolation,
    DuplicateKey,
    NotFound,
    ServerError,
)
from jetbridge.service import Server
from tests.integration.raw import Answer, Raw

HERE = ("s", "T")
MEMORY = ("airport-catalog", "memory")
COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("qty", pa.int32())]
)
INSERTED = pa.schema([("id", pa.int64()), ("name", pa.string()), ("qty", pa.int32())])
ROWS = [
    {"id": 1, "name": "ada", "qty": 10},
    {"id": 2, "name": "bob", "qty": 20},
    {"id": 3, "name": None, "qty": 30},
]


def batch(rows: list[dict[str, Any]], schema: pa.Schema = INSERTED) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


ROWID_ONLY = columns(rowid=pa.int64())
QTY = columns(qty=pa.int32(), rowid=pa.int64())


@pytest.fixture
def raw(server, client) -> Iterator[Raw]:
    """A caller, and the table s.T with three rows of ids 0, 1 and 2."""
    client.create_schema("s")
    client.create_table("s", "T", COLUMNS, checks=["qty >= 0"], primary_key=["id"])
    client.insert("s", "T", pa.Table.from_pylist(ROWS, INSERTED))
    with Raw(server.location, MEMORY) as caller:
        yield caller


def stored(raw: Raw, *headers: tuple[str, str]) -> list[dict[str, Any]]:
    return [row for answer in raw.scan(HERE, *headers) for row in answer.rows]


def with_ids(rows: Sequence[dict[str, Any]], first: int = 0) -> list[dict[str, Any]]:
    return [{**row, "rowid": number} for number, row in enumerate(rows, first)]


def test_insert_without_returning_answers_only_the_count(raw):
    new = [{"id": 4, "name": "cyd", "qty": 1}, {"id": 5, "name": "dan", "qty": None}]
    answer = raw.exchange("insert", HERE, INSERTED, [batch(new[:1]), batch(new[1:])])
    assert answer.schema.names == ["id", "name", "qty", "rowid"]
    assert (answer.batches, answer.metadata) == ([], [{"total_changed": 2}])
    assert stored(raw) == with_ids([*ROWS, *new])


def test_insert_with_returning_answers_each_batch_with_its_rows_as_stored(raw):
    new = [{"id": 4, "name": "cyd", "qty": 1}, {"id": 5, "name": "dan", "qty": None}]
    sent = [batch(new[:1]), batch([]), batch(new[1:])]
    answer = raw.exchange("insert", HERE, INSERTED, sent, returning=True)
    assert [b.to_pylist() for b in answer.batches] == [
        with_ids(new[:1], 3),
        [],
        with_ids(new[1:], 4),
    ]
    assert answer.metadata == [{"total_changed": 2}]
    assert stored(raw) == with_ids([*ROWS, *new])


def test_insert_in_another_order_and_with_other_types_is_stored_by_name(raw):
    sent = columns(QTY=pa.int64(), id=pa.int32())
    answer = raw.exchange(
        "insert", HERE, sent, [batch([{"QTY": 7, "id": 9}], sent)], returning=True
    )
    assert answer.rows == [{"id": 9, "name": None, "qty": 7, "rowid": 3}]


def test_update_answers_in_the_order_that_was_sent(raw):
    sent = columns(name=pa.string(), qty=pa.int32(), id=pa.int64(), rowid=pa.int64())
    new = [
        {"name": "CYD", "qty": 31, "id": 3, "rowid": 2},
        {"name": "ADA", "qty": 11, "id": 1, "rowid": 0},
    ]
    answer = raw.exchange("update", HERE, sent, [batch(new, sent)], returning=True)
    assert answer.schema.names == ["name", "qty", "id", "rowid"]
    assert (answer.rows, answer.metadata) == (new, [{"total_changed": 2}])
    assert {row["rowid"]: row for row in stored(raw)} == {
        0: {"id": 1, "name": "ADA", "qty": 11, "rowid": 0},
        1: {"id": 2, "name": "bob", "qty": 20, "rowid": 1},
        2: {"id": 3, "name": "CYD", "qty": 31, "rowid": 2},
    }


def test_update_without_returning_answers_only_the_count(raw):
    answer = raw.exchange("update", HERE, QTY, [batch([{"qty": 0, "rowid": 1}], QTY)])
    assert (answer.batches, answer.metadata) == ([], [{"total_changed": 1}])
    assert {row["id"]: row["qty"] for row in stored(raw)} == {1: 10, 2: 0, 3: 30}


def test_update_of_a_row_twice_counts_once_and_the_last_value_stays(raw):
    new = [{"qty": 5, "rowid": 1}, {"qty": 6, "rowid": 1}]
    answer = raw.exchange("update", HERE, QTY, [batch(new[:1], QTY), batch(new[1:], QTY)])
    assert answer.metadata == [{"total_changed": 1}]
    assert {row["id"]: row["qty"] for row in stored(raw)} == {1: 10, 2: 6, 3: 30}


def test_keys_are_judged_at_the_end_of_an_update(raw):
    sent = columns(id=pa.int64(), rowid=pa.int64())
    swapped = [{"id": 2, "rowid": 0}, {"id": 1, "rowid": 1}]
    answer = raw.exchange("update", HERE, sent, [batch([row], sent) for row in swapped])
    assert answer.metadata == [{"total_changed": 2}]
    assert {row["name"]: row["id"] for row in stored(raw)} == {"ada": 2, "bob": 1, None: 3}


def test_delete_with_returning_answers_the_rows_that_were_there(raw):
    sent = [batch([{"rowid": 2}, {"rowid": 0}], ROWID_ONLY)]
    answer = raw.exchange("delete", HERE, ROWID_ONLY, sent, returning=True)
    assert answer.rows == [{**ROWS[2], "rowid": 2}, {**ROWS[0], "rowid": 0}]
    assert answer.metadata == [{"total_changed": 2}]
    assert stored(raw) == [{**ROWS[1], "rowid": 1}]


def test_delete_without_returning_answers_only_the_count(raw):
    answer = raw.exchange("delete", HERE, ROWID_ONLY, [batch([{"rowid": 1}], ROWID_ONLY)])
    assert (answer.batches, answer.metadata) == ([], [{"total_changed": 1}])
    assert stored(raw) == [{**ROWS[0], "rowid": 0}, {**ROWS[2], "rowid": 2}]


@pytest.mark.parametrize("returning", [False, True])
@pytest.mark.parametrize(
    ("operation", "schema"), [("insert", INSERTED), ("update", QTY), ("delete", ROWID_ONLY)]
)
def test_statement_without_rows_changes_nothing(raw, operation, schema, returning):
    answer = raw.exchange(operation, HERE, schema, (), returning=returning)
    assert (answer.batches, answer.metadata) == ([], [{"total_changed": 0}])
    assert stored(raw) == with_ids(ROWS)


@pytest.mark.parametrize(
    ("operation", "schema", "words"),
    [
        ("insert", columns(id=pa.int64(), nope=pa.int64()), ("s.T", "nope", "ATTACH again")),
        ("insert", pa.schema([("id", pa.int64()), ("ID", pa.int64())]), ("s.T", "twice")),
        ("update", columns(nope=pa.int64(), rowid=pa.int64()), ("s.T", "nope", "ATTACH again")),
        ("update", columns(qty=pa.int32()), ("s.T", "rowid")),
        ("delete", columns(nope=pa.int64(), rowid=pa.int64()), ("s.T", "nope")),
        ("delete", columns(id=pa.int64()), ("s.T", "rowid")),
        ("upsert", ROWID_ONLY, ("upsert", "insert, update, delete")),
        ("", ROWID_ONLY, ("airport-operation", "insert, update, delete")),
    ],
)
def test_statement_with_wrong_columns_is_refused_before_any_row(raw, operation, schema, words):
    with pytest.raises(grpc.RpcError) as refused:
        raw.exchange(operation, HERE, schema)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [word for word in words if word not in refused.value.details()] == []


@pytest.mark.parametrize(
    ("operation", "path", "code"),
    [
        ("insert", ("s", "nope"), grpc.StatusCode.NOT_FOUND),
        ("update", ("nope", "T"), grpc.StatusCode.NOT_FOUND),
        ("delete", ("s",), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_statement_for_no_table_is_refused(raw, operation, path, code):
    with pytest.raises(grpc.RpcError) as refused:
        raw.exchange(operation, path, ROWID_ONLY)
    assert refused.value.code() is code


def test_value_that_does_not_fit_is_named_by_row_and_column(raw, client):
    sent = columns(id=pa.int64(), qty=pa.string())
    rows = [{"id": 4, "qty": "1"}, {"id": 5, "qty": "many"}]
    with pytest.raises(BadRequest, match=r"qty") as refused:
        client.insert("s", "T", pa.Table.from_pylist(rows, sent))
    assert "row 1" in str(refused.value)
    assert stored(raw) == with_ids(ROWS)


# --- constraints

VIOLATIONS = {
    "NOT NULL on insert": (
        "insert", [{"id": None, "name": "x", "qty": 1}], INSERTED,
        ConstraintViolation, ("NOT NULL", "s.T", "id"),
    ),
    "NOT NULL on update": (
        "update", [{"id": None, "rowid": 0}], columns(id=pa.int64(), rowid=pa.int64()),
        ConstraintViolation, ("NOT NULL", "s.T", "id"),
    ),
    "CHECK on insert": (
        "insert", [{"id": 8, "name": "x", "qty": 1}, {"id": 9, "name": "x", "qty": -5}], INSERTED,
        ConstraintViolation, ("CHECK", "s.T", "qty >= 0", "-5"),
    ),
    "CHECK on update": (
        "update", [{"qty": -5, "rowid": 1}], QTY,
        ConstraintViolation, ("CHECK", "s.T", "qty >= 0", "-5"),
    ),
    "a key twice in one insert": (
        "insert", [{"id": 8, "name": "x", "qty": 1}, {"id": 8, "name": "y", "qty": 1}], INSERTED,
        DuplicateKey, ("s.T", "id", "8"),
    ),
    "a key that is there": (
        "insert", [{"id": 2, "name": "x", "qty": 1}], INSERTED, DuplicateKey, ("s.T", "id", "2"),
    ),
    "a key that is there, by update": (
        "update", [{"id": 3, "rowid": 0}], columns(id=pa.int64(), rowid=pa.int64()),
        DuplicateKey, ("s.T", "id", "3"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("returning", [False, True])
@pytest.mark.parametrize("case", VIOLATIONS)
def test_violation_is_a_constraint_exception_for_pyarrow_and_for_our_client(
    raw, server, client, case, returning
):
    operation, rows, schema, kind, words = VIOLATIONS[case]
    with pytest.raises(flight.FlightServerError) as refused:
        exchange_by_pyarrow(server, operation, batch(rows, schema), returning)
    details = msgpack.unpackb(refused.value.extra_info)
    assert details.keys() == {"exception_type", "message"}
    assert details["exception_type"] == "ConstraintException"
    assert [word for word in words if word not in details["message"]] == []
    with pytest.raises(kind) as ours:
        getattr(client, operation)("s", "T", batch(rows, schema), returning=returning)
    assert (type(ours.value), str(ours.value)) == (kind, details["message"])
    assert stored(raw) == with_ids(ROWS)


def exchange_by_pyarrow(server: Server, operation: str, rows: pa.RecordBatch, returning: bool):
    headers = [
        (b"airport-user-agent", b"airport/20250723"),
        (b"airport-catalog", b"memory"),
        (b"airport-operation", operation.encode()),
        (b"return-chunks", b"1" if returning else b"0"),
    ]
    with flight.connect(server.location) as caller:
        options = flight.FlightCallOptions(headers=headers, timeout=30)
        path = flight.FlightDescriptor.for_path(*HERE)
        writer, reader = caller.do_exchange(path, options)
        writer.begin(rows.schema)
        writer.write_batch(rows)
        writer.done_writing()
        return list(reader)


def test_error_that_is_no_constraint_has_no_constraint_exception(raw, server):
    with pytest.raises(pa.ArrowInvalid) as refused:
        exchange_by_pyarrow(server, "insert", batch([{"nope": 1}], columns(nope=pa.int8())), False)
    assert "nope" in str(refused.value)


# --- what the tables are told


@dataclass
class Spy:
    """A catalog with one table, that of another; it notes the options of each statement."""

    inner: Table
    seen: list[tuple[str, DMLOptions]] = field(default_factory=list)

    def list_schemas(self) -> list["Spy"]:
        return [self]

    def load_schema(self, name: str) -> "Spy":
        if name != "s":
            raise NotFound("schema", name)
        return self

    def version(self) -> CatalogVersion:
        return CatalogVersion(1)

    def info(self) -> SchemaInfo:
        return SchemaInfo("s")

    def list_tables(self) -> list["SpyTable"]:
        return [SpyTable(self)]

    def load_table(self, name: str) -> "SpyTable":
        return SpyTable(self)


@dataclass
class SpyTable:
    spy: Spy

    def info(self) -> Any:
        return self.spy.inner.info()

    def scan(self, request: Any) -> Any:
        return self.spy.inner.scan(request)

    def _started(self, method: str, options: DMLOptions) -> Any:
        self.spy.seen.append((method, options))
        return getattr(self.spy.inner, method)(options)

    def inserting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        started: AbstractContextManager[Write] = self._started("inserting", options)
        return started

    def updating(self, options: DMLOptions) -> AbstractContextManager[Write]:
        started: AbstractContextManager[Write] = self._started("updating", options)
        return started

    def deleting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        started: AbstractContextManager[Write] = self._started("deleting", options)
        return started


@pytest.mark.parametrize("returning", [False, True])
@pytest.mark.parametrize(
    ("operation", "schema", "method"),
    [
        ("insert", columns(qty=pa.int32(), id=pa.int64()), "inserting"),
        ("update", QTY, "updating"),
        ("delete", ROWID_ONLY, "deleting"),
    ],
)
def test_table_is_told_of_returning_and_of_the_columns_sent(
    raw, catalog, operation, schema, method, returning
):
    spy = Spy(catalog.load_schema("s").load_table("T"))
    with Server({"spy": spy}, port=0) as server:
        server.start()
        with Raw(server.location) as caller:
            caller.exchange(operation, HERE, schema, (), returning=returning)
    assert spy.seen == [(method, DMLOptions(returning, tuple(schema.names)))]


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
    assert refused.value.status is grpc.StatusCode.ABORTED
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


def test_scan_that_runs_while_its_update_is_open_sees_the_table_before(raw):
    """As DuckDB does it: the DoExchange is opened first, then the scan runs under the same id."""
    header = ("airport-transaction-id", raw.answer("create_transaction", {})["identifier"])
    assert stored(raw, header) == with_ids(ROWS)
    answer: Answer = raw.exchange(
        "update", HERE, QTY, [batch([{"qty": 0, "rowid": 0}], QTY)], header, returning=True
    )
    assert answer.metadata == [{"total_changed": 1}]
    assert {row["id"]: row["qty"] for row in stored(raw, header)} == {1: 0, 2: 20, 3: 30}


def test_failed_statement_does_not_end_its_transaction(raw, client):
    with client.transaction() as ada:
        ada.insert("s", "T", batch([{"id": 4, "name": None, "qty": 40}]))
        with pytest.raises(DuplicateKey):
            ada.insert("s", "T", batch([{"id": 5, "name": None, "qty": 0}, {"id": 4}]))
        with pytest.raises(ServerError):
            ada.insert("s", "nope", batch(ROWS))
        assert visible(ada) == {(1, 10), (2, 20), (3, 30), (4, 40)}
