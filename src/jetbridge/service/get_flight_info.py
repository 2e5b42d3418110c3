"""GetFlightInfo and GetSchema: one table by its descriptor, or the list of catalogs."""

from dataclasses import dataclass

from jetbridge.service.call_context import Call
from jetbridge.service.databases import describe_databases, names_databases
from jetbridge.service.flight_info import FlightInfoBuilder
from jetbridge.service.table_lookup import TableLookup
from jetbridge.wire.flight_pb2 import FlightDescriptor, FlightInfo, SchemaResult


@dataclass(frozen=True)
class GetFlightInfo:
    locator: TableLookup
    flights: FlightInfoBuilder

    def __call__(self, descriptor: FlightDescriptor, call: Call) -> FlightInfo:
        if names_databases(descriptor):
            return describe_databases(descriptor, call, self.flights)
        located = self.locator.to_read(call, descriptor)
        schema = located.served.catalog.load_schema(located.name.schema).info().name
        return self.flights.table(located.served, schema, located.table, descriptor=descriptor)

    def schema(self, descriptor: FlightDescriptor, call: Call) -> SchemaResult:
        return SchemaResult(schema=self(descriptor, call).schema)
