"""What of a recorded answer two good servers must agree on."""

from typing import Any

import pyarrow as pa

from jetbridge.wire import flight_pb2 as pb
from tests.helpers.wire_calls import (
    as_bytes,
    read_schema,
    read_stream,
    unpack,
    unpack_listing,
)
from tests.integration.replay.recordings import FLIGHT_ANSWERS, Rpc, flights_in


def meaning(rpc: Rpc, messages: list[bytes]) -> Any:
    """Return the part of an answer on which both servers must agree."""
    if rpc.action == "list_schemas":
        listing = unpack_listing(pb.Result.FromString(messages[0]).body)
        return sorted(schema["name"] for schema in listing["schemas"])
    if rpc.method == "ListFlights" or rpc.action in FLIGHT_ANSWERS:
        bound = rpc.action == "table_function_flight_info"
        return sorted(flight_meaning(f, bound) for f in flights_in(rpc, messages))
    if rpc.method == "DoGet":
        return scan_meaning(rpc, messages)
    if rpc.method == "DoExchange":
        return exchange_meaning(rpc, messages)
    if rpc.action == "catalog_version":
        return unpack(pb.Result.FromString(messages[0]).body)["is_fixed"]
    return None


def columns(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return columns without NOT NULL and defaults, which the reference servers do not report."""
    return [(f.name, str(f.type)) for f in schema]


def flight_meaning(flight: pb.FlightInfo, bound: bool) -> tuple[Any, ...]:
    about = unpack(flight.app_metadata)
    key = (about["catalog"], about["schema"], about["type"], about["name"])
    if about["type"] == "table" or bound:
        return (*key, columns(read_schema(flight.schema)))
    parameters = read_schema(as_bytes(about["input_schema"]))
    return (*key, [(f.name, tuple(f.metadata or ())) for f in parameters])


def scan_meaning(rpc: Rpc, messages: list[bytes]) -> Any:
    schema, batches = read_stream(messages)
    if rpc.header("airport-catalog") != "test1":
        return columns(schema)
    # Of tables, the functions' recording asks for the first column only.
    names = schema.names[:1] if "rowid" in schema.names else schema.names
    return columns(schema), [row for batch in batches for row in batch.select(names).to_pylist()]


def exchange_meaning(rpc: Rpc, messages: list[bytes]) -> Any:
    """Return the rows and the number of changed ones; the order of columns is free but once."""
    data = [pb.FlightData.FromString(message) for message in messages]
    if rpc.header("return-chunks") == "0":
        return [unpack(d.app_metadata) for d in data[-1:]]
    schema, batches = read_stream(messages)
    rows = [batch.to_pylist() for batch in batches]
    marks = [d.app_metadata for d in data]
    return sorted(schema.names), rows, marks
