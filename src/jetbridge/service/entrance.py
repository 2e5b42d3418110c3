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

from jetbridge.errors import LimitExceeded, ServerError
from jetbridge.service.auth import UnknownToken
from jetbridge.service.calls import read_headers
from jetbridge.service.failed_logins import FailedLogins

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

    def of(self, error: ServerError) -> Any:
        if not isinstance(error, UnknownToken):
            return _refusing(error, self._inline)
        if self._failed.crowded():
            error = LimitExceeded("too many calls with unknown tokens; try again later")
            return _refusing(error, self._inline, self._failed.note)
        return _refusing(error, self._failed, self._failed.note)


@dataclass(frozen=True)
class Method:
    """`check` refuses callers by their headers; handlers with a pool are for open calls."""

    handler: Any
    check: Callable[[Headers], object]
    pool: OpenCalls | None = None

    def handler_for(self, headers: Headers) -> Any:
        self.check(headers)
        if self.pool is not None:
            self.pool.refuse_if_full()
        return self.handler


class Entrance(grpc.GenericRpcHandler):
    def __init__(self, find: Callable[[str, Headers], Method | None], refusals: Refusals) -> None:
        self._find, self._refusals = find, refusals

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        headers = read_headers(details.invocation_metadata)
        method = self._find(str(details.method), headers)
        try:
            return None if method is None else method.handler_for(headers)
        except ServerError as error:
            return self._refusals.of(error)


def run_in(pool: ThreadPoolExecutor, behavior: Any) -> Any:
    setattr(behavior, _POOL, pool)
    return behavior


def _refusing(
    error: ServerError, pool: ThreadPoolExecutor, note: Callable[[str], None] | None = None
) -> Any:
    def refuse(_: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        if note is not None:
            note(context.peer())
        context.abort(error.status, str(error))
        raise AssertionError  # abort has raised

    return grpc.stream_unary_rpc_method_handler(run_in(pool, refuse))


def _done() -> Future[Any]:
    """grpcio counts a call as running until its future is done."""
    future: Future[Any] = Future()
    future.set_result(None)
    return future
