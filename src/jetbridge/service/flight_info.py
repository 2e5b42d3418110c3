"""Tables as FlightInfo: what DDL answers, listings and GetFlightInfo have in common."""

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
from jetbridge.service.call_context import ServedCatalog
from jetbridge.service.functions import function_flights
from jetbridge.wire.contents import Contents, item_metadata, schema_contents
from jetbridge.wire.flight_pb2 import (
    FlightDescriptor,
    FlightEndpoint,
    FlightInfo,
    Location,
)
from jetbridge.wire.flight_pb2 import Ticket as TicketMessage
from jetbridge.wire.schemas import wire_schema
from jetbridge.wire.tickets import DescriptorName, Ticket, TicketSealer, fingerprint

# The client then reads from the connection it already has.
SAME_CONNECTION = Location(uri="arrow-flight-reuse-connection://?")


@dataclass(frozen=True)
class FlightInfoBuilder:
    sealer: TicketSealer

    def table(
        self,
        served: ServedCatalog,
        schema: str,
        table: Table,
        descriptor: FlightDescriptor | None = None,
        ticket: Ticket | None = None,
    ) -> FlightInfo:
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
        sealed = TicketMessage(ticket=self.sealer.seal_ticket(ticket))
        return FlightEndpoint(ticket=sealed, location=[SAME_CONNECTION])

    def schema_contents(self, served: ServedCatalog, schema: Schema) -> tuple[SchemaInfo, Contents]:
        info = schema.info()
        flights = [flight.SerializeToString() for flight in self._flights(served, schema, info)]
        return info, schema_contents(flights)

    def of_schema(self, served: ServedCatalog, schema: Schema) -> Iterator[FlightInfo]:
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
    """Return the catalog at one moment, if it can be listed like that."""
    return catalog.listing() if supports(catalog, CanList) else catalog
