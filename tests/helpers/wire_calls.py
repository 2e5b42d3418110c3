"""Flight calls as raw bytes, and their answers as the client would read them."""

import queue
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import msgpack
import pyarrow as pa

from jetbridge.wire import flight_pb2 as pb

FLIGHT = "/arrow.flight.protocol.FlightService/"
Headers = Sequence[tuple[str, str]]


@dataclass
class Answer:
    """Hold `messages` as they came; those of the streams of a scan one after the other."""

    status: str = "OK"
    message: str = ""
    messages: list[bytes] = field(default_factory=list)
    streams: list[list[bytes]] = field(default_factory=list)
    trailers: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Return the body of the first result of an action: the only one the client reads."""
        return pb.Result.FromString(self.messages[0]).body

    def failed(self, error: grpc.RpcError) -> None:
        self.status, self.message = error.code().name, error.details() or ""
        trailers: Any = error.trailing_metadata() or ()
        self.trailers = dict(trailers)


class Wire:
    """Send raw messages on a channel."""

    def __init__(self, location: str) -> None:
        options = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
        self._channel = grpc.insecure_channel(location.removeprefix("grpc://"), options=options)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def call(self, method: str, request: bytes, headers: Headers = ()) -> Answer:
        """Make a call: GetFlightInfo and GetSchema answer one message, all others a stream."""
        answer = Answer()
        try:
            if method in ("GetFlightInfo", "GetSchema"):
                single: Any = self._channel.unary_unary(FLIGHT + method)
                answer.messages.append(single(request, metadata=tuple(headers), timeout=30))
            else:
                stream: Any = self._channel.unary_stream(FLIGHT + method)
                answer.messages.extend(stream(request, metadata=tuple(headers), timeout=30))
        except grpc.RpcError as error:
            answer.failed(error)
        return answer

    def action(self, kind: str, body: Any, headers: Headers = ()) -> Answer:
        """Send an action; `body` is bytes as they are, or a map packed as the client packs it."""
        packed = body if isinstance(body, bytes) else pack(body)
        request = pb.Action(type=kind, body=packed).SerializeToString()
        return self.call("DoAction", request, headers)

    def get(self, tickets: Iterable[bytes], headers: Headers = ()) -> Answer:
        """Return all parts of a scan."""
        whole = Answer()
        for ticket in tickets:
            part = self.call("DoGet", pb.Ticket(ticket=ticket).SerializeToString(), headers)
            whole.streams.append(part.messages)
            whole.messages.extend(part.messages)
            if part.status != "OK":
                whole.status, whole.message = part.status, part.message
                break
        return whole

    def exchange(self, headers: Headers = ()) -> "Exchange":
        return Exchange(self._channel, headers)


class Exchange:
    """Run one DoExchange, message by message."""

    def __init__(self, channel: grpc.Channel, headers: Headers) -> None:
        self._to_send: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        start: Any = channel.stream_stream(FLIGHT + "DoExchange")
        self._call = start(iter(self._to_send.get, None), metadata=tuple(headers), timeout=30)
        self.answer = Answer()

    def send(self, message: bytes) -> None:
        self._to_send.put(message)

    def half_close(self) -> None:
        self._to_send.put(None)

    def read(self) -> bytes | None:
        """Return the next message of the server; None when it sends no more."""
        try:
            message = next(self._call, None)
        except grpc.RpcError as error:
            self.answer.failed(error)
            return None
        if message is not None:
            self.answer.messages.append(message)
        return message

    def rest(self) -> Answer:
        while self.read() is not None:
            pass
        return self.answer


def pack(value: Any) -> bytes:
    """Pack a value as msgpack-c does: every string, binary or not, is a msgpack str."""
    packed: bytes = msgpack.packb(value, use_bin_type=False, unicode_errors="surrogateescape")
    return packed


def unpack(data: bytes) -> Any:
    return _text(msgpack.unpackb(data, raw=True, strict_map_key=False))


def _text(value: Any) -> Any:
    """Return text where bytes are text: str and bin are the same to the client."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value
        case list():
            return [_text(item) for item in value]
        case dict():
            return {_text(key): _text(item) for key, item in value.items()}
    return value


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def read_schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def _encapsulated(header: bytes, body: bytes) -> bytes:
    padded = header + b"\0" * (-len(header) % 8)
    return b"\xff\xff\xff\xff" + len(padded).to_bytes(4, "little") + padded + body


def read_stream(messages: Iterable[bytes]) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """Read FlightData messages by Arrow's own reader; leave out those with metadata alone."""
    parts = [pb.FlightData.FromString(message) for message in messages]
    ipc = b"".join(_encapsulated(p.data_header, p.data_body) for p in parts if p.data_header)
    reader = pa.ipc.open_stream(ipc)
    batches = list(reader)
    for batch in batches:
        batch.validate()  # not in full: TIME '24:00:00' is a value to DuckDB, not to Arrow
    return reader.schema, batches


def read_rows(answer: Answer) -> pa.Table:
    """Return the rows of a scan, all parts together."""
    assert answer.status == "OK", answer.message
    schema, batches = read_stream(answer.streams[0])
    for stream in answer.streams[1:]:
        batches.extend(read_stream(stream)[1])
    return pa.Table.from_batches(batches, schema=schema)


def schema_message(schema: pa.Schema, descriptor: bytes = b"") -> bytes:
    header = schema.serialize().to_pybytes()[8:]
    message = pb.FlightData(data_header=header)
    if descriptor:
        message.flight_descriptor.ParseFromString(descriptor)
    return message.SerializeToString()


def batch_messages(batch: pa.RecordBatch) -> list[bytes]:
    """Return the batch, before it the dictionaries it needs, each as one FlightData."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    next(reader)  # the schema
    return [
        pb.FlightData(
            data_header=message.metadata.to_pybytes(),
            data_body=message.body.to_pybytes() if message.body else b"",
        ).SerializeToString()
        for message in reader
    ]


def decompressed(body: bytes) -> bytes:
    length, frame = msgpack.unpackb(body, raw=True)
    data: bytes = pa.decompress(frame, decompressed_size=length, codec="zstd", asbytes=True)
    assert len(data) == length
    return data


def unpack_listing(body: bytes) -> dict[str, Any]:
    """Return the answer to list_schemas; `serialized` contents stay bytes."""
    listing: dict[str, Any] = unpack(decompressed(body))
    return listing


def flights_of(contents: dict[str, Any]) -> list[pb.FlightInfo]:
    serialized = contents["serialized"]
    if serialized is None:
        return []
    flights = msgpack.unpackb(decompressed(as_bytes(serialized)), raw=True)
    return [pb.FlightInfo.FromString(flight) for flight in flights]


def tickets_in(answer: Answer) -> list[bytes]:
    """Return the tickets in the answer to `endpoints`."""
    assert answer.status == "OK", answer.message
    endpoints = msgpack.unpackb(answer.body, raw=True)
    return [pb.FlightEndpoint.FromString(end).ticket.ticket for end in endpoints]
