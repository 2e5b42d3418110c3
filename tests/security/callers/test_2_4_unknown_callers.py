"""Callers without a token: the server keeps nothing of their messages, and others can call.

Attacked: 48 messages of 62 MiB, compressed and not, to every method; 560 idle streams of
reflection, handshakes, actions and health checks; logins with wrong tokens, one after the other.
"""

import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.config.model import Openness
from jetbridge.service import Limits, Server, Token
from jetbridge.service.admission import authentication
from jetbridge.wire.flight_pb2 import Action, HandshakeRequest
from tests.helpers.raw import SERVICE, Raw, said
from tests.helpers.waiting import wait_until
from tests.integration.service.test_limits import eventually

MIB = 1024 * 1024
ADA, EVE = "ada's token", "eve's guess"
CHECK = "/grpc.health.v1.Health/Check"
REFLECT = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
METHODS = {
    **{
        name: SERVICE + name for name in ("DoAction", "DoGet", "DoExchange", "DoPut", "ListFlights")
    },
    "Handshake": SERVICE + "Handshake",
    "health": CHECK,
    "unknown": "/no.such.Service/Method",
}
SERVE = """
import sys
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.service import Server, Token
tokens = [Token("ada", "ada's token")]
with Server({"memory": MemoryCatalog()}, host="0.0.0.0", port=0, tokens=tokens) as server:
    server.start()
    print(server.location.replace("0.0.0.0", "127.0.0.1"), flush=True)
    sys.stdin.read()
"""


def bearer(token: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {token}")


@contextmanager
def serving(**options: Any) -> Iterator[Server]:
    tokens = [Token("ada", ADA)]
    with Server({"memory": MemoryCatalog()}, port=0, tokens=tokens, **options) as server:
        server.start()
        yield server


def answers(server: Server) -> bool:
    with Raw(server.location, bearer(ADA)) as ada:
        ada.action("catalog_version", {"catalog_name": "memory"})
    return True


def peak_mib(process: int) -> int:
    """Return the peak memory of a process."""
    [line] = [
        line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "VmHWM" in line
    ]
    return int(line.split()[1]) // 1024


@contextmanager
def apart() -> Iterator[tuple[str, int]]:
    """Start a server in a process of its own; return both."""
    command = [sys.executable, "-c", SERVE]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.communicate("")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compressed", [True, False])
def test_nothing_of_a_message_is_kept_before_the_token_is_known(compressed: bool) -> None:
    """A compressed message is not unpacked, either."""
    compression = grpc.Compression.Gzip if compressed else grpc.Compression.NoCompression
    data = bytes((32 if compressed else 62) * MIB)
    methods = ["DoAction", "Handshake"] if compressed else METHODS
    with apart() as (location, process):
        with Raw(location) as warming:
            first: Any = warming.channel.unary_unary(METHODS["DoGet"])
            assert outcome(first.future(b"", timeout=30)) is grpc.StatusCode.UNAUTHENTICATED
        before = peak_mib(process)
        for method in methods:
            with Raw(location) as caller:
                call: Any = caller.channel.unary_unary(METHODS[method])
                sent = [call.future(data, compression=compression, timeout=60) for _ in range(5)]
                codes = {outcome(each) for each in sent}
            assert len(codes) == 1, method
            assert peak_mib(process) - before < 90, method


def outcome(call: Any) -> grpc.StatusCode:
    code: grpc.StatusCode = call.code()
    return code


def idle(location: str, method: str, count: int) -> tuple[list[Raw], list[Any], threading.Event]:
    """Open this number of calls, over several connections, and send no message."""
    ended = threading.Event()

    def nothing() -> Iterator[bytes]:
        ended.wait(60)
        yield from ()

    callers = [Raw(location) for _ in range(4)]
    calls = []
    for number in range(count):
        stream: Any = callers[number % len(callers)].channel.stream_stream(method, None, None)
        calls.append(stream(nothing(), timeout=60))
    return callers, calls, ended


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", [REFLECT, SERVICE + "Handshake", SERVICE + "DoAction"])
def test_calls_that_never_send_lock_nobody_out(method: str) -> None:
    with serving(limits=Limits(first_message_seconds=1)) as server:
        callers, calls, ended = idle(server.location, method, 560)
        began = time.monotonic()
        while time.monotonic() - began < 1:
            assert answers(server)
        codes = {call.code() for call in calls}
        assert codes <= {
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            grpc.StatusCode.DEADLINE_EXCEEDED,
            grpc.StatusCode.UNAUTHENTICATED,
        }
        ended.set()
        for caller in callers:
            caller.close()


def test_a_call_without_a_token_that_never_sends_ends_by_itself() -> None:
    with serving(limits=Limits(first_message_seconds=1, open_calls=2)) as server:
        callers, calls, ended = idle(server.location, REFLECT, 2)
        codes = {call.code() for call in calls}
        assert codes == {grpc.StatusCode.DEADLINE_EXCEEDED}
        [again] = eventually(lambda: reflect(server.location))
        assert again.list_services_response.service
        ended.set()
        for caller in callers:
            caller.close()


def test_open_calls_beyond_the_limit_are_refused_with_the_limit() -> None:
    with serving(limits=Limits(open_calls=2)) as server, Raw(server.location) as stranger:
        idle_ones = [idle(server.location, SERVICE + "Handshake", 2)]
        deadline = time.monotonic() + 10
        code = None
        while code is not grpc.StatusCode.RESOURCE_EXHAUSTED and time.monotonic() < deadline:
            request = HandshakeRequest(payload=ADA.encode()).SerializeToString()
            call = stranger.both_ways("Handshake", [request])
            with suppress(grpc.RpcError):
                list(call)  # one that is answered ends when its answer is read
            code = call.code()
            # The call before may have come first, and an idle one was refused in its place.
            idle_ones.append(idle(server.location, SERVICE + "Handshake", 1))
        assert "limits.open_calls" in call.details()
        with Raw(server.location, bearer(ADA)) as ada:  # by a header: no open call
            assert list(ada.both_ways("Handshake", []))
        for callers, _, ended in idle_ones:
            ended.set()
            for caller in callers:
                caller.close()


@pytest.mark.parametrize("kind", ["stream", "action"])
def test_a_caller_with_a_token_has_a_time_for_its_first_message(kind: str) -> None:
    operation = ("airport-operation", "insert") if kind == "stream" else ("x", "y")
    method = "DoExchange" if kind == "stream" else "DoAction"
    silent = threading.Event()

    def nothing() -> Iterator[bytes]:
        silent.wait(30)
        yield from ()

    with (
        serving(limits=Limits(first_message_seconds=0.3)) as server,
        Raw(server.location, bearer(ADA), operation) as ada,
    ):
        began = time.monotonic()
        call = ada.both_ways(method, nothing())
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "limits.first_message_seconds" in call.details()
        assert time.monotonic() - began < 20
        silent.set()


def test_a_compressed_message_is_refused() -> None:
    with serving() as server, Raw(server.location, bearer(ADA)) as ada:
        call: Any = ada.channel.unary_unary(SERVICE + "DoAction", None, None)
        request = Action(type="catalog_version", body=bytes(10_000)).SerializeToString()
        with pytest.raises(grpc.RpcError) as refused:
            call(request, compression=grpc.Compression.Gzip, metadata=ada.headers, timeout=30)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "compressed gRPC message" in said(refused)


def test_the_command_allows_many_connections() -> None:
    """Idle connections of unknown callers are open files; a process often has 1024."""
    limits = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (500, 4000)); "
    run = "from jetbridge.cli import serve; serve._allow_many_connections(); "
    shown = "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    command = [sys.executable, "-c", limits + run + shown]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "(4000, 4000)\n"


# --- health and reflection


def reflect(location: str, *headers: tuple[str, str]) -> Sequence[Any]:
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with Raw(location) as caller:
        call: Any = caller.channel.stream_stream(
            REFLECT,
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        return list(call(iter([request]), metadata=headers, timeout=10))


def check(location: str, *headers: tuple[str, str]) -> Any:
    with Raw(location) as caller:
        call: Any = caller.channel.unary_unary(
            CHECK,
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        return call(health_pb2.HealthCheckRequest(), metadata=headers, timeout=10).status


@pytest.mark.parametrize("ask", [check, reflect])
def test_beyond_loopback_health_and_reflection_need_a_token(ask: Any) -> None:
    with serving(host="0.0.0.0") as server:
        location = server.location.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(grpc.RpcError) as refused:
            ask(location)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert ask(location, bearer(ADA))


@pytest.mark.parametrize(("ask", "key"), [(check, "health"), (reflect, "reflection")])
def test_a_setting_opens_health_and_reflection_to_all_or_to_none(ask: Any, key: str) -> None:
    with serving(host="0.0.0.0", openness=Openness(**{key: True})) as server:
        assert ask(server.location.replace("0.0.0.0", "127.0.0.1"))
    with serving(openness=Openness(**{key: False})) as server:
        with pytest.raises(grpc.RpcError) as refused:
            ask(server.location)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("header", ["Basic =", "Basic YQ==", "Basic", "Bearer", "", " "])
def test_a_header_that_cannot_be_read_is_refused(header: str) -> None:
    with serving(host="0.0.0.0") as server:
        location = server.location.replace("0.0.0.0", "127.0.0.1")
        for method in ("Handshake", "DoAction"):
            with Raw(location) as stranger:
                call = stranger.both_ways(method, [], ("authorization", header))
                assert call.code() is grpc.StatusCode.UNAUTHENTICATED


def test_beyond_loopback_a_handshake_shows_its_token_in_a_header() -> None:
    request = HandshakeRequest(payload=ADA.encode()).SerializeToString()
    with serving(host="0.0.0.0") as server:
        location = server.location.replace("0.0.0.0", "127.0.0.1")
        with Raw(location) as stranger:
            call = stranger.both_ways("Handshake", [request])
            assert call.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "authorization" in call.details()
        with Raw(location, bearer(ADA)) as ada:
            assert list(ada.both_ways("Handshake", []))


# --- failed logins


def test_failed_logins_are_logged_once_for_many_and_without_the_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    payload = HandshakeRequest(payload=EVE.encode()).SerializeToString()
    with serving() as server, caplog.at_level(logging.DEBUG):
        with Raw(server.location, bearer(EVE)) as eve:
            for _ in range(20):
                assert eve.both_ways("DoAction", []).code() is grpc.StatusCode.UNAUTHENTICATED
        with Raw(server.location) as eve:
            call = eve.both_ways("Handshake", [payload])
            assert call.code() is grpc.StatusCode.UNAUTHENTICATED
    lines = [r for r in caplog.records if "unknown token" in r.getMessage()]
    assert len(lines) == 1
    assert "127.0.0.1" in lines[0].getMessage()
    assert EVE not in caplog.text


CLOSED = Openness(health=False, reflection=False)
CROWDED = "too many calls with unknown tokens; try again later"


def crowd(eve: Raw) -> list[Any]:
    """Send wrong tokens until the server checks no further ones."""
    calls = [eve.both_ways("DoAction", []) for _ in range(200)]
    wait_until(lambda: len([call for call in calls if not call.is_active()]) > 150)
    return calls


def guess(caller: Raw, method: str, token: str, seconds: float) -> Any:
    call: Any = caller.channel.stream_unary(method)
    return call.future(iter([]), metadata=[bearer(token)], timeout=seconds)


def test_failed_logins_are_slowed_down_and_others_are_not() -> None:
    """A right token is answered at once, so a guess that waits has been checked, too."""
    with serving(openness=CLOSED) as server, Raw(server.location, bearer(EVE)) as eve:
        assert answers(server)
        parked = crowd(eve)
        codes: Counter[grpc.StatusCode] = Counter()
        began = time.monotonic()
        while time.monotonic() - began < 3:
            for method in (SERVICE + "DoAction", SERVICE + "Handshake", CHECK):
                codes[guess(eve, method, EVE, 0.3).code()] += 1
            assert answers(server)
        judged = codes.total() - codes[grpc.StatusCode.UNAVAILABLE]
        assert judged <= 3 * (time.monotonic() - began)
        assert codes.total() > 30
        codes = Counter(call.code() for call in parked if not call.is_active())
        assert set(codes) == {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE}


@pytest.mark.parametrize("method", [SERVICE + "DoAction", SERVICE + "Handshake", CHECK, REFLECT])
def test_a_right_guess_is_answered_as_a_wrong_one_while_many_guess(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "_PAUSE_SECONDS", 60.0)  # it stays crowded
    with serving(openness=CLOSED) as server, Raw(server.location, bearer(EVE)) as eve:
        crowd(eve)
        calls = [guess(eve, method, token, 5) for token in (EVE, ADA)]
        told = {(call.code(), call.details()) for call in calls}
        assert told == {(grpc.StatusCode.UNAVAILABLE, CROWDED)}


def test_guesses_in_the_message_of_a_handshake_are_slow() -> None:
    payload = HandshakeRequest(payload=EVE.encode()).SerializeToString()
    with serving(limits=Limits(open_calls=8)) as server, Raw(server.location) as eve:
        began = time.monotonic()
        calls = [eve.both_ways("Handshake", [payload]) for _ in range(6)]
        assert {call.code() for call in calls} == {grpc.StatusCode.UNAUTHENTICATED}
        assert time.monotonic() - began >= 2.5
