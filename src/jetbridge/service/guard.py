"""Wraps every handler: authenticates the call, applies its limits and answers its errors."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

import grpc

from jetbridge.config.model import Token
from jetbridge.errors import ServerError, without_paths
from jetbridge.runtime.cancellation import Cancellation, answering, scope
from jetbridge.service.admission.authentication import Authenticator
from jetbridge.service.admission.concurrency import ConcurrencyLimit, ShutdownGate
from jetbridge.service.admission.time_limit import TimeLimit
from jetbridge.service.call_context import CallContext, Catalogs, read_headers
from jetbridge.wire.codec import encode

_log = logging.getLogger(__name__)
# gRPC encodes a message in up to three times its bytes, and the details repeat it twice in base64.
# The client refuses headers of more than 8 KiB in all.
_MAX_MESSAGE_BYTES = 1000
_ARROW_IO_ERROR = "5"

Handler = Callable[[Any, CallContext], Any]


class Guard:
    """Turn handlers into methods of gRPC that are authenticated and limited."""

    def __init__(
        self,
        catalogs: Catalogs,
        authenticator: Authenticator,
        shutdown: ShutdownGate,
        calls: ConcurrencyLimit,
        time_limit: TimeLimit,
    ) -> None:
        self._catalogs, self._authenticator = catalogs, authenticator
        self._shutdown, self._calls, self._time_limit = shutdown, calls, time_limit

    def check(self, headers: Mapping[str, str]) -> Token | None:
        """Return the caller's token.

        Raises Unauthenticated without a token, and LimitExceeded if the token has no call or no
        time left.
        """
        token = self._authenticator.authenticate(headers)
        owner = token.name if token else ""
        self._calls.refuse_if_full(owner)
        self._time_limit.refuse_if_used_up(owner)
        return token

    def single(self, handler: Handler) -> Callable[[Any, grpc.ServicerContext], Any]:
        """Wrap a handler that returns one answer."""

        def run(request: Any, context: grpc.ServicerContext) -> Any:
            call = None
            try:
                call = self._admit(context)
                with self._enter(context, call.owner) as statement, scope(statement):
                    return handler(request, call)
            except Exception as error:
                _abort(context, call, error, details=False)

        return run

    def streaming(
        self, handler: Handler, *, details: bool = False, allow_anonymous: bool = False
    ) -> Callable[[Any, grpc.ServicerContext], Iterator[Any]]:
        """Wrap a handler that yields its answers.

        With `details`, errors carry DuckDB's exception class, which the client reads in streams
        only. With `allow_anonymous`, callers need no token and count towards no limit of tokens.
        """

        def run(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            call = None
            try:
                call = self._admit(context, allow_anonymous)
                owner = None if allow_anonymous else call.owner
                with self._enter(context, owner) as statement:
                    yield from answering(statement, _answers(handler, request, call))
            except Exception as error:
                _abort(context, call, error, details)

        return run

    def _admit(self, context: grpc.ServicerContext, allow_anonymous: bool = False) -> CallContext:
        headers = read_headers(context.invocation_metadata())
        token = None if allow_anonymous else self._authenticator.authenticate(headers)
        return CallContext(context, headers, self._catalogs, token)

    @contextmanager
    def _enter(self, context: grpc.ServicerContext, owner: str | None) -> Iterator[Cancellation]:
        """Count the call and start its time; `owner` is None for a call without a token."""
        statement = _cancel_with(context)
        counted = nullcontext() if owner is None else self._calls.enter(owner)
        limited = self._time_limit.apply(statement, context, owner)
        with self._shutdown.enter(), counted, limited:
            yield statement


def _cancel_with(context: grpc.ServicerContext) -> Cancellation:
    """Return a cancellation that ends the work of a call with the call.

    A call ends early if its caller cancels it or dies, or at the caller's deadline.
    """
    cancellation = Cancellation()
    if not context.add_callback(cancellation.cancel):
        cancellation.cancel()
    return cancellation


def _answers(handler: Handler, request: Any, call: CallContext) -> Iterator[Any]:
    """Run the handler when its first answer is read, not before."""
    yield from handler(request, call)


def _abort(
    context: grpc.ServicerContext, call: CallContext | None, error: Exception, details: bool
) -> NoReturn:
    if not context.is_active():
        _log.info("the caller has closed the call: %s", error)
    status, message = _outcome(error, call)
    name = error.duckdb_exception if isinstance(error, ServerError) else None
    if details and name and call and call.is_airport:
        context.set_trailing_metadata(
            (
                # Arrow attaches the details only to a status that also carries Arrow's code.
                ("x-arrow-status", _ARROW_IO_ERROR),
                ("x-arrow-status-message-bin", message.encode()),
                ("grpc-status-details-bin", encode({"exception_type": name, "message": message})),
            )
        )
    context.abort(status, message)
    raise AssertionError  # abort has raised


def _outcome(error: Exception, call: CallContext | None) -> tuple[grpc.StatusCode, str]:
    if isinstance(error, ServerError):
        _log.debug("refused: %s", error, exc_info=error)
        return grpc.StatusCode[error.status], _one_line(_public_message(str(error), call))
    if isinstance(error, grpc.RpcError):
        return grpc.StatusCode.CANCELLED, "the call was cancelled"
    trace_id = call.trace_id if call else "-"
    _log.error("internal error, trace id %s", trace_id, exc_info=error)
    return grpc.StatusCode.INTERNAL, f"internal error; the server's log has it as {trace_id}"


def _public_message(message: str, call: CallContext | None) -> str:
    """Return the message without paths of the server, and log it in full."""
    public = without_paths(message)
    if public == message or call is None:
        return public
    _log.info("refused, trace id %s: %s", call.trace_id, message)
    return f"{_shorten(public, _MAX_MESSAGE_BYTES - 50)} (trace id {call.trace_id})"


def _one_line(message: str) -> str:
    return _shorten(" ".join(message.split()))


def _shorten(text: str, at_most_bytes: int = _MAX_MESSAGE_BYTES) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= at_most_bytes:
        return data.decode()
    return data[: at_most_bytes - 3].decode("utf-8", "ignore") + "…"
