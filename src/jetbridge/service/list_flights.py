"""ListFlights: the contents of one schema, or of everything the caller may see."""

from collections.abc import Iterator
from dataclasses import dataclass

from jetbridge.service.call_context import Call, ServedCatalog
from jetbridge.service.flight_info import FlightInfoBuilder, to_list
from jetbridge.wire.flight_pb2 import Criteria, FlightInfo

_CATALOG = "airport-list-flights-filter-catalog"
_SCHEMA = "airport-list-flights-filter-schema"


@dataclass(frozen=True)
class ListFlights:
    flights: FlightInfoBuilder

    def __call__(self, request: Criteria, call: Call) -> Iterator[FlightInfo]:
        wanted = call.headers.get(_SCHEMA)
        for served in self._catalogs(call):
            catalog = to_list(served.catalog)
            schemas = [catalog.load_schema(wanted)] if wanted else catalog.list_schemas()
            for schema in schemas:
                yield from self.flights.of_schema(served, schema)

    def _catalogs(self, call: Call) -> list[ServedCatalog]:
        name = call.headers.get(_CATALOG)
        return call.meant_catalogs() if name is None else [call.catalog(name)]
