"""The action that binds a table function."""

from collections.abc import Iterator

from jetbridge.service.call_context import Call
from jetbridge.service.do_action.registry import ActionContext, action
from jetbridge.service.functions import bind_table_function
from jetbridge.wire.contents import item_metadata
from jetbridge.wire.flight_pb2 import FlightInfo
from jetbridge.wire.messages.functions import TableFunctionFlightInfo
from jetbridge.wire.schemas import read_schema
from jetbridge.wire.tickets import read_descriptor


@action("table_function_flight_info", TableFunctionFlightInfo)
def table_function_flight_info(
    request: TableFunctionFlightInfo, call: Call, services: ActionContext
) -> Iterator[bytes]:
    """The columns a table function produces for its arguments; answers a FlightInfo."""
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
