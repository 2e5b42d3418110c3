"""The recorded traffic of the real client, sent again.

What the client would have echoed from the answers of this server takes the place of what it
echoed from those recorded: descriptors, tickets and transaction ids. All else is sent as it was.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import pyarrow as pa

from jetbridge.wire import flight_pb2 as pb
from tests.helpers.wire_calls import (
    Answer,
    Exchange,
    Wire,
    as_bytes,
    flights_of,
    pack,
    read_schema,
    tickets_in,
    unpack,
    unpack_listing,
)

VECTORS = Path(__file__).parents[2] / "vectors" / "airport"
NOT_SENT = "NOT SENT"
OMITTED = None


class Name(NamedTuple):
    schema: str
    kind: str
    name: str


class Rpc(NamedTuple):
    n: int
    method: str
    headers: tuple[tuple[str, str], ...]
    request: bytes
    response: tuple[bytes | None, ...]
    messages: tuple[tuple[str, bytes | None], ...]  # of DoExchange; b"" is the half-close
    status: str

    @property
    def action(self) -> str:
        return pb.Action.FromString(self.request).type if self.method == "DoAction" else ""

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = unpack(pb.Action.FromString(self.request).body)
        return body

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")


class Statement(NamedTuple):
    n: int
    sql: str
    rpcs: tuple[Rpc, ...]


def read_statements(name: str) -> list[Statement]:
    lines = [json.loads(line) for line in (VECTORS / name).read_text().splitlines()]
    statements: list[Statement] = []
    for line in sorted(lines, key=lambda line: int(line["n"])):
        if "sql" in line:
            statements.append(Statement(line["n"], line["sql"], ()))
        else:
            last = statements[-1]
            statements[-1] = last._replace(rpcs=(*last.rpcs, _read_rpc(line)))
    return statements


def _read_rpc(line: dict[str, Any]) -> Rpc:
    requests = [_read_bytes(text) for text in line.get("request", [])]
    return Rpc(
        line["n"],
        line["method"],
        tuple((key, value) for key, value in line["headers"]),
        (requests[0] if requests else b"") or b"",
        tuple(_read_bytes(text) for text in line.get("response", [])),
        tuple((who, _read_bytes(text)) for who, text in line.get("messages", [])),
        line["status"],
    )


def _read_bytes(text: str) -> bytes | None:
    if text == "half-close":
        return b""
    return OMITTED if text.startswith("omitted:") else base64.b64decode(text)


def named(descriptor: pb.FlightDescriptor) -> Name:
    """Return the names of a recorded descriptor, which one reference server puts into one part."""
    parts = list(descriptor.path)
    _, schema, kind, name = parts if len(parts) > 1 else parts[0].split("/")
    return Name(schema, kind, name)


def flights_in(rpc: Rpc, messages: Sequence[bytes]) -> Iterator[pb.FlightInfo]:
    """Yield the FlightInfos in an answer, wherever they stand."""
    if rpc.method == "ListFlights":
        for message in messages:
            yield pb.FlightInfo.FromString(message)
    if rpc.method != "DoAction" or not messages:
        return
    body = pb.Result.FromString(messages[0]).body
    if rpc.action == "list_schemas":
        for schema in unpack_listing(body)["schemas"]:
            yield from flights_of(schema["contents"])
    elif rpc.action in FLIGHT_ANSWERS:
        yield pb.FlightInfo.FromString(body)


# The actions that answer one FlightInfo.
FLIGHT_ANSWERS = frozenset(
    (
        *("create_table", "rename_table", "add_column", "remove_column", "rename_column"),
        *("set_default", "set_not_null", "drop_not_null", "change_column_type", "add_constraint"),
        *("add_field", "remove_field", "rename_field"),
        *("flight_info", "table_function_flight_info"),
    )
)


class Replayer:
    """Send recorded statements; `exact_names` keeps descriptors and ids as recorded."""

    def __init__(self, wire: Wire, *, exact_names: bool = False) -> None:
        self._wire, self._exact = wire, exact_names
        self._transaction = ""
        self._tickets: list[bytes] = []
        self._descriptors: dict[Name, bytes] = {}
        self.answers: dict[int, Answer] = {}
        self.asked: dict[int, bytes] = {}  # actions about one descriptor
        self.sent: dict[int, list[bytes]] = {}  # the client's messages of a DoExchange
        self.announced: dict[tuple[Name, str, str], pa.Schema] = {}
        self.scanned: dict[int, tuple[Name, pa.Schema | None]] = {}  # DoGet: the schema announced
        self._scan: tuple[Name, pa.Schema | None] = (Name("", "", ""), None)

    def play(self, rpcs: Sequence[Rpc]) -> None:
        """Send a statement; a DoExchange stays open while what follows it runs."""
        if not rpcs:
            return
        rpc, rest = rpcs[0], rpcs[1:]
        if rpc.method == "DoExchange":
            exchange = self._wire.exchange(self._headers(rpc))
            opened = self._open(exchange, rpc)
            self.play(rest)
            self._finish(exchange, rpc, opened)
            return
        self._single(rpc)
        self.play(rest)

    def _single(self, rpc: Rpc) -> None:
        if rpc.method == "DoGet":
            self.scanned[rpc.n] = self._scan
            answer = self._wire.get(self._tickets, self._headers(rpc))
            if not self._tickets:
                answer.status = NOT_SENT
        else:
            answer = self._wire.call(rpc.method, self._request(rpc), self._headers(rpc))
        self.answers[rpc.n] = answer
        self._learn(rpc, answer)

    def _open(self, exchange: Exchange, rpc: Rpc) -> int:
        """Send what the client sends before it waits for the server's schema."""
        self.sent[rpc.n] = []
        for at, (who, message) in enumerate(rpc.messages):
            if who == "server":
                exchange.read()
                return at + 1
            self._send(exchange, rpc, message)
        return len(rpc.messages)

    def _finish(self, exchange: Exchange, rpc: Rpc, opened: int) -> None:
        for who, message in rpc.messages[opened:]:
            if who == "server":
                exchange.read()
            else:
                self._send(exchange, rpc, message)
        if rpc.messages[-1] != ("client", b"") and ("client", b"") not in rpc.messages:
            exchange.half_close()  # the reference server failed before the client could
        self.answers[rpc.n] = exchange.rest()

    def _send(self, exchange: Exchange, rpc: Rpc, message: bytes | None) -> None:
        assert message is not None, f"request {rpc.n} was recorded without its body"
        if message == b"":
            exchange.half_close()
            return
        data = pb.FlightData.FromString(message)
        if data.HasField("flight_descriptor"):
            data.flight_descriptor.ParseFromString(self._descriptor(data.flight_descriptor))
            message = data.SerializeToString()
        self.sent[rpc.n].append(message)
        exchange.send(message)

    def _headers(self, rpc: Rpc) -> list[tuple[str, str]]:
        if self._exact:
            return list(rpc.headers)
        return [(key, self._header(key, value)) for key, value in rpc.headers]

    def _header(self, key: str, value: str) -> str:
        if key == "airport-transaction-id":
            return self._transaction
        if key == "airport-flight-path":
            descriptor = self._descriptor(pb.FlightDescriptor(path=value.split("/")))
            return "/".join(pb.FlightDescriptor.FromString(descriptor).path)
        return value

    def _descriptor(self, recorded: pb.FlightDescriptor) -> bytes:
        if self._exact:
            return recorded.SerializeToString()
        return self._descriptors[named(recorded)]

    def _request(self, rpc: Rpc) -> bytes:
        if rpc.action not in ("endpoints", "flight_info", "table_function_flight_info"):
            return rpc.request
        action = pb.Action.FromString(rpc.request)
        body = msgpack.unpackb(action.body, raw=True)
        recorded = pb.FlightDescriptor.FromString(body[b"descriptor"])
        body[b"descriptor"] = self.asked[rpc.n] = self._descriptor(recorded)
        return pb.Action(type=action.type, body=pack(body)).SerializeToString()

    def _learn(self, rpc: Rpc, answer: Answer) -> None:
        """Keep what the client keeps of an answer to send it back later."""
        if rpc.action == "endpoints":
            self._learn_endpoints(rpc, answer)
        if answer.status != "OK":
            return
        if rpc.action == "create_transaction":
            self._transaction = unpack(answer.body)["identifier"]
        for flight in flights_in(rpc, answer.messages):
            self._learn_flight(rpc, flight)

    def _learn_endpoints(self, rpc: Rpc, answer: Answer) -> None:
        self._tickets = []
        asked = rpc.body
        recorded = pb.FlightDescriptor.FromString(as_bytes(asked["descriptor"]))
        point = (asked["parameters"]["at_unit"], asked["parameters"]["at_value"])
        self._scan = (named(recorded), self.announced.get((named(recorded), *point)))
        if answer.status == "OK":
            self._tickets = tickets_in(answer)

    def _learn_flight(self, rpc: Rpc, flight: pb.FlightInfo) -> None:
        about = unpack(flight.app_metadata)
        name = Name(about["schema"], about["type"], about["name"])
        point = ("", "")
        if rpc.action == "flight_info":
            point = (rpc.body["at_unit"], rpc.body["at_value"])
        self.announced[(name, *point)] = read_schema(flight.schema)
        if rpc.action != "flight_info":
            self._descriptors[name] = flight.flight_descriptor.SerializeToString()
