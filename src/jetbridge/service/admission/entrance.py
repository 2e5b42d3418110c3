"""What a call meets before any of its messages is received.

grpcio finds the handler of a call by its method and metadata alone, in its one thread that
serves. A call that is refused here is answered at once: it takes no thread and no place among the
calls of others. All handlers have the shape of a stream of requests, since grpcio receives the
request of other shapes before it asks the handler.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc

from jetbridge.config.limits import Token
from jetbridge.errors import LimitExceeded, ServerError
from jetbridge.service.admission.authentication import UnknownToken
from jetbridge.service.admission.failed_logins import FailedLogins, too_many
from jetbridge.service.call_context import read_headers

Headers = Mapping[str, str]
# grpcio runs a handler in the pool that it finds there.
_POOL = "experimental_thread_pool"


class Inline(ThreadPoolExecutor):
    """Runs what never waits in the thread that asks for it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        fn(*args, **kwargs)
        return _done()


class OpenCalls(ThreadPoolExecutor):
    """The few calls of callers who have not shown a token; they do not count with the others."""

    def __init__(self, at_most: int) -> None:
        super().__init__(at_most, "jetbridge-open-call")
        self._at_most, self._running = at_most, 0
        self._lock = threading.Lock()

    def refuse_if_full(self) -> None:
        with self._lock:
            if self._running >= self._at_most:
                raise LimitExceeded(
                    f"{self._at_most} calls without a token are running, the most this server "
                    "allows; try again, show a token, or raise limits.open_calls"
                )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            self._running += 1
        super().submit(fn, *args, **kwargs).add_done_callback(self._ended)
        return _done()

    def _ended(self, _: Future[Any]) -> None:
        with self._lock:
            self._running -= 1


class Refusals:
    """Handlers that answer an error and read nothing; those of failed logins are slow."""

    def __init__(self, failed: FailedLogins) -> None:
        self._failed, self._inline = failed, Inline()

    def of(self, error: ServerError, *, crowded: bool) -> Any:
        note = self._failed.note if isinstance(error, UnknownToken) else None
        if crowded:  # another answer would tell whether the token is right
            return _refusing(too_many(), self._inline, note)
        return _refusing(error, self._failed if note else self._inline, note)


@dataclass(frozen=True)
class Method:
    """`check` refuses callers by their headers; handlers with a pool are for open calls."""

    handler: Any
    check: Callable[[Headers], Token | None]
    pool: OpenCalls | None = None

    def handler_for(self, headers: Headers) -> tuple[Any, Token | None]:
        """With the token that its caller has shown."""
        token = self.check(headers)
        if self.pool is not None:
            self.pool.refuse_if_full()
        return self.handler, token


class Entrance(grpc.GenericRpcHandler):
    def __init__(self, find: Callable[[str, Headers], Method | None], failed: FailedLogins) -> None:
        self._find, self._failed, self._refusals = find, failed, Refusals(failed)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        headers = read_headers(details.invocation_metadata)
        method = self._find(str(details.method), headers)
        if method is None:
            return None
        crowded = "authorization" in headers and self._failed.crowded()
        try:
            handler, token = method.handler_for(headers)
        except ServerError as error:
            return self._refusals.of(error, crowded=crowded)
        return handler if token is None else self._admitting(handler, token.name, crowded)

    def _admitting(self, handler: Any, token: str, crowded: bool) -> Any:
        """The handler, which first looks where the call comes from: only then is that known."""
        behavior = handler.stream_stream or handler.stream_unary

        def run(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            try:
                self._failed.admit(context.peer(), token, crowded=crowded)
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
    """grpcio counts a call as running until its future is done."""
    future: Future[Any] = Future()
    future.set_result(None)
    return future
