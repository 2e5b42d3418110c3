"""Statements that run on a server, and callers that cancel them, have a deadline or are killed."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgpack
import pyarrow as pa

from jetbridge.app.run_function import statements_for_clients, with_run_function
from jetbridge.catalog import Catalog
from jetbridge.catalog.backend import SharedResources
from jetbridge.config import Config
from jetbridge.config.model import Limits
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.service import Server
from jetbridge.spark import SparkEngine
from jetbridge.wire import flight_pb2 as pb
from jetbridge.wire.flight_data import encode_batch
from tests.helpers.raw import opening
from tests.helpers.run_calls import encode_arguments
from tests.helpers.waiting import wait_until
from tests.helpers.wire_calls import FLIGHT, pack
from tests.security.run.processes import computed

# Of a server that has nothing to do, as part of one processor.
IDLE = 0.25
# Seconds of computing after which a statement runs in earnest.
BUSY = 0.3
# How long a statement may go on after its caller has gone; the machine may be busy.
AT_ONCE = 10.0


@contextmanager
def serving(catalogs: Mapping[str, Catalog], engine: SparkEngine | None = None) -> Iterator[Server]:
    """A server of these catalogs that runs statements for clients."""
    resources = SharedResources(Limits(), engine)
    with StatementProcesses() as processes:
        execute = statements_for_clients(Config(), resources, catalogs, processes)
        offered = {name: with_run_function(c, name, execute) for name, c in catalogs.items()}
        with Server(offered, port=0) as server:
            server.start()
            yield server


class Caller:
    """Runs statements by `run`, sends rows, and reads tables."""

    def __init__(self, location: str, catalog: str, token: str = "") -> None:
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
        )
        self.location, self.catalog = location, catalog
        self.channel = grpc.insecure_channel(location.removeprefix("grpc://"), options=options)
        self.headers = (
            ("airport-catalog", catalog),
            ("airport-user-agent", "airport/20250723"),
            *([("authorization", f"Bearer {token}")] if token else []),
        )

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def start(self, text: str, seconds: float | None = None) -> Any:
        """The running call; `seconds` is its deadline."""
        path = [self.catalog, "jetbridge", "table_function", "run"]
        parameters = {"column_ids": [0], "table_function_parameters": encode_arguments(text)}
        return self._get(path, parameters, seconds)

    def scan(self, schema: str, table: str) -> Any:
        return self._get([schema, table], {})

    def _get(
        self, path: list[str], parameters: dict[str, Any], seconds: float | None = None
    ) -> Any:
        about = pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=path).SerializeToString()
        body = pack({"descriptor": about, "parameters": {"json_filters": "", **parameters}})
        act: Any = self.channel.unary_stream(FLIGHT + "DoAction", _bytes, pb.Result.FromString)
        [planned] = act(pb.Action(type="endpoints", body=body), metadata=self.headers)
        [end] = msgpack.unpackb(planned.body, raw=True)
        get: Any = self.channel.unary_stream(FLIGHT + "DoGet", _bytes, None)
        ticket = pb.FlightEndpoint.FromString(end).ticket
        return get(ticket, metadata=self.headers, timeout=seconds)

    def send(self, operation: str, table: str, rows: pa.Table) -> Any:
        """The running call of an INSERT, UPDATE or DELETE of a table in schema `s`."""
        messages = [opening(("s", table), rows.schema), *map(encode_batch, rows.to_batches())]
        headers = (("airport-operation", operation), ("return-chunks", "0"))
        call: Any = self.channel.stream_stream(FLIGHT + "DoExchange", None, None)
        return call(iter(messages), metadata=self.headers + headers)

    def run(self, text: str) -> None:
        """To its end; raises what the server says."""
        for _ in self.start(text, 60):
            pass

    def holds(self, condition: str) -> bool:
        """Whether the query gives TRUE."""
        call = self.start(f"SELECT CASE WHEN ({condition}) THEN 1 ELSE error('it is not so') END")
        if status(call) is grpc.StatusCode.OK:
            return True
        assert "it is not so" in str(call.details()), call.details()
        return False

    def process(self, text: str, seconds: float | None = None) -> "subprocess.Popen[str]":
        """Another process that runs this."""
        code = (
            "import sys; from tests.security.cancelled.running import Caller, status\n"
            f"caller = Caller({self.location!r}, {self.catalog!r})\n"
            f"call = caller.start({text!r}, {seconds})\n"
            "print('started', flush=True); print(status(call).name, flush=True)"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        return process


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def temporary_folders() -> set[str]:
    """Of this process."""
    found = Path(tempfile.gettempdir()).glob(f"jetbridge-*-{os.getpid()}-*")
    return {folder.name for folder in found}


def status(call: Any) -> grpc.StatusCode:
    """How the call ends."""
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def wait_until_busy(server: Server) -> None:
    """Until a call is in the midst of its work."""
    wait_until(lambda: server._shutdown._running)
    before = computed()
    wait_until(lambda: computed() - before > BUSY, step=0.02)


def wait_until_left(server: Server, seconds: float = AT_ONCE) -> float:
    """Until no call runs any more: from then on nobody changes anything. How long that took."""
    began = time.monotonic()
    wait_until(lambda: not server._shutdown._running, seconds)
    took = time.monotonic() - began
    wait_until(lambda: load() < IDLE, seconds)
    return took


def load() -> float:
    """How many processors this process and its statements take."""
    began, before = time.monotonic(), computed()
    time.sleep(0.2)  # a share of processors is measured over a time
    return (computed() - before) / (time.monotonic() - began)
