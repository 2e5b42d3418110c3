"""Calls a server over gRPC, with the headers of the Airport client and the errors of jetbridge."""

import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import Message

from jetbridge.client.errors import translate
from jetbridge.errors import Unavailable
from jetbridge.wire.flight_pb2 import FlightDescriptor

USER_AGENT = f"jetbridge/{version('jetbridge')}"
_SERVICE = "/arrow.flight.protocol.FlightService/"
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Each client has connections of its own and retries soon, whatever other clients do.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name, the time that one attempt to connect may take.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 2000),
)
_PLAIN = frozenset({"grpc", "grpc+tcp"})
_TLS = "grpc+tls"

Headers = tuple[tuple[str, str], ...]
GrpcCall = Any  # the classes of gRPC for calls are private


@dataclass(frozen=True)
class Location:
    """Hold the address of a server, as you wrote it and as gRPC needs it."""

    uri: str
    target: str
    tls: bool

    @classmethod
    def parse(cls, uri: str) -> "Location":
        """Return the location that a URL names. Raises ValueError."""
        parts = urlsplit(uri)
        is_known = parts.scheme in _PLAIN or parts.scheme == _TLS
        if not is_known or not parts.netloc or parts.path.strip("/"):
            raise ValueError(
                f"location {uri!r} must be grpc://HOST:PORT or, with TLS, grpc+tls://HOST:PORT"
            )
        return cls(uri, parts.netloc, parts.scheme == _TLS)


class Connection:
    """Call one server. A client and its transactions share a connection, in any thread."""

    def __init__(
        self, location: str, catalog: str, token: str | None, tls_root_certs: bytes | None
    ) -> None:
        self.location = Location.parse(location)
        self.token = token
        self._channel = _open(self.location, tls_root_certs)
        self._headers: Headers = (
            ("airport-user-agent", USER_AGENT),
            ("authority", location),
            ("airport-client-session-id", str(uuid.uuid4())),
            ("airport-catalog", printable("catalog", catalog)),
        )
        if token:
            self._headers += (("authorization", f"Bearer {printable('token', token)}"),)
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Close the channel and end its calls."""
        with self._lock:
            was_closed, self._closed = self._closed, True
        if not was_closed:
            self._channel.close()

    def single(
        self, method: str, request: Message, answer: type[Message], headers: Headers = ()
    ) -> Any:
        """Send one request and return the one answer."""
        self._check_open()
        call = self._channel.unary_unary(
            _path(method), type(request).SerializeToString, answer.FromString
        )
        try:
            return call(request, metadata=self._headers + headers)
        except grpc.RpcError as error:
            raise translate(error, self.location.uri) from None

    def stream(
        self, method: str, request: Message, answer: type[Message] | None, headers: Headers = ()
    ) -> "Answers":
        """Send one request and return its answers, as bytes if `answer` is None."""
        self._check_open()
        decode = answer.FromString if answer else None
        call = self._channel.unary_stream(_path(method), type(request).SerializeToString, decode)
        return Answers(call(request, metadata=self._headers + headers), self.location.uri)

    def both_ways(self, method: str, requests: Iterable[bytes], headers: Headers) -> "Answers":
        """Send serialized requests and return the answers as bytes."""
        self._check_open()
        call: Any = self._channel.stream_stream(_path(method), None, None)
        return Answers(call(iter(requests), metadata=self._headers + headers), self.location.uri)

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"this client of {self.location.uri} is closed; connect again")


class Answers:
    """Iterate over the answers of one call. Leaving the `with` block early cancels the call."""

    def __init__(self, call: GrpcCall, location: str) -> None:
        self.call = call
        self._location = location

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self.call)
        except grpc.RpcError as error:
            raise translate(error, self._location) from None

    def __enter__(self) -> "Answers":
        return self

    def __exit__(self, *_: object) -> None:
        self.call.cancel()  # no effect on a call that has ended


def printable(title: str, value: str) -> str:
    """Return the value if a gRPC header can hold it; raise ValueError otherwise."""
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"{title} {value!r} must be printable ASCII, like every gRPC header")
    return value


def path_header(descriptor: bytes) -> Headers:
    """Return the header that repeats the path of a descriptor, if it has a path."""
    parsed = FlightDescriptor.FromString(descriptor)
    if parsed.type != FlightDescriptor.PATH:
        return ()
    return (("airport-flight-path", printable("path", "/".join(parsed.path))),)


def new_trace() -> Headers:
    """Return a header that identifies a statement in the logs of the server."""
    return (("airport-trace-id", str(uuid.uuid4())),)


def _path(method: str) -> str:
    return method if method.startswith("/") else _SERVICE + method


def _open(location: Location, tls_root_certs: bytes | None) -> grpc.Channel:
    if location.tls:
        credentials = grpc.ssl_channel_credentials(root_certificates=tls_root_certs)
        return grpc.secure_channel(location.target, credentials, options=_OPTIONS)
    return grpc.insecure_channel(location.target, options=_OPTIONS)
