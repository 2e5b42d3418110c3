"""The client's catalog, DDL and connection, against a running server."""

import subprocess

import grpc
import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CatalogVersion
from jetbridge.client import connect
from jetbridge.client.connection import USER_AGENT
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    DuplicateKey,
    FailedPrecondition,
    NotFound,
    NotSupported,
    PermissionDenied,
    ServerError,
    Unauthenticated,
    Unavailable,
)
from jetbridge.expr import Column, Comparison, Constant
from jetbridge.service import Server, Token

ORDERS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("Customer", pa.string())])
PLACE = pa.struct([("x", pa.int64()), ("y", pa.string())])


class Recorder(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Keep the headers of every call, in order."""

    def __init__(self):
        self.calls = []

    def _pass(self, proceed, details, request):
        self.calls.append((details.method.rpartition("/")[2], dict(details.metadata)))
        return proceed(details, request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _pass

    def take(self):
        """Return what was called: an action's name, or the method."""
        names = [headers.get("airport-action-name", method) for method, headers in self.calls]
        headers = [headers for _, headers in self.calls]
        self.calls.clear()
        return names, headers


@pytest.fixture
def recorder(client):
    recorder = Recorder()
    connection = client._connection
    connection._channel = grpc.intercept_channel(connection._channel, recorder)
    return recorder


@pytest.fixture
def orders(client):
    client.create_schema("s")
    return client.create_table("s", "Orders", ORDERS)


def test_new_server_is_well_and_empty(client):
    assert client.health() == "SERVING"
    assert client.list_schemas() == []
    assert client.handshake() == b""


def test_actions_are_listed_with_a_description(client):
    actions = {action.name: action.description for action in client.list_actions()}
    assert {"create_table", "endpoints", "rename_field"} <= set(actions)
    assert all(actions.values())


def test_schemas_keep_comment_and_tags(client):
    client.create_schema("Sales", "what we sold", {"owner": "é"})
    (sales,) = client.list_schemas()
    assert sales.name == "Sales"
    assert (sales.comment, sales.tags, sales.tables) == ("what we sold", {"owner": "é"}, ())


def test_created_table_is_told_the_same_way_by_every_call(client):
    client.create_schema("s")
    created = client.create_table("s", "t", ORDERS, checks=["id > 0"], primary_key=["id"])
    assert created.checks == ("(id > 0)",)
    assert created.schema.names == ["id", "Customer"]
    assert not created.schema.field("id").nullable
    assert created.row_id == pa.int64()
    assert client.tables("S") == [created]
    assert client.list_flights("s") == [created]
    found = client.table("S", "T")
    assert (found.name, found.announced, found.checks) == ("t", created.announced, created.checks)
    assert client.get_schema("s", "t").equals(created.announced)
    info = client.get_flight_info("s", "t")
    assert pa.ipc.read_schema(pa.py_buffer(info.schema)).equals(created.announced)


def test_keys_of_several_columns_are_enforced(client):
    client.create_schema("s")
    columns = pa.schema([("a", pa.int64()), ("b", pa.int64()), ('odd "name"', pa.int64())])
    client.create_table(
        "s", "t", columns, primary_key=["a", "b"], unique=["b", ["a", 'odd "name"']]
    )
    client.insert("s", "t", pa.table([[1, 1], [1, 2], [5, 6]], schema=columns))
    for row in ([1, 1, 7], [2, 2, 7], [1, 3, 5]):
        with pytest.raises(DuplicateKey):
            client.insert("s", "t", pa.table([[value] for value in row], schema=columns))
    client.insert("s", "t", pa.table([[2], [3], [5]], schema=columns))
    assert client.read("s", "t", ["b"]).to_pydict() == {"b": [1, 2, 3]}


def test_tables_of_an_unknown_schema_are_not_found(client):
    client.create_schema("s")
    with pytest.raises(NotFound, match="nope"):
        client.tables("nope")


def test_names_that_no_header_can_carry_work(client):
    name = "é☃ 100%41/\n"
    client.create_schema(name)
    client.create_table(name, name, ORDERS)
    client.insert(name, name, pa.table({"id": [1], "Customer": ["a"]}))
    assert client.read(name, name).to_pydict() == {"id": [1], "Customer": ["a"]}
    assert [table.name for table in client.tables(name)] == [name]


def test_catalog_version_rises_with_ddl_only(client, orders):
    before = client.catalog_version()
    client.insert("s", "orders", pa.table({"id": [1]}))
    assert client.catalog_version() == before
    client.drop_table("s", "orders")
    assert client.catalog_version() == CatalogVersion(before.number + 1)


def test_drops(client, orders):
    with pytest.raises(FailedPrecondition):
        client.drop_schema("s")
    client.drop_table("s", "ORDERS")
    with pytest.raises(NotFound):
        client.drop_table("s", "orders")
    client.drop_table("s", "orders", ignore_not_found=True)
    client.drop_schema("s")
    client.drop_schema("s", ignore_not_found=True)
    assert client.list_schemas() == []


def test_on_conflict(client, orders):
    client.insert("s", "orders", pa.table({"id": [1]}))
    other = pa.schema([("x", pa.int8())])
    with pytest.raises(AlreadyExists, match="orders"):
        client.create_table("s", "orders", other)
    ignored = client.create_table("s", "orders", other, on_conflict="ignore")
    assert ignored.schema.names == ["id", "Customer"]
    replaced = client.create_table("s", "orders", other, on_conflict="replace")
    assert replaced.schema.names == ["x"]
    assert client.read("s", "orders").num_rows == 0
    with pytest.raises(BadRequest, match="on_conflict"):
        client.create_table("s", "orders", other, on_conflict="maybe")


@pytest.fixture
def altered(client):
    """Return a table with a row, to alter."""
    client.create_schema("s")
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("place", PLACE)])
    client.create_table("s", "t", columns)
    row = {"id": [1], "name": ["2"], "place": [{"x": 1, "y": "a"}]}
    client.insert("s", "t", pa.table(row, schema=columns))
    return client


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (
            lambda c: c.add_column("s", "t", pa.field("n", pa.int8())),
            {"id": 1, "name": "2", "place": {"x": 1, "y": "a"}, "n": None},
        ),
        (lambda c: c.remove_column("s", "t", "place"), {"id": 1, "name": "2"}),
        (
            lambda c: c.rename_column("s", "t", "name", "Label"),
            {"id": 1, "Label": "2", "place": {"x": 1, "y": "a"}},
        ),
        (
            lambda c: c.change_column_type("s", "t", pa.field("name", pa.int32())),
            {"id": 1, "name": 2, "place": {"x": 1, "y": "a"}},
        ),
        (
            lambda c: c.change_column_type("s", "t", pa.field("name", pa.int32()), "id + 41"),
            {"id": 1, "name": 42, "place": {"x": 1, "y": "a"}},
        ),
        (
            lambda c: c.add_field("s", "t", ["place"], pa.field("z", pa.int8())),
            {"id": 1, "name": "2", "place": {"x": 1, "y": "a", "z": None}},
        ),
        (
            lambda c: c.add_field("s", "t", ["place"], pa.field("place", pa.int8())),
            {"id": 1, "name": "2", "place": {"x": 1, "y": "a", "place": None}},
        ),
        (
            lambda c: c.remove_field("s", "t", ["place", "y"]),
            {"id": 1, "name": "2", "place": {"x": 1}},
        ),
        (
            lambda c: c.rename_field("s", "t", ["place", "y"], "why"),
            {"id": 1, "name": "2", "place": {"x": 1, "why": "a"}},
        ),
    ],
)
def test_alteration_answers_the_new_columns_and_keeps_the_row(altered, change, row):
    listing = change(altered)
    assert listing.schema.names == list(row)
    assert altered.read("s", "t").to_pylist() == [row]


def test_rename_table_answers_the_new_name(altered):
    assert altered.rename_table("s", "t", "Other").name == "Other"
    assert altered.read("s", "other").num_rows == 1
    with pytest.raises(NotFound):
        altered.read("s", "t")


def test_constraints_are_altered(altered):
    assert not altered.set_not_null("s", "t", "name").schema.field("name").nullable
    with pytest.raises(BadRequest, match="name"):
        altered.insert("s", "t", pa.table({"id": [2]}))
    assert altered.drop_not_null("s", "t", "name").schema.field("name").nullable
    field = altered.set_default("s", "t", "name", "'none'").schema.field("name")
    assert field.metadata[b"default"] == b"'none'"
    assert altered.add_constraint("s", "t", "CHECK (id < 10)").checks == ("(id < 10)",)
    altered.insert("s", "t", pa.table({"id": [2]}))
    assert altered.read("s", "t", ["name"]).to_pydict() == {"name": ["2", "none"]}
    with pytest.raises(BadRequest):
        altered.insert("s", "t", pa.table({"id": [10]}))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.add_column("s", "t", pa.field("name", pa.int8()), if_not_exists=True),
        lambda c: c.remove_column("s", "t", "nope", if_exists=True),
        lambda c: c.remove_field("s", "t", ["place", "nope"], if_exists=True),
        lambda c: c.add_field("s", "t", ["place"], pa.field("x", pa.int8()), if_not_exists=True),
    ],
)
def test_alteration_with_if_exists_changes_nothing(altered, change):
    assert change(altered).schema.names == ["id", "name", "place"]


def test_raw_action_answers_bytes_and_unknown_ones_are_refused(client):
    assert len(client.action("catalog_version", b"\x80")) == 1
    with pytest.raises(NotSupported, match="no_such_action"):
        client.action("no_such_action")


def test_statement_calls_what_duckdb_calls(client, recorder, orders):
    recorder.take()
    client.read("s", "orders")
    assert recorder.take()[0] == [
        "create_transaction",
        "catalog_version",
        "GetFlightInfo",
        "endpoints",
        "DoGet",
    ]
    client.insert("s", "orders", pa.table({"id": [1]}), returning=True)
    names, headers = recorder.take()
    assert names == ["create_transaction", "catalog_version", "DoExchange"]
    assert headers[2]["airport-operation"] == "insert"
    assert headers[2]["return-chunks"] == "1"


def test_calls_carry_the_headers_of_the_airport_client(client, recorder, orders):
    recorder.take()
    client.read("s", "orders", filters=Comparison("=", Column("id"), Constant("BIGINT", 1)))
    _, headers = recorder.take()
    for each in headers:
        assert each["airport-user-agent"] == USER_AGENT
        assert each["authority"] == client.location
        assert each["airport-catalog"] == "memory"
    assert len({each["airport-client-session-id"] for each in headers}) == 1
    *_, endpoints, get = headers
    for key in ("airport-trace-id", "airport-transaction-id", "airport-flight-path"):
        assert endpoints[key] == get[key]
    assert get["airport-flight-path"] == "s/orders"


def test_transactions_can_be_left_out(server, orders):
    with connect(server.location, "memory", transactions=False) as client:
        recorder = Recorder()
        connection = client._connection
        connection._channel = grpc.intercept_channel(connection._channel, recorder)
        client.read("s", "orders")
        names, headers = recorder.take()
    assert "create_transaction" not in names
    assert all("airport-transaction-id" not in each for each in headers)


def test_token_is_sent_and_errors_tell_who_may_not(catalog):
    tokens = (Token("ann", "secret", frozenset({"memory"})), Token("bob", "other", frozenset()))
    with Server({"memory": catalog}, port=0, tokens=tokens) as server:
        server.start()
        with connect(server.location, "memory", "secret") as client:
            client.create_schema("s")
            assert client.handshake() == b"secret"
        for token, kind in (
            (None, Unauthenticated),
            ("x", Unauthenticated),
            ("other", PermissionDenied),
        ):
            with connect(server.location, "memory", token) as client, pytest.raises(kind):
                client.list_schemas()


def test_unreachable_server_is_unavailable_with_a_hint(server):
    location = server.location
    server.stop(0)
    with connect(location, "memory") as client:
        with pytest.raises(
            Unavailable, match=f"cannot reach {location}.*jetbridge serve"
        ) as caught:
            client.list_schemas()
        assert caught.value.status == "UNAVAILABLE"
        assert client.health() == "UNREACHABLE"


def test_unknown_catalog_is_not_found(server):
    with connect(server.location, "nope") as client, pytest.raises(NotFound, match="memory"):
        client.list_schemas()


def test_tls_with_a_given_root_certificate(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    pems = certificate.read_bytes(), key.read_bytes()
    with Server({"memory": MemoryCatalog()}, port=0, tls=pems) as server:
        server.start()
        assert server.location.startswith("grpc+tls://")
        with connect(server.location, "memory", tls_root_certs=pems[0]) as client:
            assert client.list_schemas() == []
        with connect(server.location, "memory") as client, pytest.raises(Unavailable):
            client.list_schemas()


def test_error_of_the_server_is_internal_without_its_cause(server, client, catalog, monkeypatch):
    def broken():
        raise KeyError("secret detail")

    monkeypatch.setattr(catalog, "listing", broken)
    with pytest.raises(ServerError, match="internal error") as caught:
        client.list_schemas()
    assert caught.value.status == "INTERNAL"
    assert "secret detail" not in str(caught.value)
