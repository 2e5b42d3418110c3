"""Creates, alters and drops schemas and tables.

A table of actions maps each request of ALTER TABLE to the alteration that it describes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddField,
    AddKey,
    Alteration,
    CanAlter,
    CanCreateSchemas,
    CanCreateTables,
    CanLayOut,
    ChangeType,
    CreateTable,
    DropNotNull,
    OnConflict,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    Schema,
    SchemaInfo,
    SetDefault,
    SetNotNull,
    Table,
    UniqueKey,
    supports,
)
from jetbridge.catalog.identifiers import find_duplicate_name
from jetbridge.catalog.values import refuse_duplicate_fields
from jetbridge.duckdb_syntax.constraints import parse_check, parse_constraint
from jetbridge.errors import BadRequest, NotFound, NotSupported
from jetbridge.service.call_context import CallContext, ServedCatalog
from jetbridge.service.do_action.registry import ActionContext, action
from jetbridge.wire import messages
from jetbridge.wire.codec import encode
from jetbridge.wire.schemas import read_schema, read_single_field, wire_type


@action("create_schema", messages.CreateSchemaRequest)
def create_schema(
    request: messages.CreateSchemaRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Create a schema and return its contents."""
    served = call.catalog(request.catalog_name)
    catalog = require_create_schemas(served)
    info = SchemaInfo(request.schema, request.comment or "", request.tags or {})
    _, contents = services.flights.schema_contents(served, catalog.create_schema(info))
    yield encode(contents.as_map())


@action("drop_schema", messages.DropRequest, answers=False)
def drop_schema(
    request: messages.DropRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Drop an empty schema."""
    name = request.name or request.schema_name
    if not name:
        raise BadRequest("drop_schema: field 'name' must not be empty")
    catalog = require_create_schemas(call.catalog(request.catalog_name))
    try:
        catalog.drop_schema(name)
    except NotFound:
        if not request.ignore_not_found:
            raise
    yield from ()


@action("create_table", messages.CreateTableRequest)
def create_table(
    request: messages.CreateTableRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Create a table and return its FlightInfo."""
    requested = read_table(request)
    served = call.catalog(request.catalog_name)
    schema = served.catalog.load_schema(request.schema_name)
    table = require_create_tables(schema).create_table(requested)
    yield services.flights.table(served, schema.info().name, table).SerializeToString()


@action("drop_table", messages.DropRequest, answers=False)
def drop_table(
    request: messages.DropRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Drop a table."""
    if not request.name or not request.schema_name:
        missing = "schema_name" if request.name else "name"
        raise BadRequest(f"drop_table: field {missing!r} must not be empty")
    served = call.catalog(request.catalog_name)
    try:
        schema = served.catalog.load_schema(request.schema_name)
        require_create_tables(schema).drop_table(request.name)
    except NotFound:
        if not request.ignore_not_found:
            raise
    yield from ()


def require_create_schemas(served: ServedCatalog) -> CanCreateSchemas:
    """Return the catalog. Raises NotSupported if it can neither create nor drop schemas."""
    if not supports(served.catalog, CanCreateSchemas):
        raise NotSupported(f"catalog {served.name!r} does not support CREATE or DROP SCHEMA")
    return served.catalog


def require_create_tables(schema: Schema) -> CanCreateTables:
    """Return the schema. Raises NotSupported if it can neither create nor drop tables."""
    if not supports(schema, CanCreateTables):
        raise NotSupported(f"schema {schema.info().name!r} does not support CREATE or DROP TABLE")
    return schema


def read_table(request: messages.CreateTableRequest) -> CreateTable:
    """Return the table that a request describes, with each constraint in one form only."""
    try:
        on_conflict = OnConflict(request.on_conflict)
    except ValueError:
        known = ", ".join(OnConflict)
        raise BadRequest(
            f"create_table: on_conflict must be one of {known}, not {request.on_conflict!r}"
        ) from None
    schema = read_schema(request.arrow_schema, "create_table: arrow_schema")
    _refuse_duplicates(schema)
    names = schema.names
    required = set(_columns_at(names, request.not_null_constraints, "not_null_constraints"))
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
        for name in _columns_at(names, request.unique_constraints, "unique_constraints")
    ]
    keys += [UniqueKey((name,)) for name in request.unique_columns or ()]
    # The client keeps the columns of a PRIMARY KEY in an unordered set.
    primary = {
        *(request.primary_key_columns or ()),
        *(request.multi_key_primary_keys or ()),
    }
    if primary:
        ordered = [name for name in names if name in primary]
        ordered += sorted(primary.difference(names))  # the backend refuses unknown columns
        keys.append(UniqueKey(tuple(ordered), primary=True))
    for text in request.extra_constraints or ():
        match parse_constraint(text):
            case AddCheck(expression):
                checks.append(expression)
            case AddKey(key):
                keys.append(key)
    return tuple(checks), tuple(dict.fromkeys(keys))


def _columns_at(names: list[str], indexes: Iterable[int] | None, field: str) -> list[str]:
    columns = []
    for index in indexes or ():
        if not 0 <= index < len(names):
            raise BadRequest(
                f"create_table: {field} names column {index}, but the table has {len(names)}"
            )
        columns.append(names[index])
    return columns


def _refuse_duplicates(schema: pa.Schema) -> None:
    name = find_duplicate_name(schema.names)
    if name is not None:
        raise BadRequest(f"create_table: column {name!r} is listed twice")
    for field in schema:
        refuse_duplicate_fields(field)


_CHANGES: dict[str, tuple[type[messages.AlterTableRequest], Callable[[Any], Alteration], str]] = {
    "add_column": (
        messages.AddColumnRequest,
        lambda r: AddColumn(_field(r, "add_column"), r.if_column_not_exists),
        "Add a column",
    ),
    "remove_column": (
        messages.RemoveColumnRequest,
        lambda r: RemoveColumn(r.removed_column, r.if_column_exists, r.cascade),
        "Remove a column",
    ),
    "rename_column": (
        messages.RenameColumnRequest,
        lambda r: RenameColumn(r.old_name, r.new_name),
        "Rename a column",
    ),
    "rename_table": (
        messages.RenameTableRequest,
        lambda r: RenameTable(r.new_table_name),
        "Rename a table",
    ),
    "set_default": (
        messages.SetDefaultRequest,
        lambda r: SetDefault(r.column_name, r.expression),
        "Set the default of a column",
    ),
    "change_column_type": (
        messages.ChangeColumnTypeRequest,
        lambda r: ChangeType(_field(r, "change_column_type"), r.expression),
        "Change the type of a column",
    ),
    "set_not_null": (
        messages.ColumnRequest,
        lambda r: SetNotNull(r.column_name),
        "Forbid NULL in a column",
    ),
    "drop_not_null": (
        messages.ColumnRequest,
        lambda r: DropNotNull(r.column_name),
        "Allow NULL in a column",
    ),
    "add_constraint": (
        messages.AddConstraintRequest,
        lambda r: parse_constraint(r.constraint),
        "Add a CHECK or UNIQUE constraint",
    ),
    "add_field": (
        messages.AddFieldRequest,
        lambda r: AddField(tuple(r.column_path), _field(r, "add_field"), r.if_field_not_exists),
        "Add a field to a STRUCT column",
    ),
    "remove_field": (
        messages.RemoveFieldRequest,
        lambda r: RemoveField(tuple(r.column_path), r.if_column_exists, r.cascade),
        "Remove a field of a STRUCT column",
    ),
    "rename_field": (
        messages.RenameFieldRequest,
        lambda r: RenameField(tuple(r.column_path), r.new_name),
        "Rename a field of a STRUCT column",
    ),
}


def _register(
    name: str, message: type[messages.AlterTableRequest], to_change: Any, description: str
) -> None:
    def handler(
        request: messages.AlterTableRequest, call: CallContext, services: ActionContext
    ) -> Iterator[bytes]:
        change = to_change(request)
        if isinstance(change, AddField) and call.is_duckdb:
            _refuse_lost_name(change, request, call.catalog(request.catalog).name)

        def alter(schema: str, table: Table) -> Table:
            if not supports(table, CanAlter):
                raise NotSupported(f"table {schema}.{request.name} does not support ALTER TABLE")
            return table.alter(change)

        yield from _describe_table(request, call, services, alter)

    handler.__doc__ = f"{description} and return the FlightInfo of the changed table."
    action(name, message)(handler)


def _refuse_lost_name(change: AddField, request: messages.AlterTableRequest, catalog: str) -> None:
    """Refuse a field whose name is lost: DuckDB's extension sends the column's name instead."""
    if change.field.name == change.path[0]:
        raise NotSupported(
            f"DuckDB's client does not send the name of the new field of {change.path[0]!r}; "
            f"use FROM {catalog}.jetbridge.run("
            f"'ALTER TABLE {request.schema}.{request.name} ADD COLUMN ...')"
        )


@action("set_layout", messages.SetLayoutRequest, text=True)
def set_layout(
    request: messages.SetLayoutRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Set partitions and sort order, and return the FlightInfo of the changed table."""
    if request.partition_by is None and request.sort_by is None:
        raise BadRequest("set_layout: field 'partition_by' or 'sort_by' is required")

    def lay_out(schema: str, table: Table) -> Table:
        if not supports(table, CanLayOut):
            raise NotSupported(f"table {schema}.{request.name} does not support set_layout")
        return table.lay_out(request.partition_by, request.sort_by)

    yield from _describe_table(request, call, services, lay_out)


def _describe_table(
    request: messages.AlterTableRequest,
    call: CallContext,
    services: ActionContext,
    change: Callable[[str, Table], Table],
) -> Iterator[bytes]:
    """Change the table of a request, and yield the FlightInfo of the changed table.

    Yields nothing if the table does not exist and the request ignores that.
    """
    served = call.catalog(request.catalog)
    existing = _load(served, request)
    if existing is None:
        return
    schema, table = existing
    yield services.flights.table(served, schema, change(schema, table)).SerializeToString()


def _load(served: ServedCatalog, request: messages.AlterTableRequest) -> tuple[str, Table] | None:
    try:
        schema = served.catalog.load_schema(request.schema)
        return schema.info().name, schema.load_table(request.name)
    except NotFound:
        if request.ignore_not_found:
            return None
        raise


def _field(request: Any, action_name: str) -> pa.Field:
    field = read_single_field(request.column_schema, f"{action_name}: column_schema")
    refuse_duplicate_fields(field)
    return field


for _name, _change in _CHANGES.items():
    _register(_name, *_change)
