"""Maps the name of every method that the server answers to its handler."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from jetbridge.config.model import Openness
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.service.admission.authentication import Authenticator
from jetbridge.service.admission.entrance import Headers, Inline, Method, OpenCalls, run_in
from jetbridge.service.admission.prefetch import only_message, read_ahead, within
from jetbridge.service.call_context import CallContext
from jetbridge.service.do_action import DoAction, answers_once
from jetbridge.service.do_exchange import DoExchange
from jetbridge.service.do_get import DoGet
from jetbridge.service.flight_info import GetFlightInfo, ListFlights
from jetbridge.service.guard import Guard
from jetbridge.wire import flight_pb2 as pb
from jetbridge.wire.limits import DESCRIPTOR_BYTES

FLIGHT_SERVICE = "arrow.flight.protocol.FlightService"
# A path of two bytes takes a string object in memory, so descriptors have a lower limit.
_MOST_BYTES: Mapping[Any, int] = {pb.FlightDescriptor: DESCRIPTOR_BYTES}
_DO_ACTION = f"/{FLIGHT_SERVICE}/DoAction"
_HANDSHAKE = f"/{FLIGHT_SERVICE}/Handshake"
# A longer reflection request names no service of this server.
_MOST_REFLECTION_BYTES = 4096
_SERVICES = (FLIGHT_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)


class Rpc(NamedTuple):
    """Describe a method of Flight.

    `answers` is "one" or "many". `request` is the message that the client sends, or None if the
    handler reads a stream of bytes. With `details`, errors carry DuckDB's exception class.
    """

    answers: str
    request: Any
    handler: Callable[[Any, CallContext], Any]
    details: bool = False


class Handlers(NamedTuple):
    """Hold one handler for each method of Flight."""

    authenticator: Authenticator
    list_flights: ListFlights
    get_flight_info: GetFlightInfo
    do_get: DoGet
    do_exchange: DoExchange
    do_action: DoAction


class Rpcs:
    """Turn handlers into methods of gRPC."""

    def __init__(self, guard: Guard, authenticator: Authenticator, message_seconds: float) -> None:
        self._guard, self.authenticator = guard, authenticator
        self._message_seconds = message_seconds

    def with_token(self, rpc: Rpc) -> Method:
        """Return a method that refuses callers without a token."""
        return Method(self._handler(rpc), self._guard.check)

    def handshakes(self, pool: OpenCalls) -> tuple[Method, Method]:
        """Return the handshake for callers with a login in their headers, and that for others."""
        check, run = self.authenticator.check_handshake, self.authenticator.handshake
        make = grpc.stream_stream_rpc_method_handler
        known, unknown = (self._guard.streaming(run, allow_anonymous=True) for _ in range(2))
        return (
            Method(make(known, None, _to_bytes), check),
            Method(make(run_in(pool, unknown), None, _to_bytes), check, pool),
        )

    def _handler(self, rpc: Rpc) -> Any:
        handler = rpc.handler
        if rpc.request:
            handler = _reading(rpc.request, rpc.handler, self._message_seconds)
        if rpc.answers == "one":
            single = self._guard.single(handler)
            return grpc.stream_unary_rpc_method_handler(single, None, _to_bytes)
        streaming = self._guard.streaming(handler, details=rpc.details)
        return grpc.stream_stream_rpc_method_handler(streaming, None, _to_bytes)


def flight_methods(
    rpcs: Rpcs, handlers: Handlers, pool: OpenCalls, others: Mapping[str, Method]
) -> Callable[[str, Headers], Method | None]:
    """Return a function that finds the method of a call.

    The Airport client names its action in a header. An action with one result is then handled as a
    call with one answer, which looks the same on the wire and takes a fifth less time.
    """
    info, actions = handlers.get_flight_info, handlers.do_action
    table = {
        "ListFlights": Rpc("many", pb.Criteria, handlers.list_flights),
        "GetFlightInfo": Rpc("one", pb.FlightDescriptor, info),
        "GetSchema": Rpc("one", pb.FlightDescriptor, info.schema),
        "DoGet": Rpc("many", pb.Ticket, handlers.do_get, details=True),
        "DoPut": Rpc("many", None, _do_put),
        "DoExchange": Rpc("many", None, handlers.do_exchange, details=True),
        "DoAction": Rpc("many", pb.Action, actions),
        "ListActions": Rpc("many", pb.Empty, actions.list_actions),
    }
    methods = {f"/{FLIGHT_SERVICE}/{name}": rpcs.with_token(rpc) for name, rpc in table.items()}
    methods |= others
    known, unknown = rpcs.handshakes(pool)
    single = rpcs.with_token(Rpc("one", pb.Action, actions.single))

    def find(method: str, headers: Headers) -> Method | None:
        if method == _HANDSHAKE:
            return known if rpcs.authenticator.has_login(headers) else unknown
        if method == _DO_ACTION and answers_once(headers.get("airport-action-name", "")):
            return single
        return methods.get(method)

    return find


def _reading(
    message: Any, handler: Callable[[Any, CallContext], Any], seconds: float
) -> Callable[[Iterator[bytes], CallContext], Any]:
    """Decode the request for the handler. gRPC itself would answer INTERNAL for invalid bytes."""

    def run(requests: Iterator[bytes], call: CallContext) -> Any:
        request = only_message(requests, seconds)
        if len(request) > _MOST_BYTES.get(message, len(request)):
            raise BadRequest(f"the {message.DESCRIPTOR.name} is over {_MOST_BYTES[message]} bytes")
        try:
            decoded = message.FromString(request)
        except (DecodeError, ValueError) as error:
            raise BadRequest(f"the request is not a {message.DESCRIPTOR.name}") from error
        return handler(decoded, call)

    return run


def _to_bytes(response: Any) -> bytes:
    return response if isinstance(response, bytes) else response.SerializeToString()


def _do_put(requests: Iterator[bytes], call: CallContext) -> Iterator[bytes]:
    raise NotSupported(
        "DoPut is not supported; insert with DoExchange and the header airport-operation: insert"
    )


class Health:
    """Hold the state of the server, which all of its services share."""

    def __init__(self) -> None:
        self.serving = False

    def answer(self) -> bytes:
        """Return the answer to a health check."""
        message = health_pb2.HealthCheckResponse
        status = message.SERVING if self.serving else message.NOT_SERVING
        return message(status=status).SerializeToString()


class Reflection:
    """Answer what services the server has."""

    def __init__(self, services: tuple[str, ...], seconds: float) -> None:
        self._servicer = reflection.ReflectionServicer(services)
        self._seconds = seconds

    def answer(self, requests: Iterator[bytes], call: CallContext) -> Iterator[bytes]:
        """Yield the answers. All requests must arrive within the time limit of messages."""
        received = read_ahead(requests, most_ahead=0)
        with within(received, self._seconds):
            decoded = map(_reflection_request, received)
            for response in self._servicer.ServerReflectionInfo(decoded, call.context):
                yield response.SerializeToString()


def about_methods(
    guard: Guard, authenticator: Authenticator, openness: Openness, state: Health, pool: OpenCalls
) -> dict[str, Method]:
    """Return the methods of health checks and of reflection."""
    reflection_service = Reflection(_SERVICES, authenticator.message_seconds)
    reflect = guard.streaming(reflection_service.answer, allow_anonymous=bool(openness.reflection))
    if openness.reflection:
        run_in(pool, reflect)
    return {
        f"/{health.SERVICE_NAME}/Check": Method(
            _check(state), _accept_all if openness.health else authenticator.authenticate
        ),
        f"/{reflection.SERVICE_NAME}/ServerReflectionInfo": Method(
            grpc.stream_stream_rpc_method_handler(reflect),
            _accept_all if openness.reflection else guard.check,
            pool if openness.reflection else None,
        ),
    }


def _check(state: Health) -> Any:
    """Return the handler of a health check.

    It reads no request: that cannot change the answer, and the caller may be unknown.
    """

    def answer(_: Iterator[bytes], __: grpc.ServicerContext) -> bytes:
        return state.answer()

    return grpc.stream_unary_rpc_method_handler(run_in(Inline(), answer))


def _accept_all(_: Headers) -> None:
    """Accept callers without a token."""


def _reflection_request(data: bytes) -> Any:
    if len(data) > _MOST_REFLECTION_BYTES:
        raise BadRequest(f"a reflection request may have at most {_MOST_REFLECTION_BYTES} bytes")
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except DecodeError as error:
        raise BadRequest("the request is not a ServerReflectionRequest") from error
