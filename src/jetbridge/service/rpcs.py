"""Every RPC of Flight, from its name to its handler: one table."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from jetbridge.errors import BadRequest, NotSupported
from jetbridge.service.auth import Authenticator
from jetbridge.service.calls import Call
from jetbridge.service.do_action import DoAction, answers_once
from jetbridge.service.do_exchange import DoExchange
from jetbridge.service.do_get import DoGet
from jetbridge.service.get_flight_info import GetFlightInfo
from jetbridge.service.guard import Guard
from jetbridge.service.list_flights import ListFlights
from jetbridge.wire import flight_pb2 as pb

FLIGHT_SERVICE = "arrow.flight.protocol.FlightService"
_DO_ACTION = f"/{FLIGHT_SERVICE}/DoAction"

_MAKERS: Mapping[str, Any] = {
    "one to one": grpc.unary_unary_rpc_method_handler,
    "one to many": grpc.unary_stream_rpc_method_handler,
    "many to many": grpc.stream_stream_rpc_method_handler,
}


class Rpc(NamedTuple):
    """`request` None: raw bytes, as in streams; else the message they are."""

    shape: str
    request: Any
    handler: Callable[[Any, Call], Any]
    details: bool = False
    open_to_all: bool = False


class Handlers(NamedTuple):
    authenticator: Authenticator
    list_flights: ListFlights
    get_flight_info: GetFlightInfo
    do_get: DoGet
    do_exchange: DoExchange
    do_action: DoAction


def flight_handler(guard: Guard, handlers: Handlers) -> grpc.GenericRpcHandler:
    info, actions = handlers.get_flight_info, handlers.do_action
    rpcs = {
        "Handshake": Rpc("many to many", None, handlers.authenticator.handshake, open_to_all=True),
        "ListFlights": Rpc("one to many", pb.Criteria, handlers.list_flights),
        "GetFlightInfo": Rpc("one to one", pb.FlightDescriptor, info),
        "GetSchema": Rpc("one to one", pb.FlightDescriptor, info.schema),
        "DoGet": Rpc("one to many", pb.Ticket, handlers.do_get, details=True),
        "DoPut": Rpc("many to many", None, _do_put),
        "DoExchange": Rpc("many to many", None, handlers.do_exchange, details=True),
        "DoAction": Rpc("one to many", pb.Action, actions),
        "ListActions": Rpc("one to many", pb.Empty, actions.list_actions),
    }
    methods = {f"/{FLIGHT_SERVICE}/{name}": _method(guard, rpc) for name, rpc in rpcs.items()}
    single = _method(guard, Rpc("one to one", pb.Action, actions.single))
    return _FlightHandler(methods, single)


class _FlightHandler(grpc.GenericRpcHandler):
    """Finds the handler of a call.

    The Airport client names its action in a header. One that answers once is then handled as a
    call with one answer, which looks the same on the wire and saves a fifth of its time.
    """

    def __init__(self, methods: Mapping[str, Any], single_action: Any) -> None:
        self._methods, self._single_action = methods, single_action

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method == _DO_ACTION:
            for key, value in details.invocation_metadata:
                if key == "airport-action-name" and answers_once(str(value)):
                    return self._single_action
        return self._methods.get(details.method)


def _method(guard: Guard, rpc: Rpc) -> Any:
    handler = _reading(rpc.request, rpc.handler) if rpc.request else rpc.handler
    if rpc.shape == "one to one":
        guarded: Any = guard.single(handler)
    else:
        guarded = guard.streaming(handler, details=rpc.details, open_to_all=rpc.open_to_all)
    return _MAKERS[rpc.shape](guarded, None, _to_bytes)


def _reading(message: Any, handler: Callable[[Any, Call], Any]) -> Callable[[bytes, Call], Any]:
    """gRPC would answer INTERNAL for bytes that are not the message."""

    def run(request: bytes, call: Call) -> Any:
        try:
            read = message.FromString(request)
        except (DecodeError, ValueError) as error:
            raise BadRequest(f"the request is not a {message.DESCRIPTOR.name}") from error
        return handler(read, call)

    return run


def _to_bytes(response: Any) -> bytes:
    return response if isinstance(response, bytes) else response.SerializeToString()


def _do_put(requests: Iterator[bytes], call: Call) -> Iterator[bytes]:
    next(requests, None)
    raise NotSupported("DoPut is not served; insert by DoExchange, airport-operation: insert")
