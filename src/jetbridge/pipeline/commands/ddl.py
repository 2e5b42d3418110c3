"""Runs CREATE and DROP of schemas and tables. They take effect at once, also in a transaction."""

from jetbridge.catalog import (
    CanCreateSchemas,
    CanCreateTables,
    OnConflict,
    Schema,
    SchemaInfo,
    UniqueKey,
    supports,
)
from jetbridge.catalog import CreateTable as CreateTableRequest
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import AlreadyExists, FailedPrecondition, NotFound, NotSupported
from jetbridge.pipeline.context import StatementContext
from jetbridge.pipeline.name_resolution import NameResolver
from jetbridge.pipeline.parsing.column_definitions import parse_column_definitions
from jetbridge.pipeline.parsing.statements import CreateSchema, CreateTable, Drop
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


def create_table(context: StatementContext, statement: CreateTable) -> StatementResult:
    """Run CREATE TABLE with a list of columns."""
    names = context.names
    path = names.path(statement.target)
    names.writable_catalog(path[0])
    schema = _table_creator(names.schema(path[0], path[1]), path[0])
    with context.connect() as connection:
        columns = parse_column_definitions(connection, statement.columns)
    exists = names.table_exists(path)
    keys = tuple(UniqueKey(key_columns, primary) for key_columns, primary in columns.keys)
    request = CreateTableRequest(
        path[2], columns.schema, statement.on_conflict, columns.checks, keys
    )
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
