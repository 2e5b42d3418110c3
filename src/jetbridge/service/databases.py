"""Serves `airport_databases`: the catalogs that a caller may ATTACH, as rows.

The extension reads them as a flight of this path, without a catalog.
"""

from collections.abc import Iterator

import pyarrow as pa

from jetbridge.service.call_context import Call
from jetbridge.service.flight_info import FlightInfoBuilder
from jetbridge.wire.flight_data import encode_batch, encode_schema
from jetbridge.wire.flight_pb2 import FlightDescriptor, FlightInfo
from jetbridge.wire.tickets import Ticket

_PATH = ("__databases",)
_COLUMNS = pa.schema([pa.field("name", pa.string(), nullable=False)])
DATABASES = "databases"  # the kind of its tickets
TICKET = Ticket("", "", "", kind=DATABASES)


def names_databases(descriptor: FlightDescriptor) -> bool:
    """Return whether the descriptor is that of `airport_databases`."""
    return descriptor.type == FlightDescriptor.PATH and tuple(descriptor.path) == _PATH


def describe_databases(
    descriptor: FlightDescriptor, call: Call, flights: FlightInfoBuilder
) -> FlightInfo:
    return FlightInfo(
        schema=_COLUMNS.serialize().to_pybytes(),
        flight_descriptor=descriptor,
        endpoint=[flights.endpoint(TICKET)],
        total_records=len(call.allowed_names()),
        total_bytes=-1,
    )


def read_databases(call: Call) -> Iterator[bytes]:
    yield encode_schema(_COLUMNS)
    yield encode_batch(pa.record_batch([pa.array(call.allowed_names(), pa.string())], _COLUMNS))
