"""Every RPC of Flight, from its name to its handler: one table."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from jetbridge.config.limits import Openness
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.service.admission.authentication import Authenticator
from jetbridge.service.admission.entrance import Headers, Inline, Method, OpenCalls, run_in
from jetbridge.service.admission.prefetch import only_message, prefetched, within
from jetbridge.service.call_context import Call
from jetbridge.service.do_action import DoAction, answers_once
from jetbridge.service.do_exchange import DoExchange
from jetbridge.service.do_get import DoGet
from jetbridge.service.flight_info import GetFlightInfo, ListFlights
from jetbridge.service.guard import Guard
from jetbridge.wire import flight_pb2 as pb
from jetbridge.wire.limits import DESCRIPTOR_BYTES

FLIGHT_SERVICE = "arrow.flight.protocol.FlightService"
# Two bytes of a path are a string of its own in memory.
_MOST_BYTES: Mapping[Any, int] = {pb.FlightDescriptor: DESCRIPTOR_BYTES}
_DO_ACTION = f"/{FLIGHT_SERVICE}/DoAction"
_HANDSHAKE = f"/{FLIGHT_SERVICE}/Handshake"
# A longer request of reflection names nothing that is served.
_MOST_REFLECTION_BYTES = 4096
_SERVICES = (FLIGHT_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)


class Rpc(NamedTuple):
    """`request` None: raw bytes, as in streams; else the one message that is sent."""

    answers: str
    request: Any
    handler: Callable[[Any, Call], Any]
    details: bool = False


class Handlers(NamedTuple):
    authenticator: Authenticator
    list_flights: ListFlights
    get_flight_info: GetFlightInfo
    do_get: DoGet
    do_exchange: DoExchange
    do_action: DoAction


class Rpcs:
    """Makes methods of handlers."""

    def __init__(self, guard: Guard, authenticator: Authenticator, message_seconds: float) -> None:
        self._guard, self.authenticator = guard, authenticator
        self._message_seconds = message_seconds

    def with_token(self, rpc: Rpc) -> Method:
        return Method(self._handler(rpc), self._guard.check)

    def handshakes(self, pool: OpenCalls) -> tuple[Method, Method]:
        """For callers whose headers say who they are; and for others, who send a message."""
        check, run = self.authenticator.check_handshake, self.authenticator.handshake
        make = grpc.stream_stream_rpc_method_handler
        known, unknown = (self._guard.streaming(run, open_to_all=True) for _ in range(2))
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
    """Finds the method of a call.

    The Airport client names its action in a header. One that answers once is then handled as a
    call with one answer, which looks the same on the wire and saves a fifth of its time.
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
            return known if rpcs.authenticator.is_told_by(headers) else unknown
        if method == _DO_ACTION and answers_once(headers.get("airport-action-name", "")):
            return single
        return methods.get(method)

    return find


def _reading(
    message: Any, handler: Callable[[Any, Call], Any], seconds: float
) -> Callable[[Iterator[bytes], Call], Any]:
    """gRPC would answer INTERNAL for bytes that are not the message."""

    def run(requests: Iterator[bytes], call: Call) -> Any:
        request = only_message(requests, seconds)
        if len(request) > _MOST_BYTES.get(message, len(request)):
            raise BadRequest(f"the {message.DESCRIPTOR.name} is over {_MOST_BYTES[message]} bytes")
        try:
            read = message.FromString(request)
        except (DecodeError, ValueError) as error:
            raise BadRequest(f"the request is not a {message.DESCRIPTOR.name}") from error
        return handler(read, call)

    return run


def _to_bytes(response: Any) -> bytes:
    return response if isinstance(response, bytes) else response.SerializeToString()


def _do_put(requests: Iterator[bytes], call: Call) -> Iterator[bytes]:
    raise NotSupported("DoPut is not served; insert by DoExchange, airport-operation: insert")


class Health:
    """The state of the server; all of its services share it."""

    def __init__(self) -> None:
        self.serving = False

    def answer(self) -> bytes:
        kind = health_pb2.HealthCheckResponse
        status = kind.SERVING if self.serving else kind.NOT_SERVING
        return kind(status=status).SerializeToString()


class Reflection:
    def __init__(self, services: tuple[str, ...], seconds: float) -> None:
        self._servicer = reflection.ReflectionServicer(services)
        self._seconds = seconds

    def answer(self, requests: Iterator[bytes], call: Call) -> Iterator[bytes]:
        """All that is asked comes within this time."""
        received = prefetched(requests, most_ahead=0)
        with within(received, self._seconds):
            asked = map(_request, received)
            for response in self._servicer.ServerReflectionInfo(asked, call.context):
                yield response.SerializeToString()


def about_methods(
    guard: Guard, authenticator: Authenticator, openness: Openness, state: Health, pool: OpenCalls
) -> dict[str, Method]:
    told = Reflection(_SERVICES, authenticator.message_seconds)
    reflect = guard.streaming(told.answer, open_to_all=bool(openness.reflection))
    if openness.reflection:
        run_in(pool, reflect)
    return {
        f"/{health.SERVICE_NAME}/Check": Method(
            _check(state), _refuse_nobody if openness.health else authenticator.authenticate
        ),
        f"/{reflection.SERVICE_NAME}/ServerReflectionInfo": Method(
            grpc.stream_stream_rpc_method_handler(reflect),
            _refuse_nobody if openness.reflection else guard.check,
            pool if openness.reflection else None,
        ),
    }


def _check(state: Health) -> Any:
    """Reads no request: nothing in it could change the answer, and its caller may be unknown."""

    def answer(_: Iterator[bytes], __: grpc.ServicerContext) -> bytes:
        return state.answer()

    return grpc.stream_unary_rpc_method_handler(run_in(Inline(), answer))


def _refuse_nobody(_: Headers) -> None:
    """The check of what is open to all."""


def _request(data: bytes) -> Any:
    if len(data) > _MOST_REFLECTION_BYTES:
        raise BadRequest(f"a request of reflection has at most {_MOST_REFLECTION_BYTES} bytes")
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except DecodeError as error:
        raise BadRequest("the request is not a ServerReflectionRequest") from error
