"""Build requests of every kind, and mutate their bits, values and messages."""

import base64
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
from google.protobuf.message import DecodeError

from jetbridge.wire import flight_pb2 as pb
from jetbridge.wire.flight_data import encode_batch, encode_schema

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "airport"
STREAMING = frozenset({"DoExchange", "DoPut", "Handshake"})
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Request:
    method: str
    headers: Headers
    messages: tuple[bytes, ...]


def recorded() -> Iterator[Request]:
    """Return the recorded requests in the order in which the client sent them."""
    for file in sorted(VECTORS.glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in sorted(lines, key=lambda each: each["n"]):
            if "method" in line:
                yield _request(line)


def _request(line: dict[str, Any]) -> Request:
    sent = line.get("request") or [
        text for side, text in line["messages"] if side == "client" and text != "half-close"
    ]
    headers = tuple((key, value) for key, value in line["headers"] if key != "authorization")
    return Request(line["method"], headers, tuple(base64.b64decode(each) for each in sent))


def action(name: str, /, **fields: Any) -> Request:
    body = msgpack.packb(fields, use_bin_type=False)
    message = pb.Action(type=name, body=body).SerializeToString()
    return Request("DoAction", _headers(("airport-action-name", name)), (message,))


def _headers(*more: tuple[str, str]) -> Headers:
    return (("airport-user-agent", "airport/20250723"), ("airport-catalog", "cat"), *more)


def _schema(*fields: pa.Field) -> bytes:
    data: bytes = pa.schema(fields).serialize().to_pybytes()
    return data


MADE = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("s", pa.string()),
        pa.field("d", pa.dictionary(pa.int8(), pa.string())),
        pa.field("l", pa.list_(pa.int32())),
        pa.field("r", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        pa.field("n", pa.decimal128(10, 2)),
    ]
)
PATH = pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=["made", "t"])


def preparation() -> list[Request]:
    """Return requests that create the objects of the hand-made requests."""
    table = {"schema_name": "made", "arrow_schema": MADE.serialize().to_pybytes()}
    return [
        action("create_schema", catalog_name="cat", schema="made", comment=None, tags={}),
        action("create_table", catalog_name="cat", table_name="t", on_conflict="ignore", **table),
        exchange("insert", made_rows()),
    ]


def made_rows() -> pa.RecordBatch:
    rows = [
        {"id": i, "s": f"text {i}", "d": "ab"[i % 2], "l": [i] * (i % 3), "r": {"x": i, "y": "y"}}
        for i in range(20)
    ]
    sent = pa.schema([f if f.name != "d" else pa.field("d", pa.string()) for f in MADE])
    return pa.RecordBatch.from_pylist(rows, sent)


def exchange(operation: str, *batches: pa.RecordBatch, returning: bool = True) -> Request:
    opening = pb.FlightData(flight_descriptor=PATH).SerializeToString()
    headers = _headers(
        ("airport-operation", operation), ("return-chunks", "1" if returning else "0")
    )
    first = opening + encode_schema(batches[0].schema)
    return Request("DoExchange", headers, (first, *(encode_batch(each) for each in batches)))


def _alterations() -> Iterator[Request]:
    where = {"catalog": "cat", "schema": "made", "name": "t", "ignore_not_found": False}
    yield action("add_column", **where, column_schema=_schema(pa.field("z", pa.int8())))
    yield action("remove_column", **where, removed_column="z", if_column_exists=True, cascade=False)
    yield action("rename_column", **where, old_name="s", new_name="s")
    yield action("set_default", **where, column_name="s", expression="'a' || 'b'")
    changed = _schema(pa.field("id", pa.int64()))
    yield action("change_column_type", **where, column_schema=changed, expression="id + 1")
    yield action("set_not_null", **where, column_name="id")
    yield action("drop_not_null", **where, column_name="id")
    yield action("add_constraint", **where, constraint="CHECK (id >= 0 OR length(s) > 2)")
    yield action("add_constraint", **where, constraint="UNIQUE(id, s)")
    field = _schema(pa.field("w", pa.float32()))
    yield action("add_field", **where, column_path=["r"], column_schema=field)
    yield action("remove_field", **where, column_path=["r", "w"], if_column_exists=True)
    yield action("rename_field", **where, column_path=["r", "x"], new_name="x")


def _scans() -> Iterator[Request]:
    descriptor = PATH.SerializeToString()
    filters = next(
        text for text in _recorded_filters() if "COMPARE" in text or "CONJUNCTION" in text
    )
    for text in ("", filters):
        parameters = {"json_filters": text, "column_ids": [0, 1, 2**64 - 1], "at_unit": ""}
        yield action("endpoints", descriptor=descriptor, parameters=parameters)
    yield action("flight_info", descriptor=descriptor, at_unit="VERSION", at_value="1")
    yield action("flight_info", descriptor=descriptor, at_unit="TIMESTAMP", at_value="2030-01-01")
    for method in ("GetFlightInfo", "GetSchema", "PollFlightInfo"):
        yield Request(method, _headers(), (descriptor,))


def _recorded_filters() -> Iterator[str]:
    for request in recorded():
        if ("airport-action-name", "endpoints") in request.headers:
            body = msgpack.unpackb(
                pb.Action.FromString(request.messages[0]).body, raw=False, unicode_errors="replace"
            )
            yield body["parameters"]["json_filters"]


def hand_made() -> list[Request]:
    rowids = pa.record_batch({"rowid": pa.array([0, 1], pa.int64())})
    change = pa.record_batch({"s": ["new", None], "rowid": pa.array([2, 3], pa.int64())})
    return [
        *_alterations(),
        *_scans(),
        exchange("insert", made_rows(), made_rows()),
        exchange("insert", made_rows(), returning=False),
        exchange("update", change),
        exchange("delete", rowids, returning=False),
        action("list_schemas", catalog_name="cat"),
        action("drop_table", catalog_name="cat", schema_name="made", name="no", type="table"),
        Request("ListFlights", _headers(), (pb.Criteria(expression=b"x").SerializeToString(),)),
        Request("ListActions", _headers(), (b"",)),
        Request("Handshake", _headers(), (pb.HandshakeRequest(payload=b"t").SerializeToString(),)),
        Request("DoPut", _headers(), (encode_schema(MADE),)),
        Request("DoGet", _headers(), (pb.Ticket(ticket=b"x" * 40).SerializeToString(),)),
    ]


def tickets(endpoints: bytes) -> list[Request]:
    """Return DoGet requests for the tickets that the action `endpoints` returned."""
    found = [pb.FlightEndpoint.FromString(each) for each in msgpack.unpackb(endpoints, raw=True)]
    return [Request("DoGet", _headers(), (each.ticket.SerializeToString(),)) for each in found]


# Mutations of bytes.


def _flip(rng: random.Random, data: bytes, _other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(rng: random.Random, data: bytes, _other: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _repeat(rng: random.Random, data: bytes, _other: bytes) -> bytes:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.randint(1, 64)]
    return data[:start] + piece * rng.randint(2, 20) + data[start:]


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other) + 1) :]


def _noise(rng: random.Random, data: bytes, _other: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + rng.randbytes(rng.randint(1, 16)) + data[start + rng.randint(0, 16) :]


def _extreme(rng: random.Random, data: bytes, _other: bytes) -> bytes:
    """Return a length or an offset that is far too large, or negative."""
    start = rng.randrange(len(data))
    value = rng.choice([b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0" * 4, b"\xff" * 8])
    return data[:start] + value + data[start + len(value) :]


BYTES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    _flip,
    _truncate,
    _repeat,
    _splice,
    _noise,
    _extreme,
)

STRANGE_TEXTS = (
    "",
    "x" * 5000,
    "né\u0000 ☃",
    "'; DROP TABLE t; --",
    "nope",
    "id",
    "rowid",
    "1/0",
    "(SELECT 1)",
    "read_text('/etc/passwd')",
    "CHECK (id > ANY (SELECT 1))",
    "CHECK (length(s) / 0 > 1)",
    "UNIQUE(nope)",
    "PRIMARY KEY (id, id)",
    "CAST('a' AS INTEGER)",
    "repeat('x', 1000000)",
    "2024-13-45",
    "VERSION",
    "replace",
)
STRANGE_NUMBERS = (-1, 0, 1, 2**31, 2**63, 2**64 - 1, -(2**63), 1e300, float("nan"))
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**63,
    -(2**63),
    1e300,
    "",
    "x" * 5000,
    "né\u0000 ☃",
    "'; DROP TABLE t; --",
    b"\xff\xfe\x00",
    [],
    {},
    [[[[]]]],
    {"a": {"b": None}},
    "nope",
    float("nan"),
    ["id", "id"],
)


def _other_value(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """Return the same structure with one value replaced, removed or doubled."""
    for kind, change in CHANGES:
        if isinstance(value, kind) and value and depth < 40 and rng.random() < 0.85:
            return change(rng, value, depth + 1)
    if isinstance(value, bool) or rng.random() < 0.3:
        return rng.choice([*STRANGE, not value])
    return rng.choice(STRANGE_NUMBERS if isinstance(value, int | float) else STRANGE_TEXTS)


def _other_map(rng: random.Random, value: dict, depth: int) -> Any:
    key = rng.choice(list(value))
    if rng.random() < 0.08:
        return {k: v for k, v in value.items() if k != key}
    return {**value, key: _other_value(rng, value[key], depth)}


def _other_list(rng: random.Random, value: list, depth: int) -> Any:
    at = rng.randrange(len(value))
    if rng.random() < 0.15:
        return value[:at] + value[at:] * 2
    return [*value[:at], _other_value(rng, value[at], depth), *value[at + 1 :]]


def _other_text(rng: random.Random, value: str, depth: int) -> Any:
    if value.startswith('{"'):
        return json.dumps(_other_value(rng, _loaded(value), depth), default=repr)
    at = rng.randrange(len(value))
    return rng.choice(
        [rng.choice(STRANGE_TEXTS), value[:at] + rng.choice("'\"();\\ éx0") + value[at:]]
    )


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.partition(":")


def _other_bytes(rng: random.Random, value: bytes, _depth: int) -> Any:
    return rng.choice(BYTES)(rng, value, value)


CHANGES: tuple[tuple[type, Callable[[random.Random, Any, int], Any]], ...] = (
    (dict, _other_map),
    (list, _other_list),
    (str, _other_text),
    (bytes, _other_bytes),
)


def _readable_body(message: bytes) -> dict | None:
    """Decode a body; return None if an earlier mutation has broken it."""
    try:
        body = msgpack.unpackb(
            pb.Action.FromString(message).body, raw=False, unicode_errors="surrogateescape"
        )
    except (DecodeError, ValueError, TypeError, msgpack.UnpackException):
        return None
    return body if isinstance(body, dict) else None


def _other_body(rng: random.Random, message: bytes, body: dict) -> bytes:
    body = {key: _as_sent(value) for key, value in body.items()}
    changed = msgpack.packb(
        _other_value(rng, body), use_bin_type=rng.random() < 0.5, unicode_errors="surrogateescape"
    )
    asked = pb.Action.FromString(message)
    return pb.Action(type=asked.type, body=changed).SerializeToString()


def _as_sent(value: Any) -> Any:
    """Convert binary in a str back to bytes."""
    if isinstance(value, str) and not value.isprintable():
        return value.encode("utf-8", "surrogateescape")
    return value


def _other_headers(rng: random.Random, headers: Headers) -> Headers:
    at = rng.randrange(len(headers))
    key, value = headers[at]
    values = ["", "1", "x" * 1000, "insert", "update", "delete", value[::-1], "%00", "-1"]
    changed = rng.choice(values)
    more = rng.choice([(), ((key, changed),), (("airport-transaction-id", changed),)])
    return (*headers[:at], *rng.choice([(), ((key, changed),)]), *headers[at + 1 :], *more)


def _inner(rng: random.Random, method: str, message: bytes, other: bytes) -> bytes:
    """Mutate what a message contains, but not the message itself."""
    kind: Any = {"DoAction": pb.Action, "DoExchange": pb.FlightData, "DoGet": pb.Ticket}.get(
        method, pb.FlightDescriptor
    )
    try:
        read = kind.FromString(message)
    except (DecodeError, ValueError):
        return message
    names = [f.name for f, v in read.ListFields() if isinstance(v, bytes) and v]
    if not names:
        return message
    name = rng.choice(names)
    setattr(read, name, rng.choice(BYTES)(rng, getattr(read, name), other))
    return read.SerializeToString()  # type: ignore[no-any-return]


def mutate(rng: random.Random, request: Request, others: list[Request]) -> Request:
    draw = rng.random()
    if draw < 0.06:
        return replace(request, headers=_other_headers(rng, request.headers))
    if draw < 0.12 and request.method in STREAMING:
        messages = list(request.messages)
        rng.shuffle(messages)
        return replace(request, messages=tuple(messages * rng.randint(0, 2)))
    if draw < 0.14:
        return replace(request, method=rng.choice([*STREAMING, "DoGet", "DoAction", "GetSchema"]))
    at = rng.randrange(len(request.messages))
    message = request.messages[at]
    other = rng.choice(rng.choice(others).messages)
    body = _readable_body(message) if request.method == "DoAction" and draw < 0.7 else None
    if body:
        changed = _other_body(rng, message, body)
    elif draw < 0.9:
        changed = _inner(rng, request.method, message, other)
    else:
        changed = rng.choice(BYTES)(rng, message or b"\0", other)
    return replace(request, messages=(*request.messages[:at], changed, *request.messages[at + 1 :]))
