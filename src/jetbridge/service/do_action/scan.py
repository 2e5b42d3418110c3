"""Actions that prepare a scan: endpoints, and flight_info for time travel."""

from collections.abc import Iterator

from jetbridge.catalog import CanSplit, Scan, supports
from jetbridge.duckdb_syntax.filters import parse_filters
from jetbridge.service.batch_layout import read_column_ids
from jetbridge.service.call_context import Call
from jetbridge.service.databases import TICKET, names_databases
from jetbridge.service.do_action.registry import ActionContext, action
from jetbridge.service.table_lookup import read_point
from jetbridge.wire.codec import encode
from jetbridge.wire.messages import scan as messages
from jetbridge.wire.tickets import Ticket, read_descriptor

# A filter is a hint; beyond this its tickets would cost more than the rows it saves.
_MOST_FILTERS = 1024 * 1024


@action("endpoints", messages.Endpoints)
def endpoints(request: messages.Endpoints, call: Call, services: ActionContext) -> Iterator[bytes]:
    """Where to read the rows of a scan: one endpoint per part."""
    asked = request.parameters
    if asked.table_function_parameters:
        yield encode([_function_endpoint(request, call, services)])
        return
    descriptor = read_descriptor(request.descriptor)
    if names_databases(descriptor):
        yield encode([services.flights.endpoint(TICKET).SerializeToString()])
        return
    point = read_point(asked.at_unit, asked.at_value)
    located = services.locator.to_read(call, descriptor, point)
    info = located.table.info()
    columns = read_column_ids(info, asked.column_ids)
    filters = asked.json_filters if len(asked.json_filters) <= _MOST_FILTERS else ""
    scan = Scan(None if columns is None else tuple(columns), parse_filters(filters))
    parts = located.table.split(scan) if supports(located.table, CanSplit) else (None,)
    tickets = (
        Ticket(
            located.served.name,
            located.name.schema,
            info.name,
            version=info.version,
            identity=info.identity,
            columns=columns,
            filters=filters,
            part=part,
            parts=len(parts),
            at_unit=asked.at_unit,
            at_value=asked.at_value,
        )
        for part in parts
    )
    yield encode([services.flights.endpoint(t).SerializeToString() for t in tickets])


def _function_endpoint(request: messages.Endpoints, call: Call, services: ActionContext) -> bytes:
    asked = request.parameters
    served, name = services.locator.name(call, read_descriptor(request.descriptor))
    parse_filters(asked.json_filters)
    ticket = Ticket(
        served.name,
        name.schema,
        name.name,
        kind="table_function",
        filters=asked.json_filters,
        parameters=bytes(asked.table_function_parameters),  # msgspec refuses a subclass
    )
    return services.flights.endpoint(ticket).SerializeToString()


@action("flight_info", messages.FlightInfo)
def flight_info(
    request: messages.FlightInfo, call: Call, services: ActionContext
) -> Iterator[bytes]:
    """A table as it is, or as it was AT a version or time; answers its FlightInfo."""
    descriptor = read_descriptor(request.descriptor)
    point = read_point(request.at_unit, request.at_value)
    located = services.locator.to_read(call, descriptor, point)
    schema = located.served.catalog.load_schema(located.name.schema).info().name
    found = located.table.info()
    info = services.flights.table(
        located.served,
        schema,
        located.table,
        descriptor=descriptor,  # the client refuses any but the one it sent
        ticket=Ticket(
            located.served.name,
            schema,
            located.name.name,
            version=found.version if point else None,
            identity=found.identity if point else "",
            at_unit=request.at_unit,
            at_value=request.at_value,
        ),
    )
    yield info.SerializeToString()
