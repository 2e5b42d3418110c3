"""Describes tables as FlightInfo, for GetFlightInfo, ListFlights, listings and DDL."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import (
    CanCount,
    CanList,
    Catalog,
    Schema,
    SchemaInfo,
    Table,
    TableInfo,
    supports,
)
from jetbridge.service.call_context import CallContext, ServedCatalog
from jetbridge.service.functions import function_flights
from jetbridge.service.table_lookup import TableLookup
from jetbridge.wire.contents import Contents, item_metadata, schema_contents
from jetbridge.wire.flight_data import encode_batch, encode_schema
from jetbridge.wire.flight_pb2 import (
    Criteria,
    FlightDescriptor,
    FlightEndpoint,
    FlightInfo,
    Location,
    SchemaResult,
)
from jetbridge.wire.flight_pb2 import Ticket as TicketMessage
from jetbridge.wire.schemas import wire_schema
from jetbridge.wire.tickets import DescriptorName, Ticket, TicketSealer, fingerprint

# Makes the client read from the connection that it already has.
SAME_CONNECTION = Location(uri="arrow-flight-reuse-connection://?")

# The path that DuckDB's extension sends for `airport_databases`, which belongs to no catalog.
_DATABASES_PATH = ("__databases",)
_DATABASES_COLUMNS = pa.schema([pa.field("name", pa.string(), nullable=False)])
DATABASES = "databases"  # the kind of the ticket
DATABASES_TICKET = Ticket("", "", "", kind=DATABASES)

_CATALOG_HEADER = "airport-list-flights-filter-catalog"
_SCHEMA_HEADER = "airport-list-flights-filter-schema"


@dataclass(frozen=True)
class FlightInfoBuilder:
    """Build FlightInfo with sealed descriptors and tickets."""

    sealer: TicketSealer

    def table(
        self,
        served: ServedCatalog,
        schema: str,
        table: Table,
        descriptor: FlightDescriptor | None = None,
        ticket: Ticket | None = None,
    ) -> FlightInfo:
        """Return the FlightInfo of a table, by default with a new descriptor and ticket."""
        info = table.info()
        columns = wire_schema(info)
        default = Ticket(served.name, schema, info.name)
        return FlightInfo(
            schema=columns.serialize().to_pybytes(),
            flight_descriptor=descriptor or self._descriptor(served, schema, info, columns),
            endpoint=[self.endpoint(ticket or default)],
            total_records=table.count_rows() if supports(table, CanCount) else -1,
            total_bytes=-1,
            app_metadata=item_metadata(
                "table", served.spelling, schema, info.name, comment=info.comment or None
            ),
        )

    def endpoint(self, ticket: Ticket) -> FlightEndpoint:
        """Return the endpoint for a ticket, which it seals."""
        sealed = TicketMessage(ticket=self.sealer.seal_ticket(ticket))
        return FlightEndpoint(ticket=sealed, location=[SAME_CONNECTION])

    def schema_contents(self, served: ServedCatalog, schema: Schema) -> tuple[SchemaInfo, Contents]:
        """Return a schema's info, and its tables and functions packed for the client."""
        info = schema.info()
        flights = [flight.SerializeToString() for flight in self._flights(served, schema, info)]
        return info, schema_contents(flights)

    def of_schema(self, served: ServedCatalog, schema: Schema) -> Iterator[FlightInfo]:
        """Yield the FlightInfo of each table and function of a schema."""
        yield from self._flights(served, schema, schema.info())

    def _flights(
        self, served: ServedCatalog, schema: Schema, info: SchemaInfo
    ) -> Iterator[FlightInfo]:
        for table in schema.list_tables():
            yield self.table(served, info.name, table)
        yield from function_flights(served, schema, info.name, self.sealer)

    def _descriptor(
        self, served: ServedCatalog, schema: str, info: TableInfo, columns: pa.Schema
    ) -> FlightDescriptor:
        name = DescriptorName(schema, info.name, "table", fingerprint(columns))
        return self.sealer.descriptor(served.name, name)


def to_list(catalog: Catalog) -> Catalog:
    """Return a snapshot of the catalog, or the catalog itself if it has no snapshots."""
    return catalog.listing() if supports(catalog, CanList) else catalog


def names_databases(descriptor: FlightDescriptor) -> bool:
    """Return whether the descriptor is that of `airport_databases`."""
    return descriptor.type == FlightDescriptor.PATH and tuple(descriptor.path) == _DATABASES_PATH


def describe_databases(
    descriptor: FlightDescriptor, call: CallContext, flights: FlightInfoBuilder
) -> FlightInfo:
    """Return the FlightInfo of `airport_databases`."""
    return FlightInfo(
        schema=_DATABASES_COLUMNS.serialize().to_pybytes(),
        flight_descriptor=descriptor,
        endpoint=[flights.endpoint(DATABASES_TICKET)],
        total_records=len(call.allowed_names()),
        total_bytes=-1,
    )


def read_databases(call: CallContext) -> Iterator[bytes]:
    """Yield the rows of `airport_databases`: the names of the catalogs the caller may use."""
    yield encode_schema(_DATABASES_COLUMNS)
    names = pa.array(call.allowed_names(), pa.string())
    yield encode_batch(pa.record_batch([names], _DATABASES_COLUMNS))


@dataclass(frozen=True)
class GetFlightInfo:
    """Answer GetFlightInfo and GetSchema."""

    locator: TableLookup
    flights: FlightInfoBuilder

    def __call__(self, descriptor: FlightDescriptor, call: CallContext) -> FlightInfo:
        if names_databases(descriptor):
            return describe_databases(descriptor, call, self.flights)
        located = self.locator.to_read(call, descriptor)
        schema = located.served.catalog.load_schema(located.name.schema).info().name
        return self.flights.table(located.served, schema, located.table, descriptor=descriptor)

    def schema(self, descriptor: FlightDescriptor, call: CallContext) -> SchemaResult:
        """Return the schema alone, for GetSchema."""
        return SchemaResult(schema=self(descriptor, call).schema)


@dataclass(frozen=True)
class ListFlights:
    """Answer ListFlights, filtered by the headers of the call."""

    flights: FlightInfoBuilder

    def __call__(self, request: Criteria, call: CallContext) -> Iterator[FlightInfo]:
        schema_name = call.headers.get(_SCHEMA_HEADER)
        for served in self._catalogs(call):
            catalog = to_list(served.catalog)
            schemas = [catalog.load_schema(schema_name)] if schema_name else catalog.list_schemas()
            for schema in schemas:
                yield from self.flights.of_schema(served, schema)

    def _catalogs(self, call: CallContext) -> list[ServedCatalog]:
        name = call.headers.get(_CATALOG_HEADER)
        return call.requested_catalogs() if name is None else [call.catalog(name)]
