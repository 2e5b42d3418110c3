"""Serve the reference: the smallest pyarrow.flight server that does the same work.

It keeps batches by name and returns them. It has no checks, types, versions, row ids or
transactions.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import flight


class Peer(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._tables: dict[str, tuple[pa.Schema, list[pa.RecordBatch]]] = {}

    def do_get(self, context: Any, ticket: Any) -> flight.RecordBatchStream:
        schema, batches = self._tables[ticket.ticket.decode()]
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, batches))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Keep the batches unchanged: their size is part of the measurement."""
        self._tables[descriptor.path[0].decode()] = (reader.schema, [part.data for part in reader])

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        name, mode = (part.decode() for part in descriptor.path)
        writer.begin(reader.schema)
        # Without an echo all of it runs in C++, which is faster than a loop over the batches.
        batches = _echo(reader, writer) if mode == "echo" else reader.read_all().to_batches()
        self._tables[name] = (reader.schema, list(batches))
        writer.write_metadata(b"done")

    def do_action(self, context: Any, action: Any) -> list[flight.Result]:
        return [flight.Result(b"")]


def _echo(reader: Any, writer: Any) -> Iterator[pa.RecordBatch]:
    for part in reader:
        writer.write_batch(part.data)
        yield part.data


if __name__ == "__main__":
    server = Peer()
    print(f"listening on grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()
