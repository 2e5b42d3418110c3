"""SQL by `FROM catalog.jetbridge.run('...')`, as the real client calls it."""

import pyarrow as pa

from jetbridge.wire import flight_pb2 as pb
from tests.helpers.wire_calls import Answer, Wire, pack, tickets_in


def run_sql(wire: Wire, text: str, catalog: str, token: str = "") -> Answer:
    """Run the statements; the rows of the answer are their reports."""
    headers = [("airport-catalog", catalog), ("airport-user-agent", "airport/20250723")]
    if token:
        headers.append(("authorization", f"Bearer {token}"))
    path = [catalog, "jetbridge", "table_function", "run"]
    descriptor = pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=path)
    parameters = {
        "json_filters": "",
        "column_ids": [0],
        "table_function_parameters": encode_arguments(text),
    }
    body = {"descriptor": descriptor.SerializeToString(), "parameters": parameters}
    answer = wire.action("endpoints", pack(body), headers)
    return wire.get(tickets_in(answer), headers) if answer.status == "OK" else answer


def encode_arguments(text: str) -> bytes:
    batch = pa.record_batch({"sql": [text]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())
