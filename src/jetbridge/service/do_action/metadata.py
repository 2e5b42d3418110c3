"""Lists catalogs, begins transactions, and describes scans, tables and functions."""

from collections.abc import Iterator

from jetbridge.catalog import CanSplit, Scan, supports
from jetbridge.duckdb_syntax.filters import parse_filters
from jetbridge.service.batch_layout import read_column_ids
from jetbridge.service.call_context import CallContext
from jetbridge.service.do_action.registry import ActionContext, action
from jetbridge.service.flight_info import DATABASES_TICKET, names_databases, to_list
from jetbridge.service.functions import bind_table_function
from jetbridge.service.table_lookup import read_point
from jetbridge.wire import messages
from jetbridge.wire.codec import encode
from jetbridge.wire.contents import item_metadata, listing, version_map
from jetbridge.wire.flight_pb2 import FlightInfo
from jetbridge.wire.messages import BindTableFunctionRequest, CatalogRequest
from jetbridge.wire.schemas import read_schema
from jetbridge.wire.tickets import Ticket, read_descriptor

# A filter is a hint: the tickets of a longer one would cost more than the rows it saves.
_MOST_FILTER_BYTES = 1024 * 1024


@action("list_schemas", CatalogRequest)
def list_schemas(
    request: CatalogRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """List all schemas of a catalog with their contents."""
    served = call.catalog(request.catalog_name)
    catalog = to_list(served.catalog)
    version = catalog.version()  # first: after a change in between, the client only lists again
    schemas = [
        services.flights.schema_contents(served, schema) for schema in catalog.list_schemas()
    ]
    yield listing(schemas, version)


@action("catalog_version", CatalogRequest)
def catalog_version(
    request: CatalogRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Return the number that rises with every DDL statement."""
    yield encode(version_map(call.catalog(request.catalog_name).catalog.version()))


@action("create_transaction", CatalogRequest)
def create_transaction(
    request: CatalogRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Return an identifier under which all scans see one version of every table."""
    served = call.catalog(request.catalog_name)
    yield encode({"identifier": services.transactions.create(call, served)})


@action("endpoints", messages.EndpointsRequest)
def endpoints(
    request: messages.EndpointsRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Return the endpoints to read the rows of a scan from, one for each split."""
    parameters = request.parameters
    if parameters.table_function_parameters:
        yield encode([_function_endpoint(request, call, services)])
        return
    descriptor = read_descriptor(request.descriptor)
    if names_databases(descriptor):
        yield encode([services.flights.endpoint(DATABASES_TICKET).SerializeToString()])
        return
    point = read_point(parameters.at_unit, parameters.at_value)
    located = services.locator.to_read(call, descriptor, point)
    info = located.table.info()
    columns = read_column_ids(info, parameters.column_ids)
    filters = parameters.json_filters if len(parameters.json_filters) <= _MOST_FILTER_BYTES else ""
    scan = Scan(None if columns is None else tuple(columns), parse_filters(filters))
    splits = located.table.split(scan) if supports(located.table, CanSplit) else (None,)
    tickets = (
        Ticket(
            located.served.name,
            located.name.schema,
            info.name,
            version=info.version,
            identity=info.identity,
            columns=columns,
            filters=filters,
            part=split,
            parts=len(splits),
            at_unit=parameters.at_unit,
            at_value=parameters.at_value,
        )
        for split in splits
    )
    yield encode([services.flights.endpoint(t).SerializeToString() for t in tickets])


def _function_endpoint(
    request: messages.EndpointsRequest, call: CallContext, services: ActionContext
) -> bytes:
    parameters = request.parameters
    served, name = services.locator.name(call, read_descriptor(request.descriptor))
    parse_filters(parameters.json_filters)
    ticket = Ticket(
        served.name,
        name.schema,
        name.name,
        kind="table_function",
        filters=parameters.json_filters,
        parameters=bytes(parameters.table_function_parameters),  # msgspec refuses a subclass
    )
    return services.flights.endpoint(ticket).SerializeToString()


@action("flight_info", messages.FlightInfoRequest)
def flight_info(
    request: messages.FlightInfoRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Return the FlightInfo of a table, or of what it was AT a version or time."""
    descriptor = read_descriptor(request.descriptor)
    point = read_point(request.at_unit, request.at_value)
    located = services.locator.to_read(call, descriptor, point)
    schema = located.served.catalog.load_schema(located.name.schema).info().name
    table = located.table.info()
    info = services.flights.table(
        located.served,
        schema,
        located.table,
        descriptor=descriptor,  # the client refuses any but the one it sent
        ticket=Ticket(
            located.served.name,
            schema,
            located.name.name,
            version=table.version if point else None,
            identity=table.identity if point else "",
            at_unit=request.at_unit,
            at_value=request.at_value,
        ),
    )
    yield info.SerializeToString()


@action("table_function_flight_info", BindTableFunctionRequest)
def table_function_flight_info(
    request: BindTableFunctionRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Return the columns of a table function for its arguments, as FlightInfo."""
    descriptor = read_descriptor(request.descriptor)
    served, name = services.locator.name(call, descriptor)
    table = None
    if request.table_input_schema:
        table = read_schema(request.table_input_schema, "table_input_schema")
    columns = bind_table_function(served, name, request.parameters, table, services.limits)
    yield FlightInfo(
        schema=columns.serialize().to_pybytes(),
        flight_descriptor=descriptor,
        total_records=-1,
        total_bytes=-1,
        app_metadata=item_metadata("table_function", served.spelling, name.schema, name.name),
    ).SerializeToString()
