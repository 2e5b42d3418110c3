"""Every action with every error it can meet: the code, the words, and that nothing happened."""

import hashlib
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CatalogVersion, Scan, TableInfo
from jetbridge.client import Client, connect
from jetbridge.errors import Conflict
from jetbridge.service import Server
from jetbridge.wire.flight_pb2 import ActionType, Empty, FlightInfo
from tests.helpers.raw import Raw, descriptor, said
from tests.integration.documents.example import parquet_folder
from tests.integration.service.code_rows import (
    ALTER,
    DDL,
    EXPECTED,
    INTERNAL,
    INVALID,
    ROWS,
    STATEMENTS,
    VALID,
    Row,
    ipc,
)

DETAIL = pa.struct([("x", pa.int32()), ("y", pa.string())])
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("kind", pa.string()),
        pa.field("code", pa.string(), nullable=False),
        pa.field("detail", DETAIL),
        pa.field("lone", pa.struct([("only", pa.int8())])),
    ]
)
ORDERS = [
    {"id": 1, "customer": "ada", "amount": 1.5, "kind": "k", "code": "c",
     "detail": None, "lone": None},
    {"id": 2, "customer": "bob", "amount": None, "kind": "k", "code": "c",
     "detail": {"x": 7, "y": "z"}, "lone": {"only": 1}},
]  # fmt: skip


class Raising:
    """Raise the same error from every method of a catalog."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _raise(self, *_: object) -> Any:
        raise self._error

    list_schemas = load_schema = version = create_schema = drop_schema = _raise


def fill(client: Client) -> None:
    client.create_schema("sales")
    client.create_schema("empty")
    client.create_table("sales", "Orders", COLUMNS, checks=["(amount >= 0)"], primary_key=["id"])
    client.insert("sales", "Orders", pa.Table.from_pylist(ORDERS, COLUMNS))
    client.create_table("sales", "One", pa.schema([("a", pa.int32())]))


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "sales").mkdir()
    pq.write_table(pa.Table.from_pylist(ORDERS, COLUMNS), folder / "sales" / "Orders.parquet")
    return {
        "memory": MemoryCatalog(),
        "files": parquet_folder().ParquetFolder(folder),
        "broken": Raising(RuntimeError("secret detail")),
        "torn": Raising(Conflict("table 'sales.Orders' was changed meanwhile; try again")),
    }


@pytest.fixture(scope="module")
def raw(catalogs) -> Iterator[Raw]:
    with Server(catalogs, port=0) as server:
        server.start()
        with connect(server.location, "memory") as client, Raw(server.location) as caller:
            fill(client)
            yield caller


@pytest.fixture
def own(server) -> Iterator[Raw]:
    """Provide a server of their own for the rows that change something."""
    with connect(server.location, "memory") as client, Raw(server.location) as caller:
        fill(client)
        yield caller


def body_of(action: str, request: Any) -> Any:
    if isinstance(request, bytes):
        return request
    changed = {**VALID[action], **(request or {})}
    return {key: value for key, value in changed.items() if value is not ...}


def send(raw: Raw, row: Row) -> None:
    header = ("airport-catalog", row.catalog)
    if row.action not in STATEMENTS:
        raw.action(row.action, body_of(row.action, row.request), header)
        return
    columns = pa.schema(
        [("rowid", pa.int64())] if row.action == "delete" else [("code", pa.string())]
    )
    if row.action == "update":
        columns = columns.append(pa.field("rowid", pa.int64()))
    raw.exchange(row.action, ("sales", "Orders"), columns, (), header)


def state(catalog: MemoryCatalog) -> Any:
    """Return all that a refused request must leave as it was."""
    tables = [table.info() for s in catalog.list_schemas() for table in s.list_tables()]
    return catalog.version(), [(t.name, t.version, t.schema, t.checks, t.keys) for t in tables]


FILE_PATH = re.compile(r"(?<![:/\w])/\w+/[\w.]+|\.py\b")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.action}: {row.error}")
def test_refusal_has_its_code_and_names_what_to_do(raw, catalogs, row):
    before = state(catalogs["memory"])
    with pytest.raises(grpc.RpcError) as refused:
        send(raw, row)
    message = said(refused)
    assert (refused.value.code(), message) == (row.code, message)
    assert [word for word in row.words if word not in message] == [], message
    assert len(message.encode()) < 2048
    assert len(message.splitlines()) == 1
    assert "Traceback" not in message
    assert not FILE_PATH.search(message.replace("/etc/passwd", ""))
    assert "secret detail" not in message
    assert state(catalogs["memory"]) == before


def test_every_registered_action_is_in_the_matrix_with_the_codes_of_its_contract(raw):
    registered = {a.type for a in raw.stream("ListActions", Empty(), ActionType)}
    assert registered == EXPECTED.keys()
    tried = {action: {row.code for row in ROWS if row.action == action} for action in registered}
    untried = {action: (EXPECTED[action] | {INVALID}) - tried[action] for action in registered}
    assert untried == dict.fromkeys(registered, set())


@pytest.mark.parametrize(
    "action", sorted(VALID.keys() - {"table_function_flight_info", "set_layout"})
)
def test_valid_request_succeeds_and_ddl_raises_the_catalog_version(own, catalog, action):
    """Prove that each request is valid: else its refusals might have other reasons."""
    before = catalog.version().number
    own.action(action, VALID[action], ("airport-catalog", "memory"))
    assert catalog.version().number == before + (action in DDL)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.code is INTERNAL], ids=lambda row: row.action
)
def test_log_has_the_detail_under_the_trace_id_that_the_caller_is_told(raw, row, caplog):
    with caplog.at_level(logging.ERROR, "jetbridge"), pytest.raises(grpc.RpcError) as refused:
        send(raw, row)
    trace_id = re.search(r"[0-9a-f]{16,}", said(refused))
    assert trace_id
    logged = [r for r in caplog.records if trace_id[0] in r.getMessage()]
    assert [str(r.exc_info[1]) for r in logged if r.exc_info] == ["secret detail"]


def table_of(answer: list[bytes]) -> tuple[str, pa.Schema]:
    """Return the name and the visible columns of the one FlightInfo an action answered."""
    (body,) = answer
    info = FlightInfo.FromString(body)
    metadata = msgpack.unpackb(info.app_metadata)
    assert (metadata["type"], metadata["catalog"]) == ("table", "memory")
    path = [part.casefold() for part in info.flight_descriptor.path]
    assert path[:2] == [metadata["schema"].casefold(), metadata["name"].casefold()]
    columns = pa.ipc.read_schema(pa.py_buffer(info.schema))
    assert columns.names[-1] == "rowid"
    return metadata["name"], columns.remove(len(columns) - 1).remove_metadata()


def without(*names: str) -> pa.Schema:
    return pa.schema([field for field in COLUMNS if field.name not in names])


def replaced(name: str, field: pa.Field) -> pa.Schema:
    return COLUMNS.set(COLUMNS.get_field_index(name), field)


def of_detail(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    return replaced("detail", pa.field("detail", pa.struct(list(fields))))


X, Y = ("x", pa.int32()), ("y", pa.string())
SAME: dict[str, Any] = {}
# action, what the request says, name and columns of the table afterwards
ANSWERS: list[tuple[str, dict[str, Any], str, pa.Schema]] = [
    ("create_table", {"on_conflict": "ignore"}, "New",
     pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])),
    ("create_table", {"table_name": "ORDERS", "on_conflict": "ignore"}, "Orders", COLUMNS),
    ("create_table", {"table_name": "ORDERS", "on_conflict": "replace"}, "ORDERS",
     pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])),
    ("add_column", {"name": "ORDERS", "schema": "SALES"}, "Orders",
     COLUMNS.append(pa.field("extra", pa.int32()))),
    ("add_column", {"column_schema": ipc(("AMOUNT", pa.int8())), "if_column_not_exists": True},
     "Orders", COLUMNS),
    ("remove_column", {"removed_column": "CUSTOMER"}, "Orders", without("customer")),
    ("remove_column", {"removed_column": "nope", "if_column_exists": True}, "Orders", COLUMNS),
    ("remove_column", {"removed_column": "amount", "cascade": True}, "Orders", without("amount")),
    ("remove_column", {"removed_column": "id", "cascade": True}, "Orders", without("id")),
    ("rename_column", SAME, "Orders", replaced("customer", pa.field("Buyer", pa.string()))),
    ("rename_column", {"new_name": "CUSTOMER"}, "Orders",
     replaced("customer", pa.field("CUSTOMER", pa.string()))),
    ("rename_table", SAME, "Purchases", COLUMNS),
    ("rename_table", {"new_table_name": "ORDERS"}, "ORDERS", COLUMNS),
    ("change_column_type", SAME, "Orders",
     replaced("code", pa.field("code", pa.binary(), nullable=False))),
    ("set_not_null", SAME, "Orders",
     replaced("customer", pa.field("customer", pa.string(), nullable=False))),
    ("drop_not_null", SAME, "Orders", replaced("code", pa.field("code", pa.string()))),
    ("add_field", SAME, "Orders", of_detail(X, Y, ("extra", pa.int32()))),
    ("add_field", {"column_schema": ipc(("X", pa.int8())), "if_field_not_exists": True},
     "Orders", COLUMNS),
    ("remove_field", {"column_path": ["DETAIL", "X"]}, "Orders", of_detail(Y)),
    ("remove_field", {"column_path": ["detail", "no"], "if_column_exists": True}, "Orders",
     COLUMNS),
    ("rename_field", SAME, "Orders", of_detail(("Z", pa.int32()), Y)),
    ("add_constraint", SAME, "Orders", COLUMNS),
    ("flight_info", SAME, "Orders", COLUMNS),
]  # fmt: skip


@pytest.mark.parametrize(
    ("action", "changes", "name", "columns"), ANSWERS, ids=lambda value: str(value)[:40]
)
def test_answer_is_the_flight_info_of_the_table_as_it_then_is(own, action, changes, name, columns):
    header = ("airport-catalog", "memory")
    found, schema = table_of(own.action(action, body_of(action, changes), header))
    assert found == name
    assert schema.equals(columns), schema
    again = {"descriptor": descriptor("sales", name.upper()).SerializeToString()}
    assert table_of(own.action("flight_info", again, header)) == (name, schema)


@pytest.mark.parametrize("action", [action for action in VALID if action in ALTER])
def test_missing_table_that_may_be_missing_is_answered_by_nothing(own, action):
    for missing in ({"name": "nope"}, {"schema": "nope"}):
        assert own.action(action, body_of(action, {"ignore_not_found": True, **missing})) == []


@pytest.mark.parametrize(
    ("action", "names"),
    [
        ("drop_table", {"name": "nope"}),
        ("drop_table", {"schema_name": "nope"}),
        ("drop_table", {"schema_name": "SALES", "name": "ORDERS"}),
        ("drop_schema", {"name": "nope"}),
        ("drop_schema", {"name": "EMPTY"}),
        ("drop_schema", {"name": "", "schema_name": "empty"}),
    ],
)
def test_drop_answers_nothing(own, action, names):
    assert own.action(action, body_of(action, {"ignore_not_found": True, **names})) == []


def listed(raw: Raw) -> dict[str, dict[str, Any]]:
    size, frame = raw.answer("list_schemas", {"catalog_name": "memory"})
    listing = msgpack.unpackb(pa.decompress(frame, size, "zstd", asbytes=True))
    return {schema["name"]: schema for schema in listing["schemas"]}


def test_create_schema_answers_contents_with_their_hash(own):
    request = body_of("create_schema", {"comment": "What we sell", "tags": {"owner": "ada"}})
    (body,) = own.action("create_schema", request)
    contents = msgpack.unpackb(body)
    assert contents.keys() == {"sha256", "url", "serialized"}
    assert contents["url"] is None
    assert contents["sha256"] == hashlib.sha256(contents["serialized"]).hexdigest()
    size, frame = msgpack.unpackb(contents["serialized"])
    assert msgpack.unpackb(pa.decompress(frame, size, "zstd", asbytes=True)) == []
    entry = listed(own)["New"]
    assert (entry["description"], entry["tags"]) == ("What we sell", {"owner": "ada"})
    assert entry["contents"] == contents


def test_cascade_drops_the_constraint_with_its_column(own):
    own.action("remove_column", body_of("remove_column", {"removed_column": "id", "cascade": True}))
    (body,) = own.action(
        "add_column", body_of("add_column", {"column_schema": ipc(("id", pa.int8()))})
    )
    columns = pa.ipc.read_schema(pa.py_buffer(FlightInfo.FromString(body).schema))
    assert columns.field("id").nullable
    assert msgpack.unpackb(columns.metadata[b"check_constraints"]) == {
        "constraints": ["(amount >= 0)"]
    }


def test_replaced_table_is_empty_and_an_ignored_one_keeps_its_rows(own):
    header = ("airport-catalog", "memory")
    for on_conflict, rows in (("ignore", ORDERS), ("replace", [])):
        request = body_of("create_table", {"table_name": "Orders", "on_conflict": on_conflict})
        own.action("create_table", request)
        (answer,) = own.scan(("sales", "Orders"), header)
        assert [{k: v for k, v in row.items() if k != "rowid"} for row in answer.rows] == rows


def test_of_many_that_create_one_table_at_once_one_succeeds(own):
    def create(_: int) -> str:
        try:
            return table_of(own.action("create_table", VALID["create_table"]))[0]
        except grpc.RpcError as error:
            return error.code().name

    with ThreadPoolExecutor(8) as pool:
        outcomes = sorted(pool.map(create, range(8)))
    assert outcomes == ["ALREADY_EXISTS"] * 7 + ["New"]


@dataclass(frozen=True)
class Failing:
    """Be a catalog, its schema and its table in one; the scan fails after the first batch."""

    error: Exception

    def list_schemas(self) -> list["Failing"]:
        return [self]

    def load_schema(self, name: str) -> "Failing":
        return self

    def version(self) -> CatalogVersion:
        return CatalogVersion(1)

    def list_tables(self) -> list["Failing"]:
        return [self]

    def load_table(self, name: str) -> "Failing":
        return self

    def info(self) -> Any:  # of the schema too: it needs no more than the name
        return TableInfo("t", pa.schema([("n", pa.int64())]))

    def scan(self, request: Scan) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": [1]})
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (RuntimeError("secret detail"), INTERNAL, "internal error"),
        (Conflict("table 't' was compacted; try again"), grpc.StatusCode.ABORTED, "try again"),
    ],
)
def test_error_in_the_middle_of_a_scan_has_its_code(error, code, word):
    with Server({"memory": Failing(error)}, port=0) as server:
        server.start()
        with Raw(server.location) as caller, pytest.raises(grpc.RpcError) as refused:
            caller.scan(("s", "t"))
    assert (refused.value.code(), word in said(refused)) == (code, True)
    assert "secret detail" not in said(refused)
