"""Every action with every error it can meet: the code, the words, and that nothing happened."""

import importlib.util
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import Client, connect
from jetbridge.errors import Conflict
from jetbridge.service import Server
from jetbridge.wire.flight_pb2 import ActionType, Empty
from tests.integration.code_rows import EXPECTED, INTERNAL, INVALID, READS, ROWS, STATEMENTS, VALID
from tests.integration.code_rows import Row
from tests.integration.raw import Raw

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
    {"id": 1, "customer": "ada", "amount": 1.5, "kind": "k", "code": "c", "detail": None, "lone": None},
    {"id": 2, "customer": "bob", "amount": None, "kind": "k", "code": "c",
     "detail": {"x": 7, "y": "z"}, "lone": {"only": 1}},
]  # fmt: skip


class Raising:
    """A catalog of which every method raises the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _raise(self, *_: object) -> Any:
        raise self._error

    list_schemas = load_schema = version = create_schema = drop_schema = _raise


def fill(client: Client) -> None:
    client.create_schema("sales")
    client.create_schema("empty")
    client.create_table(
        "sales", "Orders", COLUMNS, checks=["(amount >= 0)"], primary_key=["id"]
    )
    client.insert("sales", "Orders", pa.Table.from_pylist(ORDERS, COLUMNS))
    client.create_table("sales", "One", pa.schema([("a", pa.int32())]))


def load_example() -> Any:
    path = Path(__file__).parents[2] / "examples" / "parquet_folder.py"
    spec = importlib.util.spec_from_file_location("parquet_folder", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Iterator[Raw]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "sales").mkdir()
    pq.write_table(pa.Table.from_pylist(ORDERS, COLUMNS), folder / "sales" / "Orders.parquet")
    catalogs = {
        "memory": MemoryCatalog(),
        "files": load_example().ParquetFolder(folder),
        "broken": Raising(RuntimeError("secret detail")),
        "torn": Raising(Conflict("table 'sales.Orders' was changed meanwhile; try again")),
    }
    with Server(catalogs, port=0) as server:
        server.start()
        with connect(server.location, "memory") as client, Raw(server.location) as caller:
            fill(client)
            yield caller


@pytest.fixture
def own(server) -> Iterator[Raw]:
    """For the rows that change something: a server of their own."""
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
    columns = pa.schema([("rowid", pa.int64())] if row.action == "delete" else [("code", pa.string())])
    if row.action == "update":
        columns = columns.append(pa.field("rowid", pa.int64()))
    raw.exchange(row.action, ("sales", "Orders"), columns, (), header)


def state(raw: Raw) -> Any:
    """All that a refused request must leave as it was."""
    listing = raw.answer("list_schemas", {"catalog_name": "memory"})
    rows = [answer.rows for answer in raw.scan(("sales", "Orders"), ("airport-catalog", "memory"))]
    return raw.answer("catalog_version", {"catalog_name": "memory"}), listing[0], rows


FILE_PATH = re.compile(r"(?<![:/\w])/\w+/[\w.]+|\.py\b")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.action}: {row.error}")
def test_refusal_has_its_code_and_names_what_to_do(raw, row):
    before = state(raw)
    with pytest.raises(grpc.RpcError) as refused:
        send(raw, row)
    message = refused.value.details()
    assert (refused.value.code(), message) == (row.code, message)
    assert [word for word in row.words if word not in message] == [], message
    assert len(message.encode()) < 2048
    assert len(message.splitlines()) == 1
    assert "Traceback" not in message
    assert not FILE_PATH.search(message.replace("/etc/passwd", ""))
    assert "secret detail" not in message
    assert state(raw) == before


def test_every_registered_action_is_in_the_matrix_with_the_codes_of_its_contract(raw):
    registered = {a.type for a in raw.stream("ListActions", Empty(), ActionType)}
    assert registered == EXPECTED.keys()
    tried = {action: {row.code for row in ROWS if row.action == action} for action in registered}
    always = {INVALID, INTERNAL}
    assert {a: (EXPECTED[a] | always) - tried[a] for a in registered} == dict.fromkeys(
        registered, set()
    )


@pytest.mark.parametrize("action", sorted(VALID.keys() - {"table_function_flight_info"}))
def test_valid_request_of_the_matrix_succeeds(own, action):
    """Else its refusals might have another reason than the one they were made for."""
    own.action(action, VALID[action], ("airport-catalog", "memory"))


@pytest.mark.parametrize("action", [*VALID.keys() - set(READS), *READS, *STATEMENTS])
def test_log_has_the_detail_under_the_trace_id_that_the_caller_is_told(raw, action, caplog):
    row = next(row for row in ROWS if row.action == action and row.code is INTERNAL)
    with caplog.at_level(logging.ERROR, "jetbridge"), pytest.raises(grpc.RpcError) as refused:
        send(raw, row)
    trace_id = re.search(r"[0-9a-f]{16,}", refused.value.details())
    assert trace_id
    logged = [r for r in caplog.records if trace_id[0] in r.getMessage()]
    assert [str(r.exc_info[1]) for r in logged if r.exc_info] == ["secret detail"]


def test_answer_of_an_error_never_carries_more_than_one_result(raw):
    with pytest.raises(grpc.RpcError) as refused:
        raw.action("create_table", body_of("create_table", {"table_name": "ORDERS"}))
    assert msgpack.packb(refused.value.details())
    assert dict(refused.value.trailing_metadata()).get("grpc-status-details-bin") is None
