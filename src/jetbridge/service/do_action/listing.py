"""Actions about a catalog as a whole."""

from collections.abc import Iterator

from jetbridge.service.call_context import Call
from jetbridge.service.do_action.registry import ActionContext, action
from jetbridge.service.flight_info import to_list
from jetbridge.wire.codec import encode
from jetbridge.wire.contents import listing, version_map
from jetbridge.wire.messages.catalog import CatalogRequest


@action("list_schemas", CatalogRequest)
def list_schemas(request: CatalogRequest, call: Call, services: ActionContext) -> Iterator[bytes]:
    """All schemas of a catalog with the contents of each."""
    served = call.catalog(request.catalog_name)
    catalog = to_list(served.catalog)
    version = catalog.version()  # first: a change in between only asks for one more look
    schemas = [
        services.flights.schema_contents(served, schema) for schema in catalog.list_schemas()
    ]
    yield listing(schemas, version)


@action("catalog_version", CatalogRequest)
def catalog_version(
    request: CatalogRequest, call: Call, services: ActionContext
) -> Iterator[bytes]:
    """The number that rises with every DDL statement."""
    yield encode(version_map(call.catalog(request.catalog_name).catalog.version()))


@action("create_transaction", CatalogRequest)
def create_transaction(
    request: CatalogRequest, call: Call, services: ActionContext
) -> Iterator[bytes]:
    """An id under which all scans see one version of every table."""
    served = call.catalog(request.catalog_name)
    yield encode({"identifier": services.transactions.create(call, served)})
