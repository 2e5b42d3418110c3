"""Health and reflection: what a server tells about itself, to all or to those with a token."""

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from jetbridge.errors import BadRequest
from jetbridge.service.admission.authentication import Authenticator
from jetbridge.service.admission.entrance import Headers, Inline, Method, OpenCalls, run_in
from jetbridge.service.admission.prefetch import prefetched, within
from jetbridge.service.call_context import Call
from jetbridge.service.guard import Guard
from jetbridge.service.limits import Openness
from jetbridge.service.rpcs import FLIGHT_SERVICE

_SERVICES = (health.SERVICE_NAME, reflection.SERVICE_NAME)
# Longer ones name nothing that is served.
_MOST_REQUEST_BYTES = 4096


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
    told = Reflection((FLIGHT_SERVICE, *_SERVICES), authenticator.message_seconds)
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
    if len(data) > _MOST_REQUEST_BYTES:
        raise BadRequest(f"a request of reflection has at most {_MOST_REQUEST_BYTES} bytes")
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except DecodeError as error:
        raise BadRequest("the request is not a ServerReflectionRequest") from error
