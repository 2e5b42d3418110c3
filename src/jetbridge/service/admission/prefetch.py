"""Request messages, received ahead of the handler and within a time.

grpcio asks for the next message only when the handler wants it, and wakes the handler for each:
two switches of threads per message, which is most of what an INSERT in small batches costs. Here
the thread that receives asks for the next one itself, up to a few MiB ahead, and the handler
takes all that has come. This leans on grpcio's inner parts; where they are not as expected, its
own iterator is used, which waits for as long as the caller likes.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from grpc import _server  # its own iterator, done differently
from grpc._cython import cygrpc  # type: ignore[attr-defined]

from jetbridge.errors import BadRequest, DeadlineExceeded, NotSupported
from jetbridge.runtime.cancellation import current

# Ahead of the handler, in bytes: bounded, so that a fast client cannot fill the memory.
_MOST_AHEAD = 4 * 1024 * 1024
_NO_FLAGS = 0
# No protobuf message begins like this.
_GZIP = b"\x1f\x8b"
# How often one who waits looks whether the call was cancelled meanwhile.
_LOOK_SECONDS = 1.0


def prefetched(requests: Iterator[bytes], most_ahead: int = _MOST_AHEAD) -> Iterator[bytes]:
    state, call = getattr(requests, "_state", None), getattr(requests, "_call", None)
    if not isinstance(state, _server._RPCState) or call is None:
        return requests
    return _Prefetched(state, call, most_ahead)


@contextmanager
def within(requests: Iterator[bytes], seconds: float) -> Iterator[None]:
    """What the block takes of prefetched requests comes in this time, or DeadlineExceeded."""
    if not isinstance(requests, _Prefetched):
        yield
        return
    requests.seconds, requests.until = seconds, time.monotonic() + seconds
    try:
        yield
    finally:
        requests.until = None


def only_message(requests: Iterator[bytes], seconds: float) -> bytes:
    """That of a call with one request; more than the first one is never received."""
    requests = prefetched(requests, most_ahead=0)
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
        self._asking = self._ended = False
        self.seconds, self.until = 0.0, None

    seconds: float
    until: float | None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._taken:
            return self._taken.popleft()
        with self._state.condition:
            self._ended = False  # whoever asks again after the end waits for the end again
            while not self._arrived:
                if self._ended:
                    raise StopIteration
                self._ask()
                self._wait()
            self._taken, self._arrived, self._ahead = self._arrived, deque(), 0
            if self._most_ahead:
                self._ask()
        if self._taken[0].startswith(_GZIP):
            raise NotSupported(
                "a compressed gRPC message is not supported: send it plain, or compress the "
                "Arrow data in it (IPC compression)"
            )
        return self._taken.popleft()

    def _wait(self) -> None:
        """Until something may have come; the caller holds the condition."""
        left = _LOOK_SECONDS
        if self.until is not None:
            left = min(left, self.until - time.monotonic())
            if left <= 0:
                raise DeadlineExceeded(
                    f"the call sent no complete request within {self.seconds:g} seconds; send it "
                    "at once, or raise limits.first_message_seconds in the server's configuration"
                )
        self._state.condition.wait(left)
        current().check()

    def _ask(self) -> None:
        """Asks for a message, unless that is under way; the caller holds the condition."""
        if not _server._is_rpc_state_active(self._state):
            raise grpc.RpcError
        if self._asking:
            return
        receive = (cygrpc.ReceiveMessageOperation(_NO_FLAGS),)
        self._call.start_server_batch(receive, self._receive)
        self._state.due.add(_server._RECEIVE_MESSAGE_TOKEN)
        self._asking = True

    def _receive(self, event: Any) -> Any:
        """Called by the thread that receives."""
        message = event.batch_operations[0].message()
        with self._state.condition:
            self._asking = False
            finished = _server._possibly_finish_call(self._state, _server._RECEIVE_MESSAGE_TOKEN)
            if message is None:
                self._ended = True
                if self._state.client is _server._OPEN:
                    self._state.client = _server._CLOSED
            else:
                self._arrived.append(message)
                self._ahead += len(message)
                if self._ahead < self._most_ahead and _server._is_rpc_state_active(self._state):
                    self._ask()
            self._state.condition.notify_all()
            return finished
