"""What stands between gRPC and every handler: authentication, and one way out for errors."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

import grpc

from jetbridge.config.limits import Token
from jetbridge.errors import ServerError
from jetbridge.runtime.cancellation import Cancellation, answering, scope
from jetbridge.runtime.error_paths import without_paths
from jetbridge.service.admission.authentication import Authenticator
from jetbridge.service.admission.concurrency import ConcurrencyLimit, ShutdownGate
from jetbridge.service.admission.time_limit import TimeLimit
from jetbridge.service.call_context import Call, Catalogs, read_headers
from jetbridge.wire.codec import encode

_log = logging.getLogger(__name__)
# In bytes: gRPC sends up to three times as many, the details four thirds twice more, and the
# client refuses headers of more than 8 KiB in all.
_MAX_MESSAGE_BYTES = 1000
_ARROW_IO_ERROR = "5"

Handler = Callable[[Any, Call], Any]


class Guard:
    def __init__(
        self,
        catalogs: Catalogs,
        authenticator: Authenticator,
        door: ShutdownGate,
        calls: ConcurrencyLimit,
        limit: TimeLimit,
    ) -> None:
        self._catalogs, self._authenticator = catalogs, authenticator
        self._door, self._calls, self._limit = door, calls, limit

    def check(self, headers: Mapping[str, str]) -> Token | None:
        """Refuses callers without a token, and tokens that have no call or no time left."""
        token = self._authenticator.authenticate(headers)
        owner = token.name if token else ""
        self._calls.refuse_if_full(owner)
        self._limit.refuse_if_used_up(owner)
        return token

    def single(self, handler: Handler) -> Callable[[Any, grpc.ServicerContext], Any]:
        def run(request: Any, context: grpc.ServicerContext) -> Any:
            call = None
            try:
                call = self._admit(context)
                with self._entered(context, call.owner) as statement, scope(statement):
                    return handler(request, call)
            except Exception as error:
                _abort(context, call, error, details=False)

        return run

    def streaming(
        self, handler: Handler, *, details: bool = False, open_to_all: bool = False
    ) -> Callable[[Any, grpc.ServicerContext], Iterator[Any]]:
        """`details`: send DuckDB's exception class; the client reads it in streams only."""

        def run(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            call = None
            try:
                call = self._admit(context, open_to_all)
                with self._entered(context, None if open_to_all else call.owner) as statement:
                    yield from answering(statement, _answers(handler, request, call))
            except Exception as error:
                _abort(context, call, error, details)

        return run

    def _admit(self, context: grpc.ServicerContext, open_to_all: bool = False) -> Call:
        headers = read_headers(context.invocation_metadata())
        token = None if open_to_all else self._authenticator.authenticate(headers)
        return Call(context, headers, self._catalogs, token)

    @contextmanager
    def _entered(self, context: grpc.ServicerContext, owner: str | None) -> Iterator[Cancellation]:
        """The time of the call starts now; open calls have no owner."""
        made = _cancellation(context)
        place = nullcontext() if owner is None else self._calls.entered(owner)
        with self._door.entered(), place, self._limit.of(made, context, owner):
            yield made


def _cancellation(context: grpc.ServicerContext) -> Cancellation:
    """What the call does ends with it: when the caller cancels, dies, or has set a deadline."""
    made = Cancellation()
    if not context.add_callback(made.cancel):
        made.cancel()
    return made


def _answers(handler: Handler, request: Any, call: Call) -> Iterator[Any]:
    """Nothing is done before the first answer is asked for."""
    yield from handler(request, call)


def _abort(
    context: grpc.ServicerContext, call: Call | None, error: Exception, details: bool
) -> NoReturn:
    if not context.is_active():
        _log.info("the caller has gone: %s", error)
    status, message = _outcome(error, call)
    name = error.duckdb_exception if isinstance(error, ServerError) else None
    if details and name and call and call.is_airport:
        context.set_trailing_metadata(
            (
                # Arrow attaches the details only to a status that carries its own code too.
                ("x-arrow-status", _ARROW_IO_ERROR),
                ("x-arrow-status-message-bin", message.encode()),
                ("grpc-status-details-bin", encode({"exception_type": name, "message": message})),
            )
        )
    context.abort(status, message)
    raise AssertionError  # abort has raised


def _outcome(error: Exception, call: Call | None) -> tuple[grpc.StatusCode, str]:
    if isinstance(error, ServerError):
        _log.debug("refused: %s", error, exc_info=error)
        return grpc.StatusCode[error.status], _one_line(_told(str(error), call))
    if isinstance(error, grpc.RpcError):
        return grpc.StatusCode.CANCELLED, "the call was cancelled"
    trace_id = call.trace_id if call else "-"
    _log.error("internal error, trace id %s", trace_id, exc_info=error)
    return grpc.StatusCode.INTERNAL, f"internal error; the server's log has it as {trace_id}"


def _told(message: str, call: Call | None) -> str:
    """Callers do not see where things are on the server; the log says it."""
    told = without_paths(message)
    if told == message or call is None:
        return told
    _log.info("refused, trace id %s: %s", call.trace_id, message)
    return f"{_shortened(told, _MAX_MESSAGE_BYTES - 50)} (trace id {call.trace_id})"


def _one_line(message: str) -> str:
    return _shortened(" ".join(message.split()))


def _shortened(text: str, most: int = _MAX_MESSAGE_BYTES) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode()
    return data[: most - 3].decode("utf-8", "ignore") + "…"
