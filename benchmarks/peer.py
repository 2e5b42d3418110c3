"""The yardstick: the smallest pyarrow.flight server that does the same work.

It keeps batches by name and hands them out again. It checks nothing, knows no types, versions,
row ids or transactions.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import flight


class Peer(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._kept: dict[str, tuple[pa.Schema, list[pa.RecordBatch]]] = {}

    def do_get(self, context: Any, ticket: Any) -> flight.RecordBatchStream:
        schema, batches = self._kept[ticket.ticket.decode()]
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, batches))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Keeps the batches as they come; they are to be read back in just these sizes."""
        self._kept[descriptor.path[0].decode()] = (reader.schema, [part.data for part in reader])

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        name, how = (part.decode() for part in descriptor.path)
        writer.begin(reader.schema)
        # Without an echo in C++ from beginning to end, which beats a loop over the batches.
        batches = _echoed(reader, writer) if how == "echo" else reader.read_all().to_batches()
        self._kept[name] = (reader.schema, list(batches))
        writer.write_metadata(b"done")

    def do_action(self, context: Any, action: Any) -> list[flight.Result]:
        return [flight.Result(b"")]


def _echoed(reader: Any, writer: Any) -> Iterator[pa.RecordBatch]:
    for part in reader:
        writer.write_batch(part.data)
        yield part.data


if __name__ == "__main__":
    server = Peer()
    print(f"listening on grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()
