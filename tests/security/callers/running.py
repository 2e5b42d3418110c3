"""Statements that run on a server, and callers that cancel them, have a deadline or are gone."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import msgpack
import psutil
import pyarrow as pa

from jetbridge.app import Shared
from jetbridge.catalog import Catalog
from jetbridge.cli.serve import statements_for_clients
from jetbridge.config import Config
from jetbridge.remote import offering
from jetbridge.service import Server
from jetbridge.service.settings import Limits
from jetbridge.spark import SparkEngine
from jetbridge.wire import flight_pb2 as pb
from tests.faults.peers import wait_until
from tests.integration.wire_calls import FLIGHT, pack

# Of a server that has nothing to do, as part of one processor.
IDLE = 0.25
# How long one may go on after the caller has gone; the machine may be busy.
AT_ONCE = 3.0


@contextmanager
def serving(catalogs: Mapping[str, Catalog], engine: SparkEngine | None = None) -> Iterator[Server]:
    """A server of these catalogs that runs statements for clients."""
    execute = statements_for_clients(Config(), Shared(Limits(), engine), catalogs)
    offered = {name: offering(each, name, execute) for name, each in catalogs.items()}
    with Server(offered, port=0) as server:
        server.start()
        yield server


class Caller:
    """Runs statements by `run`, and reads tables."""

    def __init__(self, location: str, catalog: str, token: str = "") -> None:
        options = (("grpc.use_local_subchannel_pool", 1),)
        self.channel = grpc.insecure_channel(location.removeprefix("grpc://"), options=options)
        self.headers = (
            ("airport-catalog", catalog),
            ("airport-user-agent", "airport/20250723"),
            *([("authorization", f"Bearer {token}")] if token else []),
        )
        self._path = [catalog, "jetbridge", "table_function", "run"]

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def start(self, text: str, seconds: float | None = None) -> Any:
        """The running call; `seconds` is its deadline."""
        about = pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=self._path)
        parameters = {"json_filters": "", "column_ids": [0]}
        parameters["table_function_parameters"] = _arguments(text)
        body = pack({"descriptor": about.SerializeToString(), "parameters": parameters})
        call: Any = self.channel.unary_stream(FLIGHT + "DoAction", _bytes, pb.Result.FromString)
        [planned] = call(pb.Action(type="endpoints", body=body), metadata=self.headers)
        [end] = msgpack.unpackb(planned.body, raw=True)
        return self.get(pb.FlightEndpoint.FromString(end).ticket, seconds)

    def get(self, ticket: pb.Ticket, seconds: float | None = None) -> Any:
        call: Any = self.channel.unary_stream(FLIGHT + "DoGet", _bytes, None)
        return call(ticket, metadata=self.headers, timeout=seconds)

    def run(self, text: str) -> None:
        """To its end; raises what the server says."""
        for _ in self.start(text, 60):
            pass


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _arguments(text: str) -> bytes:
    batch = pa.record_batch({"sql": [text]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def status(call: Any) -> grpc.StatusCode:
    """How the call ends."""
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def wait_until_busy(process: psutil.Process | None = None) -> None:
    wait_until(lambda: load(process) > 2 * IDLE)


def wait_until_idle(process: psutil.Process | None = None) -> float:
    """How long that took, in seconds."""
    began = time.monotonic()
    wait_until(lambda: load(process) < IDLE, AT_ONCE)
    return time.monotonic() - began


def load(process: psutil.Process | None = None, seconds: float = 0.2) -> float:
    """How many processors this process, or another one, takes."""
    watched = process or psutil.Process()
    before = watched.cpu_times()
    time.sleep(seconds)
    after = watched.cpu_times()
    return (after.user + after.system - before.user - before.system) / seconds
