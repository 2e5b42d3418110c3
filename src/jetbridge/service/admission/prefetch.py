"""Receives request messages ahead of the handler, and within a time limit.

grpcio receives the next message only when the handler asks for it, and wakes the handler for each:
two thread switches per message, which is most of the cost of an INSERT in small batches. Here the
receiving thread asks for the next message itself, up to a few MiB ahead, and the handler takes all
messages that have arrived. This uses private parts of grpcio. If they differ from what is expected
here, grpcio's own iterator is used, which waits without a time limit.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from grpc import _server  # the private parts of its request iterator
from grpc._cython import cygrpc  # type: ignore[attr-defined]

from jetbridge.errors import BadRequest, DeadlineExceeded, NotSupported
from jetbridge.runtime.cancellation import current

# The most bytes to receive ahead of the handler, so that a fast client cannot fill the memory.
_MOST_AHEAD = 4 * 1024 * 1024
_NO_FLAGS = 0
# No protobuf message begins like this.
_GZIP = b"\x1f\x8b"
# How often a waiting handler checks whether its call was cancelled.
_CHECK_SECONDS = 1.0


def read_ahead(requests: Iterator[bytes], most_ahead: int = _MOST_AHEAD) -> Iterator[bytes]:
    """Return the messages of a call, received up to `most_ahead` bytes ahead."""
    state, call = getattr(requests, "_state", None), getattr(requests, "_call", None)
    if not isinstance(state, _server._RPCState) or call is None:
        return requests
    return _Prefetched(state, call, most_ahead)


@contextmanager
def within(requests: Iterator[bytes], seconds: float) -> Iterator[None]:
    """Raise DeadlineExceeded in the block if it waits for prefetched requests beyond this time."""
    if not isinstance(requests, _Prefetched):
        yield
        return
    requests.seconds, requests.until = seconds, time.monotonic() + seconds
    try:
        yield
    finally:
        requests.until = None


def only_message(requests: Iterator[bytes], seconds: float) -> bytes:
    """Return the message of a call with one request, and never receive a second one."""
    requests = read_ahead(requests, most_ahead=0)
    with within(requests, seconds):
        message = next(requests, None)
    if message is None:
        raise BadRequest("the call ended before its request message was sent")
    return message


class _Prefetched:
    def __init__(self, state: Any, call: Any, most_ahead: int) -> None:
        self._state, self._call, self._most_ahead = state, call, most_ahead
        self._arrived: deque[bytes] = deque()
        self._taken: deque[bytes] = deque()
        self._ahead = 0
        self._requested = self._ended = False
        self.seconds, self.until = 0.0, None

    seconds: float
    until: float | None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._taken:
            return self._taken.popleft()
        with self._state.condition:
            self._ended = False  # a read after the end waits for the end again
            while not self._arrived:
                if self._ended:
                    raise StopIteration
                self._request_next()
                self._wait()
            self._taken, self._arrived, self._ahead = self._arrived, deque(), 0
            if self._most_ahead:
                self._request_next()
        if self._taken[0].startswith(_GZIP):
            raise NotSupported(
                "a compressed gRPC message is not supported: send it plain, or compress the "
                "Arrow data in it (IPC compression)"
            )
        return self._taken.popleft()

    def _wait(self) -> None:
        """Wait until a message may have arrived. The caller holds the condition."""
        left = _CHECK_SECONDS
        if self.until is not None:
            left = min(left, self.until - time.monotonic())
            if left <= 0:
                raise DeadlineExceeded(
                    f"the call sent no complete request within {self.seconds:g} seconds; send it "
                    "at once, or raise limits.first_message_seconds in the server's configuration"
                )
        self._state.condition.wait(left)
        current().check()

    def _request_next(self) -> None:
        """Start to receive a message, if none is under way. The caller holds the condition."""
        if not _server._is_rpc_state_active(self._state):
            raise grpc.RpcError
        if self._requested:
            return
        receive = (cygrpc.ReceiveMessageOperation(_NO_FLAGS),)
        self._call.start_server_batch(receive, self._receive)
        self._state.due.add(_server._RECEIVE_MESSAGE_TOKEN)
        self._requested = True

    def _receive(self, event: Any) -> Any:
        """Keep a received message. grpcio's receiving thread calls this."""
        message = event.batch_operations[0].message()
        with self._state.condition:
            self._requested = False
            finished = _server._possibly_finish_call(self._state, _server._RECEIVE_MESSAGE_TOKEN)
            if message is None:
                self._ended = True
                if self._state.client is _server._OPEN:
                    self._state.client = _server._CLOSED
            else:
                self._arrived.append(message)
                self._ahead += len(message)
                if self._ahead < self._most_ahead and _server._is_rpc_state_active(self._state):
                    self._request_next()
            self._state.condition.notify_all()
            return finished
