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
class CreateTableAsJob:
    """A table to be made, and where its rows come from."""

    path: Path
    request: CreateTable
    plan: Plan
    choice: EngineChoice


def create_table_as(session: Session, statement: CreateTableAs) -> StatementResult:
    places = session.places()
    path = places.path(statement.target)
    schema = places.schema(path[0], path[1])
    target = ".".join(path)
    if places.is_there(path):
        if statement.on_conflict is OnConflict.IGNORE:
            note = "the table is there already; nothing was done"
            return StatementResult(Report(HOW, target, note=note))
        if statement.on_conflict is OnConflict.ERROR:
            raise AlreadyExists("table", target, "use CREATE OR REPLACE TABLE to replace it")
    clock = session.clock()
    with session.desk(statement.query) as desk:
        with clock.phase("plan"):
            plan = plan_query(session, desk, statement.query, statement.columns)
            _refuse_twins(plan)
            choice = engine_for(session, desk, plan)
        request = CreateTable(path[2], plan.schema, _conflict(statement))
        work = CreateTableAsJob(path, request, plan, choice)
        rows, size, choice = _filled(session, desk, schema, work, clock)
    return StatementResult(
        Report(
            HOW,
            target,
            rows_produced=rows,
            rows_written=rows,
            bytes=size,
            seconds=clock.seconds,
            engine=choice.engine,
            reason=choice.reason,
            ddl=ddl(path, plan),
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


def ddl(path: Path, plan: Plan) -> str:
    columns = [
        (field.name, kind, not field.nullable)
        for field, kind in zip(plan.schema, plan.types, strict=True)
    ]
    return queries.create_table(path, columns)


def _filled(
    session: Session,
    desk: StatementConnection,
    schema: Schema,
    work: CreateTableAsJob,
    clock: PhaseTimer,
) -> tuple[int, int, EngineChoice]:
    """Rows and bytes that the table got, and from whom; if anything fails, it is not there."""
    spark = session.means.spark
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
    how = "CREATE OR REPLACE TABLE AS" if replaces else HOW
    begin = _beginning(session, schema, work.request)
    with stream_query(session, desk, work.plan, work.choice, clock) as made:
        size = 0
        with clock.phase("load"), session.writing(work.path, how, begin, clock) as write:
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
    if not supports(schema, CanCreateTables):
        raise NotSupported(f"schema {schema.info().name!r} takes no CREATE TABLE")
    table = schema.create_table(request)
    if not supports(table, CanInsert):
        raise NotSupported(f"table {request.name!r} takes no rows")
    return table.inserting(DMLOptions())
