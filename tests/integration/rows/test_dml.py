"""INSERT, UPDATE and DELETE over the wire: RETURNING, columns, constraints."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from jetbridge.catalog import CatalogVersion, DMLOptions, SchemaInfo, Table, Write
from jetbridge.errors import (
    BadRequest,
    ConstraintViolation,
    DuplicateKey,
    NotFound,
)
from jetbridge.service import Server
from tests.helpers.raw import Raw, said
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
    assert [word for word in words if word not in said(refused)] == []


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


@pytest.mark.parametrize("operation", ["update", "delete"])
@pytest.mark.parametrize("row_id", [2**63, 2**64 - 1])
def test_row_id_that_no_row_can_have_is_refused(raw, operation, row_id):
    sent = columns(rowid=pa.uint64())
    with pytest.raises(grpc.RpcError) as refused:
        raw.exchange(operation, HERE, sent, [batch([{"rowid": row_id}], sent)])
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"row id {row_id} of table 's.T' is too large; send" in said(refused)
    assert stored(raw) == with_ids(ROWS)


def test_value_that_does_not_fit_is_named_by_row_and_column(raw, client):
    sent = columns(id=pa.int64(), qty=pa.string())
    rows = [{"id": 4, "qty": "1"}, {"id": 5, "qty": "many"}]
    with pytest.raises(BadRequest, match=r"qty") as refused:
        client.insert("s", "T", pa.Table.from_pylist(rows, sent))
    assert "row 1" in str(refused.value)
    assert stored(raw) == with_ids(ROWS)


# --- BOOLEANs as bytes


BYTES = columns(id=pa.int64(), b=pa.bool8(), bs=pa.list_(pa.bool8()))


def as_bytes(ids: list[int], b: list[int | None], bs: list[int | None]) -> pa.RecordBatch:
    """Return one element of `bs` for each row."""
    flags, elements = (pa.bool8().wrap_array(pa.array(v, pa.int8())) for v in (b, bs))
    lists = pa.ListArray.from_arrays(list(range(len(ids) + 1)), elements)
    return pa.record_batch([pa.array(ids), flags, lists], BYTES)


@pytest.mark.parametrize("kinds", [(pa.bool_(), pa.bool_()), (pa.bool8(), pa.bool8())])
@pytest.mark.parametrize("returning", [False, True])
@pytest.mark.parametrize(
    ("b", "bs", "column", "byte"),
    [([1, 37], [0, 1], "'b'", "37"), ([1, 0], [None, -1], "'bs'", "255")],
)
def test_byte_that_is_no_boolean_is_refused_and_nothing_is_stored(
    raw, client, kinds, returning, b, bs, column, byte
):
    """Refuse what DuckDB's client sends for constants under `arrow_lossless_conversion`."""
    plain, element = kinds
    client.create_table("s", "B", columns(id=pa.int64(), b=plain, bs=pa.list_(element)))
    raw.exchange("insert", ("s", "B"), BYTES, [as_bytes([1, 2, 3], [1, 0, None], [0, 1, None])])
    sent = [as_bytes([4, 5], [0, 1], [1, 1]), as_bytes([6, 7], b, bs)]
    with pytest.raises(grpc.RpcError) as refused:
        raw.exchange("insert", ("s", "B"), BYTES, sent, returning=returning)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    words = (column, f"byte {byte}", "SET arrow_lossless_conversion = false")
    assert [word for word in words if word not in said(refused)] == []
    rows = [{"id": 1, "b": True, "bs": [False]}, {"id": 2, "b": False, "bs": [True]}]
    assert client.read("s", "B").to_pylist() == [*rows, {"id": 3, "b": None, "bs": [None]}]


def test_update_with_a_byte_that_is_no_boolean_changes_nothing(raw, client):
    client.create_table("s", "B", columns(id=pa.int64(), b=pa.bool_()))
    client.insert("s", "B", pa.table({"id": [1, 2], "b": [True, False]}))
    sent = columns(b=pa.bool8(), rowid=pa.int64())
    flags = pa.bool8().wrap_array(pa.array([1, 2], pa.int8()))
    with pytest.raises(grpc.RpcError, match="column 'b'"):
        raw.exchange("update", ("s", "B"), sent, [pa.record_batch([flags, pa.array([0, 1])], sent)])
    assert client.read("s", "B")["b"].to_pylist() == [True, False]


# --- constraints

VIOLATIONS: dict[str, tuple[str, Any, pa.Schema, type[Exception], tuple[str, ...]]] = {
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
    with pytest.raises(flight.FlightError) as refused:
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
        try:
            writer.begin(rows.schema)
            writer.write_batch(rows)
            writer.done_writing()
            return list(reader)
        finally:
            with suppress(flight.FlightError):
                writer.close()  # else Arrow complains of the error on standard error


def test_error_that_is_no_constraint_has_no_constraint_exception(raw, server):
    with pytest.raises(flight.FlightError) as refused:
        exchange_by_pyarrow(server, "insert", batch([{"nope": 1}], columns(nope=pa.int8())), False)
    details = msgpack.unpackb(refused.value.extra_info)
    assert details["exception_type"] == "InvalidInputException"
    assert "nope" in details["message"]


# --- what the tables are told


@dataclass
class Spy:
    """Serve one table of another catalog, and note the options of each statement."""

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
