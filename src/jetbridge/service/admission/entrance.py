"""Refuses calls by their headers, before any of their messages is received.

grpcio finds the handler of a call by its method and metadata alone, in the one thread that
accepts calls. A call that is refused here is answered at once: it takes no thread and does not
count towards the limits of other calls. All handlers take a stream of requests, because grpcio
receives the request of other handlers before it runs them.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc

from jetbridge.config.model import Token
from jetbridge.errors import LimitExceeded, ServerError
from jetbridge.service.admission.authentication import (
    FailedLogins,
    UnknownToken,
    too_many_failed_logins,
)
from jetbridge.service.call_context import read_headers

Headers = Mapping[str, str]
# grpcio runs a handler in the pool that this attribute of the handler names.
_POOL = "experimental_thread_pool"


class Inline(ThreadPoolExecutor):
    """Run functions that never wait in the calling thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        fn(*args, **kwargs)
        return _done()


class OpenCalls(ThreadPoolExecutor):
    """Run the calls of callers without a token, apart from all other calls and a few at a time."""

    def __init__(self, at_most: int) -> None:
        super().__init__(at_most, "jetbridge-open-call")
        self._at_most, self._running = at_most, 0
        self._lock = threading.Lock()

    def refuse_if_full(self) -> None:
        """Raise LimitExceeded if all threads of the pool are busy."""
        with self._lock:
            if self._running >= self._at_most:
                raise LimitExceeded(
                    f"{self._at_most} calls without a token are running, the most this server "
                    "allows; try again, send a token, or raise limits.open_calls"
                )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            self._running += 1
        super().submit(fn, *args, **kwargs).add_done_callback(self._end)
        return _done()

    def _end(self, _: Future[Any]) -> None:
        with self._lock:
            self._running -= 1


class Refusals:
    """Make handlers that answer with an error and read nothing. Failed logins are slowed down."""

    def __init__(self, failed_logins: FailedLogins) -> None:
        self._failed_logins, self._inline = failed_logins, Inline()

    def handler_for(self, error: ServerError, *, crowded: bool) -> Any:
        """Return the handler that answers this error."""
        note = self._failed_logins.note if isinstance(error, UnknownToken) else None
        if crowded:  # any other answer would reveal whether the token is right
            return _refusing(too_many_failed_logins(), self._inline, note)
        return _refusing(error, self._failed_logins if note else self._inline, note)


@dataclass(frozen=True)
class Method:
    """Describe how a method is served.

    `check` refuses callers by their headers. A handler with a `pool` serves callers without a
    token.
    """

    handler: Any
    check: Callable[[Headers], Token | None]
    pool: OpenCalls | None = None

    def handler_for(self, headers: Headers) -> tuple[Any, Token | None]:
        """Return the handler for a caller with these headers, and the caller's token."""
        token = self.check(headers)
        if self.pool is not None:
            self.pool.refuse_if_full()
        return self.handler, token


class Entrance(grpc.GenericRpcHandler):
    """Find the handler of each call, or one that refuses it."""

    def __init__(
        self, find: Callable[[str, Headers], Method | None], failed_logins: FailedLogins
    ) -> None:
        self._find, self._failed_logins = find, failed_logins
        self._refusals = Refusals(failed_logins)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, as grpcio expects it; None for an unknown method."""
        headers = read_headers(details.invocation_metadata)
        method = self._find(str(details.method), headers)
        if method is None:
            return None
        crowded = "authorization" in headers and self._failed_logins.is_crowded()
        try:
            handler, token = method.handler_for(headers)
        except ServerError as error:
            return self._refusals.handler_for(error, crowded=crowded)
        return handler if token is None else self._admitting(handler, token.name, crowded)

    def _admitting(self, handler: Any, token: str, crowded: bool) -> Any:
        """Wrap a handler so that it first checks the caller's address, which is known only then."""
        behavior = handler.stream_stream or handler.stream_unary

        def run(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            try:
                self._failed_logins.admit(context.peer(), token, crowded=crowded)
            except ServerError as error:
                context.abort(grpc.StatusCode[error.status], str(error))
            return behavior(requests, context)

        make: Any = grpc.stream_unary_rpc_method_handler
        if handler.response_streaming:
            make = grpc.stream_stream_rpc_method_handler
        if pool := getattr(behavior, _POOL, None):
            run_in(pool, run)
        return make(run, handler.request_deserializer, handler.response_serializer)


def run_in(pool: ThreadPoolExecutor, behavior: Any) -> Any:
    """Make grpcio run a handler in this pool, and return the handler."""
    setattr(behavior, _POOL, pool)
    return behavior


def _refusing(
    error: ServerError, pool: ThreadPoolExecutor, note: Callable[[str], None] | None = None
) -> Any:
    def refuse(_: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        if note is not None:
            note(context.peer())
        context.abort(grpc.StatusCode[error.status], str(error))
        raise AssertionError  # abort has raised

    return grpc.stream_unary_rpc_method_handler(run_in(pool, refuse))


def _done() -> Future[Any]:
    """Return a finished future. grpcio counts a call as running until its future is done."""
    future: Future[Any] = Future()
    future.set_result(None)
    return future
