"""`FROM catalog.jetbridge.run('…')` over the wire, with the Spark that the tests share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge.app import Shared
from jetbridge.catalog import Catalog
from jetbridge.cli.serve import statements_for_clients
from jetbridge.config import Config
from jetbridge.remote import offering
from jetbridge.service import Server
from jetbridge.wire import flight_pb2 as pb
from tests import lakes
from tests.integration.wire_calls import Answer, Wire, pack, read_rows, tickets_in


@dataclass(frozen=True)
class Caller:
    """Somebody who has attached `catalog`."""

    wire: Wire
    catalog: str

    def ask(self, text: str) -> Answer:
        headers = [("airport-catalog", self.catalog), ("airport-user-agent", "airport/20250723")]
        path = [self.catalog, "jetbridge", "table_function", "run"]
        asked = {
            "descriptor": pb.FlightDescriptor(
                type=pb.FlightDescriptor.PATH, path=path
            ).SerializeToString(),
            "parameters": {
                "json_filters": "",
                "column_ids": [0],
                "table_function_parameters": _arguments(text),
            },
        }
        answer = self.wire.action("endpoints", pack(asked), headers)
        return self.wire.get(tickets_in(answer), headers) if answer.status == "OK" else answer

    def run(self, text: str) -> list[dict[str, Any]]:
        """A report for each statement; none may fail."""
        found: list[dict[str, Any]] = read_rows(self.ask(text)).to_pylist()
        return found


def _arguments(text: str) -> bytes:
    batch = pa.record_batch({"sql": [text]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


@contextmanager
def running(
    catalogs: Mapping[str, Catalog], attached: str, config: Config | None = None
) -> Iterator[Caller]:
    """A server of these catalogs; the caller has attached one of them."""
    given = config or Config()
    execute = statements_for_clients(given, Shared(given.limits, lakes.engine()), catalogs)
    offered = {name: offering(each, name, execute) for name, each in catalogs.items()}
    with Server(offered, port=0) as server:
        server.start()
        with Wire(server.location) as wire:
            yield Caller(wire, attached)
