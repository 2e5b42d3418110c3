"""Messages received ahead of the handler: all of them, in order, and no more than a few MiB."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from jetbridge.service.admission import prefetch
from jetbridge.service.admission.prefetch import read_ahead

ECHO = "/test/Echo"


@contextmanager
def serving(handler: Any) -> Iterator[Any]:
    """Provide a call of a server with this handler; both sides are raw bytes."""
    methods: dict[str, Any] = {"Echo": grpc.stream_stream_rpc_method_handler(handler)}
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel.stream_stream(ECHO)
    finally:
        server.stop(0).wait()


def test_an_iterator_that_is_not_grpcs_own_is_used_as_it_is() -> None:
    requests = iter([b"a"])
    assert read_ahead(requests) is requests


def test_grpcs_inner_parts_are_as_expected() -> None:
    seen = []

    def handler(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        seen.append(type(read_ahead(requests)))
        yield b""

    with serving(handler) as call:
        list(call(iter([])))
    assert seen == [prefetch._Prefetched]


def test_every_message_arrives_once_and_in_order() -> None:
    sent = [str(n).encode() * (n % 50) + b"." for n in range(5000)]

    def handler(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        yield from read_ahead(requests)

    with serving(handler) as call:
        assert list(call(iter(sent))) == sent


def test_the_end_can_be_asked_for_again() -> None:
    def handler(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        ahead = read_ahead(requests)
        count = sum(1 for _ in ahead)
        again = [next(ahead, b"end") for _ in range(3)]
        yield b"%d %s" % (count, b" ".join(again))

    with serving(handler) as call:
        assert list(call(iter([b"x"] * 10))) == [b"10 end end end"]


def test_a_slow_handler_is_not_flooded() -> None:
    sent = []
    go_on = threading.Event()

    def messages() -> Iterator[bytes]:
        for n in range(100):
            sent.append(n)
            yield b"x" * 1_000_000

    def handler(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        ahead = read_ahead(requests)
        next(ahead)
        yield b"first"
        go_on.wait(30)
        yield b"%d" % sum(1 for _ in ahead)

    with serving(handler) as call:
        answers = call(messages())
        assert next(answers) == b"first"
        time.sleep(0.5)  # nothing tells that no more will come: it has had the time for it
        assert len(sent) < 40
        go_on.set()
        assert list(answers) == [b"99"]


def test_a_cancelled_call_is_told_from_the_end_by_asking_again() -> None:
    ended: list[str] = []
    done = threading.Event()
    wait = threading.Event()
    resumed = threading.Event()

    def messages() -> Iterator[bytes]:
        yield b"x"
        wait.wait(30)

    def handler(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        ahead = read_ahead(requests)
        yield next(ahead)
        resumed.set()
        try:
            for _ in range(3):  # the first may still look like the end, see confirm_half_close
                next(ahead, None)
            ended.append("end")
        except grpc.RpcError:
            ended.append("error")
        done.set()

    with serving(handler) as call:
        answers = call(messages())
        assert next(answers) == b"x"
        assert resumed.wait(30)  # gRPC would not go on with the handler of a cancelled call
        answers.cancel()
        assert done.wait(30)
        wait.set()
    assert ended == ["error"]
