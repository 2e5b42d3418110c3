"""CREATE, DROP of schemas and tables; such a statement takes effect at once."""

from jetbridge.catalog import (
    CanCreateSchemas,
    CanCreateTables,
    OnConflict,
    Schema,
    SchemaInfo,
    UniqueKey,
    supports,
)
from jetbridge.catalog import CreateTable as Request
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import AlreadyExists, FailedPrecondition, NotFound, NotSupported
from jetbridge.pipeline.name_resolution import NameResolver
from jetbridge.pipeline.parsing.column_definitions import parse_column_definitions
from jetbridge.pipeline.parsing.statements import CreateSchema, CreateTable, Drop
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.session import Session, StatementResult

# Clients of a server find its functions there.
_RESERVED = "jetbridge"
NOTHING = "there is none; nothing was done"
THERE = "it is there already; nothing was done"


def create_schema(session: Session, statement: CreateSchema) -> StatementResult:
    places = session.places()
    catalog, name = places.schema_path(statement.name)
    live = places.live(catalog)
    if not supports(live, CanCreateSchemas):
        raise NotSupported(f"catalog {catalog!r} takes no CREATE SCHEMA")
    if fold(name) == _RESERVED:
        raise AlreadyExists("schema", name, "it has the functions of the server")
    report = Report("CREATE SCHEMA", f"{catalog}.{name}")
    try:
        live.create_schema(SchemaInfo(name))
    except AlreadyExists:
        if statement.on_conflict is not OnConflict.IGNORE:
            raise AlreadyExists("schema", f"{catalog}.{name}") from None
        return StatementResult(Report(report.statement, report.target, note=THERE))
    return StatementResult(report)


def create_table(session: Session, statement: CreateTable) -> StatementResult:
    places = session.places()
    path = places.path(statement.target)
    places.live(path[0])
    schema = _creating(places.schema(path[0], path[1]), path[0])
    with session.desk() as desk:
        found = parse_column_definitions(desk, statement.columns)
    there = places.is_there(path)
    keys = tuple(UniqueKey(columns, primary) for columns, primary in found.keys)
    request = Request(path[2], found.schema, statement.on_conflict, found.checks, keys)
    if there and statement.on_conflict is OnConflict.ERROR:
        raise AlreadyExists("table", ".".join(path), "use CREATE OR REPLACE TABLE to replace it")
    made = schema.create_table(request)
    ignored = there and statement.on_conflict is OnConflict.IGNORE
    note = THERE if ignored else made.info().comment
    return StatementResult(Report("CREATE TABLE", ".".join(path), note=note))


def _creating(schema: Schema, catalog: str) -> CanCreateTables:
    if not supports(schema, CanCreateTables):
        raise NotSupported(f"schema {catalog}.{schema.info().name} takes no CREATE or DROP TABLE")
    return schema


def drop(session: Session, statement: Drop) -> StatementResult:
    places = session.places()
    dropped = _drop_schema if statement.kind == "schema" else _drop_table
    name = f"DROP {statement.kind.upper()}"
    try:
        target = dropped(places, statement)
    except NotFound:
        if not statement.if_exists:
            raise
        return StatementResult(Report(name, str(statement.name), note=NOTHING))
    return StatementResult(Report(name, target))


def _drop_table(places: NameResolver, statement: Drop) -> str:
    path = places.path(statement.name)
    places.live(path[0])
    schema = _creating(places.schema(path[0], path[1]), path[0])
    try:
        schema.drop_table(path[2])
    except NotFound:
        raise NotFound("table", ".".join(path)) from None
    return ".".join(path)


def _drop_schema(places: NameResolver, statement: Drop) -> str:
    catalog, name = places.schema_path(statement.name)
    live = places.live(catalog)
    schema = places.schema(catalog, name)
    if not supports(live, CanCreateSchemas):
        raise NotSupported(f"catalog {catalog!r} takes no DROP SCHEMA")
    if statement.cascade:
        for table in schema.list_tables():
            _creating(schema, catalog).drop_table(table.info().name)
    try:
        live.drop_schema(name)
    except FailedPrecondition as error:
        raise FailedPrecondition(f"{error}, or add CASCADE") from None
    return f"{catalog}.{name}"
