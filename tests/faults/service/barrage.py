"""Send mutated requests over several connections and check every answer."""

import random
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc

from jetbridge.client import connect
from jetbridge.wire.flight_pb2 import Result
from tests.faults.service.mutation import (
    STREAMING,
    Request,
    hand_made,
    mutate,
    preparation,
    recorded,
    tickets,
)
from tests.faults.service.odd_types import inserts, tables
from tests.helpers.peers import OPTIONS, SERVICE, ServerProcess

CONNECTIONS = 8
CALL_SECONDS = 30.0
MAX_MESSAGE = 2048
# Codes that no request, however broken, may be answered with.
FORBIDDEN = frozenset(
    {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED}
)
EXCHANGES = 16  # as in CONFIG
POOL = 32 + 16  # the threads a server of CONFIG may start: its calls, and some to spare
LEAK = re.compile(r"Traceback|site-packages|\.py\b|/root/|/home/|/usr/|/work/|line \d+, in ")
CONFIG = """
[server]
transaction_seconds = 1
[limits]
concurrent_calls = 32
exchanges = 16
scans = 16
[catalogs.cat]
type = "memory"
"""


@dataclass
class Outcome:
    codes: Counter = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, number: int, request: Request, code: grpc.StatusCode, text: str) -> None:
        wrong = code in FORBIDDEN or LEAK.search(text) or len(text.encode()) >= MAX_MESSAGE
        with self.lock:
            self.codes[code.name] += 1
            if wrong:
                name = dict(request.headers).get("airport-action-name", "")
                self.problems.append(f"{number} {request.method} {name}: {code.name} {text[:300]}")


def send(channel: grpc.Channel, request: Request) -> tuple[grpc.StatusCode, str]:
    """Send a request; return the status code and its longest message."""
    path = SERVICE + request.method
    call: Any
    stub: Any
    if request.method in STREAMING:
        stub = channel.stream_stream(path, None, None)
        call = stub(iter(request.messages), metadata=request.headers, timeout=CALL_SECONDS)
    else:
        message = request.messages[0] if request.messages else b""
        stub = channel.unary_stream(path, None, None)
        call = stub(message, metadata=request.headers, timeout=CALL_SECONDS)
    try:
        for _ in call:
            pass
    except grpc.RpcError:
        pass
    said = [call.details() or "", *(repr(value) for _, value in call.trailing_metadata() or ())]
    return call.code(), max(said, key=len)


class Barrage:
    """Generate requests; request `n` depends only on the seed and `n`."""

    def __init__(self, server: ServerProcess, seed: int) -> None:
        self.server, self.seed = server, seed
        self._stack = ExitStack()
        target = server.location.removeprefix("grpc://")
        self._channels = [
            self._stack.enter_context(grpc.insecure_channel(target, options=OPTIONS))
            for _ in range(CONNECTIONS)
        ]
        self.client = self._stack.enter_context(connect(server.location, "cat"))
        self.recording = list(recorded())
        self.requests: list[Request] = []
        self.kinds: list[list[Request]] = []

    def __enter__(self) -> "Barrage":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def prepare(self) -> None:
        """Replay the recorded statements, then build requests about their tables."""
        for request in [*self.recording, *preparation()]:
            send(self._channels[0], request)
        made = hand_made()
        asked = next(r for r in made if ("airport-action-name", "endpoints") in r.headers)
        call: Any = self._channels[0].unary_stream(SERVICE + "DoAction", None, None)
        answer = next(iter(call(asked.messages[0], metadata=asked.headers)))
        rng = random.Random(self.seed)
        made += [*tables(rng), *inserts(rng), *tickets(_body(answer))]
        self.kinds = _by_kind([*self.recording, *made])
        self.requests = [request for kind in self.kinds for request in kind]

    def clean_up(self) -> None:
        """Drop everything, so that what the server still holds is not data."""
        for schema in self.client.list_schemas():
            if schema.name == "jetbridge":  # of the server itself
                continue
            for table in schema.tables:
                self.client.drop_table(schema.name, table.name)
            self.client.drop_schema(schema.name)

    def run(self, first: int, count: int, outcome: Outcome) -> None:
        numbers = iter(range(first, first + count))
        lock = threading.Lock()

        def work(channel: grpc.Channel) -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                request = self.request(number)
                outcome.add(number, request, *send(channel, request))

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            for done in [pool.submit(work, channel) for channel in self._channels]:
                done.result()

    def request(self, number: int) -> Request:
        rng = random.Random(f"{self.seed}/{number}")
        request = rng.choice(rng.choice(self.kinds))
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            mutated = mutate(rng, request, self.requests)
            if mutated.messages and all(mutated.messages):
                request = mutated
        return request


def _by_kind(requests: list[Request]) -> list[list[Request]]:
    """Group the recorded requests, so that every kind is equally likely."""
    kinds: dict[tuple, list[Request]] = {}
    for request in requests:
        headers = dict(request.headers)
        names = headers.get("airport-action-name"), headers.get("airport-operation")
        kinds.setdefault((request.method, *names), []).append(request)
    return list(kinds.values())


def _body(result: bytes) -> bytes:
    body: bytes = Result.FromString(result).body
    return body
