"""Runs CREATE, ALTER and DROP of schemas and tables. They take effect at once, also in BEGIN.

ALTER TABLE fills in the types that DuckDB determines; the table then changes itself.
"""

import pyarrow as pa

from jetbridge.catalog import (
    AddColumn,
    AddField,
    Alteration,
    CanAlter,
    CanCreateSchemas,
    CanCreateTables,
    CanLayOut,
    ChangeType,
    CreateTable,
    OnConflict,
    Schema,
    SchemaInfo,
    Table,
    UniqueKey,
    supports,
)
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.quoting import identifier
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, NotFound, NotSupported
from jetbridge.pipeline.context import StatementContext
from jetbridge.pipeline.name_resolution import NameResolver
from jetbridge.pipeline.parsing.ddl import parse_column_definitions
from jetbridge.pipeline.parsing.statements import (
    AddDeclaredColumn,
    AlterTable,
    ChangeColumnType,
    CreateSchema,
    CreateTableStatement,
    Drop,
    SetLayout,
)
from jetbridge.pipeline.report import Report, StatementResult

# The schema in which clients of the server find its functions.
_RESERVED = "jetbridge"
_MISSING = "it does not exist; nothing was done"
_EXISTS = "it already exists; nothing was done"


def create_schema(context: StatementContext, statement: CreateSchema) -> StatementResult:
    """Run CREATE SCHEMA."""
    catalog_name, name = context.names.schema_path(statement.name)
    catalog = context.names.writable_catalog(catalog_name)
    if not supports(catalog, CanCreateSchemas):
        raise NotSupported(f"catalog {catalog_name!r} does not support CREATE SCHEMA")
    if fold(name) == _RESERVED:
        raise AlreadyExists("schema", name, "it has the functions of the server")
    target, note = f"{catalog_name}.{name}", ""
    try:
        catalog.create_schema(SchemaInfo(name))
    except AlreadyExists:
        if statement.on_conflict is not OnConflict.IGNORE:
            raise AlreadyExists("schema", target) from None
        note = _EXISTS
    return StatementResult(Report("CREATE SCHEMA", target, note=note))


def create_table(context: StatementContext, statement: CreateTableStatement) -> StatementResult:
    """Run CREATE TABLE with a list of columns."""
    names = context.names
    path = names.path(statement.target)
    names.writable_catalog(path[0])
    schema = _table_creator(names.schema(path[0], path[1]), path[0])
    with context.connect() as connection:
        columns = parse_column_definitions(connection, statement.columns)
    exists = names.table_exists(path)
    keys = tuple(UniqueKey(key_columns, primary) for key_columns, primary in columns.keys)
    request = CreateTable(path[2], columns.schema, statement.on_conflict, columns.checks, keys)
    if exists and statement.on_conflict is OnConflict.ERROR:
        raise AlreadyExists("table", ".".join(path), "use CREATE OR REPLACE TABLE to replace it")
    table = schema.create_table(request)
    ignored = exists and statement.on_conflict is OnConflict.IGNORE
    note = _EXISTS if ignored else table.info().comment
    return StatementResult(Report("CREATE TABLE", ".".join(path), note=note))


def drop(context: StatementContext, statement: Drop) -> StatementResult:
    """Run DROP SCHEMA or DROP TABLE."""
    run_drop = _drop_schema if statement.kind == "schema" else _drop_table
    kind = f"DROP {statement.kind.upper()}"
    try:
        target = run_drop(context.names, statement)
    except NotFound:
        if not statement.if_exists:
            raise
        return StatementResult(Report(kind, str(statement.name), note=_MISSING))
    return StatementResult(Report(kind, target))


def _drop_table(names: NameResolver, statement: Drop) -> str:
    path = names.path(statement.name)
    names.writable_catalog(path[0])
    schema = _table_creator(names.schema(path[0], path[1]), path[0])
    try:
        schema.drop_table(path[2])
    except NotFound:
        raise NotFound("table", ".".join(path)) from None
    return ".".join(path)


def _drop_schema(names: NameResolver, statement: Drop) -> str:
    catalog_name, name = names.schema_path(statement.name)
    catalog = names.writable_catalog(catalog_name)
    schema = names.schema(catalog_name, name)
    if not supports(catalog, CanCreateSchemas):
        raise NotSupported(f"catalog {catalog_name!r} does not support DROP SCHEMA")
    if statement.cascade:
        for table in schema.list_tables():
            _table_creator(schema, catalog_name).drop_table(table.info().name)
    try:
        catalog.drop_schema(name)
    except FailedPrecondition as error:
        raise FailedPrecondition(f"{error}, or add CASCADE") from None
    return f"{catalog_name}.{name}"


def _table_creator(schema: Schema, catalog_name: str) -> CanCreateTables:
    if not supports(schema, CanCreateTables):
        raise NotSupported(
            f"schema {catalog_name}.{schema.info().name} does not support CREATE and DROP TABLE"
        )
    return schema


_STATEMENT = "ALTER TABLE"


def alter(context: StatementContext, statement: AlterTable) -> StatementResult:
    """Run ALTER TABLE."""
    path = context.names.path(statement.target)
    name = ".".join(path)
    try:
        table = context.names.writable_table(path)
    except NotFound:
        if not statement.if_exists:
            raise
        note = "it does not exist; nothing was done"
        return StatementResult(Report(_STATEMENT, name, note=note))
    if isinstance(statement.action, SetLayout):
        _set_layout(table, name, statement.action)
        note = "it applies to new rows; `jetbridge optimize` rewrites the others"
        return StatementResult(Report(_STATEMENT, name, note=note))
    alteration = _alteration(context, statement.action)
    if not supports(table, CanAlter):
        raise NotSupported(f"table {name!r} does not support ALTER TABLE")
    table.alter(alteration)
    return StatementResult(Report(_STATEMENT, name))


def _set_layout(table: Table, name: str, layout: SetLayout) -> None:
    if not supports(table, CanLayOut):
        raise NotSupported(f"table {name!r} does not support partitions and a sort order")
    table.lay_out(layout.partition_by, layout.sort_by)


def _alteration(
    context: StatementContext, action: Alteration | AddDeclaredColumn | ChangeColumnType
) -> Alteration:
    """Return the change of the table, with the types that only DuckDB can determine."""
    if isinstance(action, AddDeclaredColumn):
        *parents, name = action.path
        field = _read_column(context, f"{identifier(name)} {action.declaration}")
        if parents:
            return AddField(tuple(parents), field, action.if_not_exists)
        return AddColumn(field, action.if_not_exists)
    if isinstance(action, ChangeColumnType):
        field = _read_column(context, f"c {action.data_type}")
        return ChangeType(field.with_name(action.column), action.expression)
    return action


def _read_column(context: StatementContext, definition: str) -> pa.Field:
    """Return one column as CREATE TABLE would declare it."""
    with context.connect() as connection:
        columns = parse_column_definitions(connection, f"({definition})")
    if len(columns.schema) != 1:
        raise BadRequest("ALTER TABLE changes one column at a time")
    return columns.schema.field(0)
