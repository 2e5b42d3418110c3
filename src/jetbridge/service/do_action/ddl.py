"""CREATE and DROP of schemas and tables."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from jetbridge.catalog import (
    AddCheck,
    AddKey,
    CanCreateSchemas,
    CanCreateTables,
    CreateTable,
    OnConflict,
    Schema,
    SchemaInfo,
    UniqueKey,
    fold,
    supports,
)
from jetbridge.duckdb_syntax.constraints import parse_check, parse_constraint
from jetbridge.errors import BadRequest, NotFound, NotSupported
from jetbridge.service.call_context import Call, ServedCatalog
from jetbridge.service.do_action.registry import ActionContext, action
from jetbridge.wire import messages
from jetbridge.wire.codec import encode
from jetbridge.wire.schemas import read_schema, wire_type


@action("create_schema", messages.CreateSchemaRequest)
def create_schema(
    request: messages.CreateSchemaRequest, call: Call, services: ActionContext
) -> Iterator[bytes]:
    """Creates a schema; answers its contents."""
    served = call.catalog(request.catalog_name)
    catalog = dynamic_catalog(served)
    info = SchemaInfo(request.schema, request.comment or "", request.tags or {})
    _, contents = services.flights.schema_contents(served, catalog.create_schema(info))
    yield encode(contents.as_map())


@action("drop_schema", messages.DropRequest, answers=False)
def drop_schema(
    request: messages.DropRequest, call: Call, services: ActionContext
) -> Iterator[bytes]:
    """Drops an empty schema."""
    name = request.name or request.schema_name
    if not name:
        raise BadRequest("drop_schema: field 'name' must not be empty")
    catalog = dynamic_catalog(call.catalog(request.catalog_name))
    try:
        catalog.drop_schema(name)
    except NotFound:
        if not request.ignore_not_found:
            raise
    yield from ()


@action("create_table", messages.CreateTableRequest)
def create_table(
    request: messages.CreateTableRequest, call: Call, services: ActionContext
) -> Iterator[bytes]:
    """Creates a table; answers its FlightInfo."""
    wanted = read_table(request)
    served = call.catalog(request.catalog_name)
    schema = served.catalog.load_schema(request.schema_name)
    table = dynamic_schema(schema).create_table(wanted)
    yield services.flights.table(served, schema.info().name, table).SerializeToString()


@action("drop_table", messages.DropRequest, answers=False)
def drop_table(
    request: messages.DropRequest, call: Call, services: ActionContext
) -> Iterator[bytes]:
    """Drops a table."""
    if not request.name or not request.schema_name:
        missing = "schema_name" if request.name else "name"
        raise BadRequest(f"drop_table: field {missing!r} must not be empty")
    served = call.catalog(request.catalog_name)
    try:
        schema = served.catalog.load_schema(request.schema_name)
        dynamic_schema(schema).drop_table(request.name)
    except NotFound:
        if not request.ignore_not_found:
            raise
    yield from ()


def dynamic_catalog(served: ServedCatalog) -> CanCreateSchemas:
    if not supports(served.catalog, CanCreateSchemas):
        raise NotSupported(f"catalog {served.name!r} does not support CREATE or DROP SCHEMA")
    return served.catalog


def dynamic_schema(schema: Schema) -> CanCreateTables:
    if not supports(schema, CanCreateTables):
        raise NotSupported(f"schema {schema.info().name!r} does not support CREATE or DROP TABLE")
    return schema


def read_table(request: messages.CreateTableRequest) -> CreateTable:
    """The request with its constraints in one form each."""
    try:
        on_conflict = OnConflict(request.on_conflict)
    except ValueError:
        known = ", ".join(OnConflict)
        raise BadRequest(
            f"create_table: on_conflict must be one of {known}, not {request.on_conflict!r}"
        ) from None
    schema = read_schema(request.arrow_schema, "create_table: arrow_schema")
    _refuse_duplicates(schema.names)
    names = schema.names
    required = set(_named(names, request.not_null_constraints, "not_null_constraints"))
    fields = [
        field.with_type(wire_type(field.type)).with_nullable(
            field.nullable and field.name not in required
        )
        for field in schema
    ]
    checks, keys = _constraints(request, names)
    return CreateTable(
        request.table_name,
        pa.schema(fields),
        on_conflict,
        checks=checks,
        keys=keys,
    )


def _constraints(
    request: messages.CreateTableRequest, names: list[str]
) -> tuple[tuple[str, ...], tuple[UniqueKey, ...]]:
    checks = [parse_check(text).expression for text in request.check_constraints or ()]
    keys = [
        UniqueKey((name,))
        for name in _named(names, request.unique_constraints, "unique_constraints")
    ]
    keys += [UniqueKey((name,)) for name in request.unique_columns or ()]
    # The client keeps the columns of a PRIMARY KEY in an unordered set.
    primary = {
        *(request.primary_key_columns or ()),
        *(request.multi_key_primary_keys or ()),
    }
    if primary:
        ordered = [name for name in names if name in primary]
        ordered += sorted(primary.difference(names))  # the backend refuses these by name
        keys.append(UniqueKey(tuple(ordered), primary=True))
    for text in request.extra_constraints or ():
        match parse_constraint(text):
            case AddCheck(expression):
                checks.append(expression)
            case AddKey(key):
                keys.append(key)
    return tuple(checks), tuple(dict.fromkeys(keys))


def _named(names: list[str], indexes: Iterable[int] | None, what: str) -> list[str]:
    found = []
    for index in indexes or ():
        if not 0 <= index < len(names):
            raise BadRequest(
                f"create_table: {what} names column {index}, but there are {len(names)}"
            )
        found.append(names[index])
    return found


def _refuse_duplicates(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            raise BadRequest(f"create_table: column {name!r} is there twice")
        seen.add(fold(name))
