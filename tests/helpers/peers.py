"""Both ends of a connection, for tests in which one of them fails."""

import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import psutil
import pyarrow as pa

from jetbridge.client import Client
from jetbridge.wire.flight_data import encode_batch, encode_schema
from jetbridge.wire.flight_pb2 import FlightData, FlightDescriptor
from tests.helpers.waiting import PATIENCE

SERVICE = "/arrow.flight.protocol.FlightService/"
OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_END = b""
# Spark would start for the default catalogs.
MEMORY = "\n[catalogs.memory]\ntype = 'memory'\n"


def contents(client: Client, schema: str, table: str) -> pa.Table:
    """Return every row with its row id, ordered by row id."""
    names = [*client.table(schema, table).schema.names, "rowid"]
    return client.read(schema, table, names).sort_by("rowid").combine_chunks()


@contextmanager
def channel_to(location: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(location.removeprefix("grpc://"), options=OPTIONS) as channel:
        yield channel


class RawExchange:
    """Run a DoExchange message by message, without the checks of the Python client."""

    def __init__(
        self,
        channel: grpc.Channel,
        operation: str,
        path: tuple[str, str],
        columns: pa.Schema,
        returning: bool = False,
    ) -> None:
        self._outbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.returning = returning
        self.sent_bytes = 0
        stub: Any = channel.stream_stream(SERVICE + "DoExchange", None, None)
        self.call: Any = stub(
            iter(self._outbox.get, _END),
            timeout=2 * PATIENCE,
            metadata=(
                ("airport-user-agent", "airport/20250723"),
                ("airport-catalog", "memory"),
                ("airport-operation", operation),
                ("return-chunks", "1" if returning else "0"),
            ),
        )
        descriptor = FlightDescriptor(type=FlightDescriptor.PATH, path=path)
        opening = FlightData(flight_descriptor=descriptor).SerializeToString()
        self._send(opening + encode_schema(columns))

    def read(self) -> bytes:
        message: bytes = next(self.call)
        return message

    def write(self, batch: pa.RecordBatch) -> None:
        self._send(encode_batch(batch))
        if self.returning:
            self.read()

    def half_close(self) -> None:
        self._outbox.put(_END)

    def ended(self) -> grpc.StatusCode:
        """Wait for the end, and free gRPC's thread that waits for more messages to send."""
        with suppress(grpc.RpcError):
            for _ in self.call:
                pass
        code: grpc.StatusCode = self.call.code()
        self._outbox.put(_END)
        return code

    def _send(self, message: bytes) -> None:
        self.sent_bytes += len(message) + 5  # gRPC's own header of a message
        self._outbox.put(message)


class ServerProcess:
    """Run `jetbridge serve` in a process of its own, by default with the catalog `memory`."""

    def __init__(self, directory: Path, config: str = "", port: int = 0) -> None:
        file = directory / "jetbridge.toml"
        file.write_text(config if "[catalogs" in config else config + MEMORY)
        self.log = directory / "server.log"
        command = [sys.executable, "-m", "jetbridge", "serve"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--config", str(file), "--port", str(port)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Fewer arenas of malloc: what a thread once used is not kept for it alone.
                env={**os.environ, "MALLOC_ARENA_MAX": "2"},
            )
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.kill()
            raise AssertionError(line + self.log.read_text())
        self.location = line.split()[-1]
        self._facts = psutil.Process(self.process.pid)

    @property
    def port(self) -> int:
        return int(self.location.rpartition(":")[2])

    @property
    def rss(self) -> int:
        return int(self._facts.memory_info().rss)

    @property
    def threads(self) -> int:
        return int(self._facts.num_threads())

    @property
    def files(self) -> int:
        return int(self._facts.num_fds())

    @property
    def spilled(self) -> list[str]:
        return spill_files(self.process.pid)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self, seconds: float = PATIENCE) -> int:
        code = self.process.wait(seconds)
        if self.process.stdout:
            self.process.stdout.close()
        return code

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def spill_files(pid: int) -> list[str]:
    """Return open files without a name: rows that statements have staged on disk."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.endswith("(deleted)") and not target.startswith("/memfd:"):
                found.append(target)
    return found
