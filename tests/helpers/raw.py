"""Calls as plain gRPC: what our client would never send, and answers before anyone reads them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import grpc
import msgpack
import pyarrow as pa

from jetbridge.wire.arrow_input import BatchDecoder
from jetbridge.wire.flight_data import encode_batch, encode_schema, split
from jetbridge.wire.flight_pb2 import (
    Action,
    FlightData,
    FlightDescriptor,
    FlightEndpoint,
    Result,
    Ticket,
)

SERVICE = "/arrow.flight.protocol.FlightService/"
AIRPORT = (("airport-user-agent", "airport/20250723"),)

Headers = tuple[tuple[str, str], ...]


def pack(request: Any) -> bytes:
    """Pack a request as msgpack-c does: binary goes as str, too."""
    packed: bytes = msgpack.packb(request, use_bin_type=False)
    return packed


def said(refused: Any) -> str:
    """Return the message of what `pytest.raises(grpc.RpcError)` caught."""
    return str(refused.value.details())


def descriptor(*path: str) -> FlightDescriptor:
    return FlightDescriptor(type=FlightDescriptor.PATH, path=path)


def opening(path: tuple[str, ...], schema: pa.Schema) -> bytes:
    """Return the first message of an exchange: whom it is for, and the columns."""
    first = FlightData(flight_descriptor=descriptor(*path)).SerializeToString()
    return first + encode_schema(schema)


class Answer(NamedTuple):
    """Hold the answer of an exchange or a scan; `metadata` is unpacked from each message."""

    schema: pa.Schema
    batches: list[pa.RecordBatch]
    metadata: list[Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pa.Table.from_batches(self.batches, self.schema).to_pylist()
        return rows


def read_answer(messages: Iterable[bytes]) -> Answer:
    decoder: BatchDecoder | None = None
    batches: list[pa.RecordBatch] = []
    metadata = []
    for message in messages:
        data = split(message)
        if data.app_metadata is not None:
            metadata.append(msgpack.unpackb(data.app_metadata))
        if data.header is None:
            continue
        if decoder is None:
            decoder = BatchDecoder(data.header)
        else:
            decoder.feed(data)
            batches += decoder.flush()
    assert decoder is not None
    return Answer(decoder.schema, batches, metadata)


class Raw:
    """Send exactly what the test says; `location` is as the server gives it."""

    def __init__(
        self,
        location: str,
        *headers: tuple[str, str],
        root_certificates: bytes | None = None,
    ) -> None:
        scheme, _, target = location.partition("://")
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        )
        if scheme == "grpc+tls":
            credentials = grpc.ssl_channel_credentials(root_certificates)
            self.channel = grpc.secure_channel(target, credentials, options)
        else:
            self.channel = grpc.insecure_channel(target, options)
        self.headers: Headers = AIRPORT + headers

    def action(self, name: str, request: Any = None, *headers: tuple[str, str]) -> list[bytes]:
        """Return the bodies of all results; `request` is a map, or the body itself as bytes."""
        body = request if isinstance(request, bytes) else pack(request)
        call = self.channel.unary_stream(
            SERVICE + "DoAction", Action.SerializeToString, Result.FromString
        )
        results = call(Action(type=name, body=body), metadata=self.headers + headers, timeout=30)
        return [result.body for result in results]

    def answer(self, name: str, request: Any = None, *headers: tuple[str, str]) -> Any:
        """Return the first result, unpacked."""
        return msgpack.unpackb(self.action(name, request, *headers)[0])

    def single(
        self, method: str, request: Any, answer: type[Any], *headers: tuple[str, str]
    ) -> Any:
        call = self.channel.unary_unary(
            SERVICE + method, type(request).SerializeToString, answer.FromString
        )
        return call(request, metadata=self.headers + headers, timeout=30)

    def stream(
        self, method: str, request: Any, answer: type[Any], *headers: tuple[str, str]
    ) -> list[Any]:
        call = self.channel.unary_stream(
            SERVICE + method, type(request).SerializeToString, answer.FromString
        )
        return list(call(request, metadata=self.headers + headers, timeout=30))

    def both_ways(self, method: str, requests: Iterable[bytes], *headers: tuple[str, str]) -> Any:
        """Return the running call: iterate it for the answers, as bytes."""
        call: Any = self.channel.stream_stream(SERVICE + method, None, None)
        return call(iter(requests), metadata=self.headers + headers, timeout=30)

    def exchange(
        self,
        operation: str,
        path: tuple[str, ...],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch] = (),
        *headers: tuple[str, str],
        returning: bool = False,
    ) -> Answer:
        headers += (
            ("airport-operation", operation),
            ("return-chunks", "1" if returning else "0"),
        )
        messages = [opening(path, schema), *map(encode_batch, batches)]
        return read_answer(self.both_ways("DoExchange", messages, *headers))

    def endpoints(
        self,
        path: tuple[str, ...] | FlightDescriptor,
        *headers: tuple[str, str],
        **parameters: Any,
    ) -> list[FlightEndpoint]:
        wanted = path if isinstance(path, FlightDescriptor) else descriptor(*path)
        request = {"descriptor": wanted.SerializeToString(), "parameters": parameters}
        return [FlightEndpoint.FromString(e) for e in self.answer("endpoints", request, *headers)]

    def get(self, ticket: Ticket, *headers: tuple[str, str]) -> Answer:
        call: Any = self.channel.unary_stream(SERVICE + "DoGet", Ticket.SerializeToString, None)
        return read_answer(call(ticket, metadata=self.headers + headers, timeout=30))

    def scan(
        self, path: tuple[str, ...], *headers: tuple[str, str], **parameters: Any
    ) -> list[Answer]:
        """Return one answer for each endpoint."""
        ends = self.endpoints(path, *headers, **parameters)
        return [self.get(end.ticket, *headers) for end in ends]

    def close(self) -> None:
        self.channel.close()

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rows_of(answers: Iterable[Answer]) -> Iterator[Mapping[str, Any]]:
    for answer in answers:
        yield from answer.rows
