"""Who may call what: tokens, allow-lists, TLS, and what the log must never hold."""

import base64
import logging
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from pyarrow import flight

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.client import connect
from jetbridge.errors import PermissionDenied, Unauthenticated, Unavailable
from jetbridge.service import Server, Token
from jetbridge.wire import flight_pb2 as pb
from tests.helpers.raw import Raw, descriptor, opening, said

ADA, BOB, WRONG = (
    "ada-token-of-24-letters.",
    "bob-token-of-24-letters.",
    "wrong-token-of-26-letters.",
)
TOKENS = (Token("ada", ADA), Token("bob", BOB, frozenset({"Other"})))
NUMBER = pa.schema([("n", pa.int64())])
DENIED = grpc.StatusCode.PERMISSION_DENIED
UNKNOWN_CALLER = grpc.StatusCode.UNAUTHENTICATED
FLIGHT_SERVICE = "arrow.flight.protocol.FlightService"


def filled() -> MemoryCatalog:
    catalog = MemoryCatalog()
    with Server({"c": catalog}, port=0) as server:
        server.start()
        with connect(server.location, "c") as client:
            client.create_schema("s")
            client.create_table("s", "t", NUMBER)
            client.insert("s", "t", pa.table({"n": pa.array([1], pa.int64())}))
    return catalog


@pytest.fixture(scope="module")
def secured() -> Iterator[Server]:
    with Server({"memory": filled(), "other": filled()}, port=0, tokens=TOKENS) as running:
        running.start()
        yield running


def bearer(token: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {token}")


def of(catalog: str) -> tuple[str, str]:
    return ("airport-catalog", catalog)


def ticket(secured: Server, catalog: str) -> pb.Ticket:
    with Raw(secured.location, bearer(ADA), of(catalog)) as caller:
        return caller.endpoints(("s", "t"))[0].ticket


# Every kind of call, for one catalog.
CALLS: dict[str, Callable[[Raw, Server, str], Any]] = {
    "DoAction": lambda raw, _, name: raw.action("catalog_version", {"catalog_name": name}),
    "DoAction by header": lambda raw, _, name: raw.action("catalog_version", {}, of(name)),
    "DDL": lambda raw, _, name: raw.action(
        "drop_schema", {"catalog_name": name, "name": "none", "ignore_not_found": True}
    ),
    "endpoints": lambda raw, _, name: raw.endpoints(("s", "t"), of(name)),
    "DoGet": lambda raw, server, name: raw.get(ticket(server, name)),
    "DoExchange": lambda raw, _, name: raw.exchange("insert", ("s", "t"), NUMBER, (), of(name)),
    "GetFlightInfo": lambda raw, _, name: raw.single(
        "GetFlightInfo", descriptor("s", "t"), pb.FlightInfo, of(name)
    ),
    "GetSchema": lambda raw, _, name: raw.single(
        "GetSchema", descriptor("s", "t"), pb.SchemaResult, of(name)
    ),
    "ListFlights": lambda raw, _, name: raw.stream(
        "ListFlights",
        pb.Criteria(),
        pb.FlightInfo,
        ("airport-list-flights-filter-catalog", name),
        ("airport-list-flights-filter-schema", "s"),
    ),
}
OF_NO_CATALOG: dict[str, Callable[[Raw, Server, str], Any]] = {
    "ListActions": lambda raw, _, name: raw.stream("ListActions", pb.Empty(), pb.ActionType),
    "DoPut": lambda raw, _, name: list(raw.both_ways("DoPut", [opening(("s", "t"), NUMBER)])),
}


@pytest.mark.parametrize("call", [*CALLS, *OF_NO_CATALOG])
@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ((), ("CREATE SECRET", "SCOPE")),
        ((bearer(WRONG),), ("does not know the bearer token",)),
        ((bearer(ADA[:-1]),), ("does not know the bearer token",)),
        ((bearer(""),), ("required",)),
        ((("authorization", ADA),), ("required",)),
        ((("authorization", f"Token {ADA}"),), ("Bearer",)),
    ],
)
def test_call_without_a_known_token_is_refused(secured, call, headers, words):
    run = {**CALLS, **OF_NO_CATALOG}[call]
    with Raw(secured.location, *headers) as caller, pytest.raises(grpc.RpcError) as refused:
        run(caller, secured, "memory")
    assert refused.value.code() is UNKNOWN_CALLER
    assert [word for word in words if word not in said(refused)] == []
    assert not [token for token in (ADA, BOB, WRONG) if token in said(refused)]


@pytest.mark.parametrize("call", CALLS)
def test_token_without_a_list_opens_every_catalog(secured, call):
    with Raw(secured.location, bearer(ADA)) as caller:
        for name in ("memory", "other"):
            CALLS[call](caller, secured, name)


# A ticket holds its own catalog.
FORBIDDEN = [
    (call, name)
    for call in CALLS
    for name in ("memory", "MEMORY", "no-such-catalog")
    if not (call == "DoGet" and name != "memory")
]


@pytest.mark.parametrize(("call", "name"), FORBIDDEN)
def test_token_with_a_list_opens_only_what_is_on_it(secured, call, name):
    with Raw(secured.location, bearer(BOB)) as caller:
        CALLS[call](caller, secured, "other")
        CALLS[call](caller, secured, "OTHER")
        with pytest.raises(grpc.RpcError) as refused:
            CALLS[call](caller, secured, name)
    assert refused.value.code() is DENIED
    message = said(refused)
    assert [word for word in ("bob", name, "other") if word not in message] == []


@pytest.mark.parametrize("call", [call for call in CALLS if call != "DoGet"])
def test_without_a_catalog_the_first_on_the_list_is_meant(secured, call):
    with Raw(secured.location, bearer(BOB)) as caller:
        CALLS[call](caller, secured, "")


def test_listing_of_everything_holds_only_what_the_token_may_see(secured):
    found = {}
    for token in (ADA, BOB):
        with Raw(secured.location, bearer(token)) as caller:
            flights = caller.stream("ListFlights", pb.Criteria(), pb.FlightInfo)
        found[token] = [b"memory" in f.app_metadata for f in flights]
    assert found == {ADA: [True, False], BOB: [False]}


def test_transaction_of_one_token_is_nothing_to_another():
    header = ("airport-transaction-id", "same")
    with Server({"other": filled()}, port=0, tokens=TOKENS) as server:
        server.start()
        with (
            Raw(server.location, bearer(ADA), header) as ada,
            Raw(server.location, bearer(BOB), header) as bob,
        ):
            assert [row["n"] for answer in ada.scan(("s", "t")) for row in answer.rows] == [1]
            with connect(server.location, "other", token=BOB) as client:
                client.insert("s", "t", pa.table({"n": pa.array([2], pa.int64())}))
            assert [row["n"] for answer in ada.scan(("s", "t")) for row in answer.rows] == [1]
            assert [row["n"] for answer in bob.scan(("s", "t")) for row in answer.rows] == [1, 2]


def test_scheme_is_matched_without_regard_to_case(secured):
    with Raw(secured.location, ("authorization", f"bearer {ADA}")) as caller:
        caller.action("catalog_version", {"catalog_name": "memory"})


def test_our_client_says_what_was_missing(secured):
    with connect(secured.location, "memory") as nobody, pytest.raises(Unauthenticated):
        nobody.list_schemas()
    with connect(secured.location, "memory", token=BOB) as bob, pytest.raises(PermissionDenied):
        bob.read("s", "t")
    with connect(secured.location, "other", token=BOB) as bob:
        assert bob.read("s", "t").to_pylist() == [{"n": 1}]


# --- handshake


def basic(name: str, token: str) -> tuple[str, str]:
    return ("authorization", "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode())


@pytest.mark.parametrize("header", [basic("ada", ADA), basic("", ADA), bearer(ADA)])
def test_handshake_answers_the_bearer_token(secured, header):
    with Raw(secured.location, header) as caller:
        call = caller.both_ways("Handshake", [pb.HandshakeRequest().SerializeToString()])
        payload = b"".join(pb.HandshakeResponse.FromString(answer).payload for answer in call)
        assert dict(call.initial_metadata())["authorization"] == f"Bearer {ADA}"
    assert payload == ADA.encode()


@pytest.mark.parametrize(
    "header", [basic("ada", WRONG), ("authorization", "Basic ???"), bearer(WRONG), ("x", "y")]
)
def test_handshake_with_a_wrong_token_is_refused(secured, header):
    with Raw(secured.location, header) as caller, pytest.raises(grpc.RpcError) as refused:
        list(caller.both_ways("Handshake", [pb.HandshakeRequest().SerializeToString()]))
    assert refused.value.code() is UNKNOWN_CALLER
    assert WRONG not in said(refused)


def test_pyarrow_gets_its_token_by_basic_authentication(secured):
    with flight.connect(secured.location) as caller:
        header = caller.authenticate_basic_token(b"ada", ADA.encode())
        assert header == (b"authorization", f"Bearer {ADA}".encode())
        options = flight.FlightCallOptions(headers=[header, (b"airport-catalog", b"memory")])
        info = caller.get_flight_info(flight.FlightDescriptor.for_path("s", "t"), options)
        with pytest.raises(flight.FlightUnauthenticatedError):
            caller.authenticate_basic_token(b"ada", WRONG.encode())
    assert info.schema.names == ["n", "rowid"]


def test_handshake_of_our_client(secured):
    with connect(secured.location, "memory", token=ADA) as client:
        assert client.handshake() == ADA.encode()
    with connect(secured.location, "memory", token=WRONG) as client, pytest.raises(Unauthenticated):
        client.handshake()


# --- what is open to all


def test_health_is_open_to_all(secured):
    with Raw(secured.location) as caller:
        check = caller.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        for service in ("", FLIGHT_SERVICE):
            answer = check(health_pb2.HealthCheckRequest(service=service), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_lists_the_service(secured):
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with Raw(secured.location) as caller:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(caller.channel)
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=10)
    names = {service.name for service in answer.list_services_response.service}
    assert names >= {FLIGHT_SERVICE, "grpc.health.v1.Health"}


def test_reflection_describes_the_service(secured):
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=FLIGHT_SERVICE)
    with Raw(secured.location) as caller:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(caller.channel)
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=10)
    (described,) = answer.file_descriptor_response.file_descriptor_proto
    assert b"DoExchange" in described


@pytest.mark.parametrize("messages", [[opening(("s", "t"), NUMBER)], []])
def test_do_put_is_refused_with_a_hint(secured, messages):
    with Raw(secured.location, bearer(ADA)) as caller, pytest.raises(grpc.RpcError) as refused:
        list(caller.both_ways("DoPut", messages))
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "DoExchange" in said(refused)


def test_list_actions_names_and_describes_every_action(secured):
    with connect(secured.location, "memory", token=ADA) as client:
        actions = client.list_actions()
    assert [action.name for action in actions] == sorted(action.name for action in actions)
    names = """create_schema drop_schema create_table drop_table add_column remove_column
        rename_column rename_table set_default change_column_type set_not_null drop_not_null
        add_constraint add_field remove_field rename_field list_schemas catalog_version
        create_transaction endpoints flight_info set_layout table_function_flight_info"""
    assert {action.name for action in actions} == set(names.split())
    assert [action.name for action in actions if len(action.description) < 10] == []


# --- TLS and the address


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[bytes, bytes]:
    """Return certificate and key for localhost, signed by itself."""
    folder: Path = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key", "-out", "cert"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / "cert").read_bytes(), (folder / "key").read_bytes()


def test_tls_server_is_read_by_whoever_trusts_its_certificate(certificate):
    with Server({"memory": filled()}, port=0, tokens=TOKENS, tls=certificate) as server:
        server.start()
        assert server.location.startswith("grpc+tls://127.0.0.1:")
        root = certificate[0]
        with connect(server.location, "memory", token=ADA, tls_root_certs=root) as client:
            assert client.health() == "SERVING"
            assert client.read("s", "t").to_pylist() == [{"n": 1}]
            client.insert("s", "t", pa.table({"n": pa.array([2], pa.int64())}))
        with flight.connect(server.location, tls_root_certs=root) as caller:
            header = caller.authenticate_basic_token(b"ada", ADA.encode())
            assert header == (b"authorization", f"Bearer {ADA}".encode())


def test_tls_server_is_not_reached_without_tls_or_trust(certificate):
    with Server({"memory": filled()}, port=0, tls=certificate) as server:
        server.start()
        plain = server.location.replace("grpc+tls", "grpc")
        for location in (plain, server.location):
            with connect(location, "memory") as client, pytest.raises(Unavailable):
                client.list_schemas()


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "127.0.0.1.example.org", "localhost.org"]
)
def test_host_that_others_reach_is_refused_without_tokens(host):
    with pytest.raises(ValueError, match="tokens") as refused:
        Server({"memory": MemoryCatalog()}, host=host, port=0)
    assert host in str(refused.value)
    Server({"memory": MemoryCatalog()}, host=host, port=0, tokens=TOKENS)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_no_token(host):
    with Server({"memory": filled()}, host=host, port=0) as server:
        server.start()
        with connect(server.location, "memory") as client:
            assert client.read("s", "t").to_pylist() == [{"n": 1}]


# --- the log


def test_log_never_holds_a_token(secured, caplog):
    calls = {**CALLS, **OF_NO_CATALOG}
    headers = [(h,) for t in (ADA, BOB, WRONG) for h in (bearer(t), basic("ada", t))]
    with caplog.at_level(logging.DEBUG):
        for header in headers:
            with Raw(secured.location, *header) as caller:
                for run in calls.values():
                    outcome_of(run, caller, secured)
                outcome_of(lambda raw, *_: list(raw.both_ways("Handshake", [b""])), caller, secured)
    assert any(record.name.startswith("jetbridge") for record in caplog.records)
    everything = caplog.text + "".join(map(repr, (vars(record) for record in caplog.records)))
    secrets = [ADA, BOB, WRONG, *(basic("ada", t)[1].split()[1] for t in (ADA, BOB, WRONG))]
    assert [secret for secret in secrets if secret in everything] == []


def outcome_of(run: Callable[[Raw, Server, str], Any], caller: Raw, server: Server) -> Any:
    try:
        return run(caller, server, "memory")
    except grpc.RpcError as error:
        return error.code()


def test_token_does_not_show_in_its_representation():
    assert ADA not in repr(TOKENS[0])
