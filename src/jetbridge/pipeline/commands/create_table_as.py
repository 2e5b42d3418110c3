"""CREATE TABLE AS: the query is planned and run, then the table is there with all its rows."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import pyarrow as pa

from jetbridge.catalog import (
    CanCreateTables,
    CanFill,
    CanFillOnSpark,
    CanInsert,
    CreateTable,
    DMLOptions,
    OnConflict,
    Schema,
    Write,
    supports,
)
from jetbridge.catalog.identifiers import find_duplicate_name
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine.planner import StatementConnection
from jetbridge.errors import AlreadyExists, BadRequest, NotSupported
from jetbridge.pipeline.commands.query import (
    engine_for,
    fall_back_to_duckdb,
    plan_query,
    stream_query,
)
from jetbridge.pipeline.name_resolution import Path
from jetbridge.pipeline.parsing.statements import CreateTableAs
from jetbridge.pipeline.query.engine_choice import SPARK, EngineChoice
from jetbridge.pipeline.query.plan import Plan
from jetbridge.pipeline.report import PhaseTimer, Report
from jetbridge.pipeline.session import Session, StatementResult
from jetbridge.pipeline.transactions import BeginWrite

HOW = "CREATE TABLE AS"


@dataclass(frozen=True)
class TableToCreate:
    """The target of CREATE TABLE AS; `exists` says whether another table has its name."""

    path: Path
    schema: Schema
    exists: bool


@dataclass(frozen=True)
class CreateTableAsJob:
    """A table to be made, and where its rows come from."""

    path: Path
    schema: Schema
    request: CreateTable
    plan: Plan
    choice: EngineChoice


def resolve_table(session: Session, statement: CreateTableAs) -> TableToCreate:
    """Look up where the table goes; raise AlreadyExists for one that may not be replaced."""
    places = session.places()
    path = places.path(statement.target)
    schema = places.schema(path[0], path[1])
    exists = places.is_there(path)
    if exists and statement.on_conflict is OnConflict.ERROR:
        raise AlreadyExists("table", ".".join(path), "use CREATE OR REPLACE TABLE to replace it")
    return TableToCreate(path, schema, exists)


def plan_table(
    session: Session, desk: StatementConnection, statement: CreateTableAs, target: TableToCreate
) -> CreateTableAsJob:
    """Plan a CREATE TABLE AS without creating; raise whatever it would be refused for."""
    plan = plan_query(session, desk, statement.query, statement.columns)
    _refuse_twins(plan)
    choice = engine_for(session, desk, plan)
    request = CreateTable(target.path[2], plan.schema, _conflict(statement))
    session.refuse_writing(target.path, _how(request))
    if not supports(target.schema, CanFill):
        _creating(target.schema)
    return CreateTableAsJob(target.path, target.schema, request, plan, choice)


def create_table_as(session: Session, statement: CreateTableAs) -> StatementResult:
    target = resolve_table(session, statement)
    if target.exists and statement.on_conflict is OnConflict.IGNORE:
        note = "the table is there already; nothing was done"
        return StatementResult(Report(HOW, ".".join(target.path), note=note))
    clock = session.clock()
    with session.desk(statement.query) as desk:
        with clock.phase("plan"):
            work = plan_table(session, desk, statement, target)
        rows, size, choice = _filled(session, desk, work, clock)
    return StatementResult(
        Report(
            HOW,
            ".".join(work.path),
            rows_produced=rows,
            rows_written=rows,
            bytes=size,
            seconds=clock.seconds,
            engine=choice.engine,
            reason=choice.reason,
            ddl=ddl(work.path, work.plan),
        )
    )


def _refuse_twins(plan: Plan) -> None:
    name = find_duplicate_name(plan.schema.names)
    if name is not None:
        raise BadRequest(
            f"the query has two columns called {name!r}; give one of them another name with AS"
        )
    unnamed = next((f.name for f in plan.schema if _is_unnamed(f.type)), None)
    if unnamed is not None:
        raise BadRequest(f"column {unnamed!r} is a struct whose fields have no names: name them")


def _is_unnamed(kind: pa.DataType) -> bool:
    inner = [kind.field(index) for index in range(kind.num_fields)]
    nameless = pa.types.is_struct(kind) and not all(field.name for field in inner)
    return nameless or any(_is_unnamed(field.type) for field in inner)


def _conflict(statement: CreateTableAs) -> OnConflict:
    """Another one may make the table meanwhile; then IF NOT EXISTS has nothing to do."""
    replaces = statement.on_conflict is OnConflict.REPLACE
    return OnConflict.REPLACE if replaces else OnConflict.ERROR


def _how(request: CreateTable) -> str:
    return "CREATE OR REPLACE TABLE AS" if request.on_conflict is OnConflict.REPLACE else HOW


def ddl(path: Path, plan: Plan) -> str:
    columns = [
        (field.name, kind, not field.nullable)
        for field, kind in zip(plan.schema, plan.types, strict=True)
    ]
    return queries.create_table(path, columns)


def _filled(
    session: Session, desk: StatementConnection, work: CreateTableAsJob, clock: PhaseTimer
) -> tuple[int, int, EngineChoice]:
    """Rows and bytes that the table got, and from whom; if anything fails, it is not there."""
    spark, schema = session.means.spark, work.schema
    replaces = work.request.on_conflict is OnConflict.REPLACE
    direct = work.choice.engine == SPARK and session.transaction is None
    if direct and spark is not None and supports(schema, CanFillOnSpark):
        try:
            with clock.phase("spool"), spark.session(clock.tasks, work.choice.views):
                filled = schema.create_on_spark(work.request, work.choice.sql)
            return filled.rows, filled.size, work.choice
        except BadRequest as error:
            if not replaces and session.places().is_there(work.path):
                raise  # the query went well, and its rows did not fit
            work = replace(work, choice=fall_back_to_duckdb(session, work.choice, error))
    begin = _beginning(session, schema, work.request)
    with stream_query(session, desk, work.plan, work.choice, clock) as made:
        size = 0
        with (
            clock.phase("load"),
            session.writing(work.path, _how(work.request), begin, clock) as write,
        ):
            for batch in made.batches:
                write(batch)
                size += batch.nbytes
        return made.rows, size, made.choice


def _beginning(session: Session, schema: Schema, request: CreateTable) -> BeginWrite:
    """In a transaction a new table is there at once, without rows; another stays until COMMIT."""
    if session.transaction is not None and request.on_conflict is not OnConflict.REPLACE:
        return lambda: _separately(schema, request)
    return lambda: _begun(schema, request)


def _begun(schema: Schema, request: CreateTable) -> AbstractContextManager[Write]:
    if supports(schema, CanFill):
        return schema.creating(request)
    return _separately(schema, request)


def _separately(schema: Schema, request: CreateTable) -> AbstractContextManager[Write]:
    """First the table, then its rows."""
    table = _creating(schema).create_table(request)
    if not supports(table, CanInsert):
        raise NotSupported(f"table {request.name!r} takes no rows")
    return table.inserting(DMLOptions())


def _creating(schema: Schema) -> CanCreateTables:
    if not supports(schema, CanCreateTables):
        raise NotSupported(f"schema {schema.info().name!r} does not support CREATE TABLE")
    return schema
