"""Runs CREATE TABLE AS: plans the query, runs it, and creates the table with all its rows."""

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
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.errors import AlreadyExists, BadRequest, NotSupported
from jetbridge.pipeline.commands.query import (
    choose_query_engine,
    fall_back_to_duckdb,
    plan_query,
    stream_query,
)
from jetbridge.pipeline.context import BeginWrite, StatementContext
from jetbridge.pipeline.name_resolution import Path
from jetbridge.pipeline.parsing.statements import CreateTableAs
from jetbridge.pipeline.query.engine_choice import SPARK, EngineChoice
from jetbridge.pipeline.query.plan import Plan
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.report import Report, StatementResult
from jetbridge.runtime.array_sizes import array_bytes

_STATEMENT = "CREATE TABLE AS"


@dataclass(frozen=True)
class TableToCreate:
    """Hold the target of CREATE TABLE AS. `exists` says whether a table has its name."""

    path: Path
    schema: Schema
    exists: bool


@dataclass(frozen=True)
class CreateTableAsJob:
    """Hold a table to create, and the plan of the query for its rows."""

    path: Path
    schema: Schema
    request: CreateTable
    plan: Plan
    choice: EngineChoice

    @property
    def replaces(self) -> bool:
        """Return whether the statement is CREATE OR REPLACE TABLE."""
        return self.request.on_conflict is OnConflict.REPLACE

    @property
    def kind(self) -> str:
        """Return the name of the statement in messages."""
        return "CREATE OR REPLACE TABLE AS" if self.replaces else _STATEMENT


@dataclass(frozen=True)
class _Filled:
    """Hold what was written, and the engine that ran the query in the end."""

    rows: int
    size: int
    choice: EngineChoice


def create_table_as(context: StatementContext, statement: CreateTableAs) -> StatementResult:
    """Run CREATE TABLE AS. If it fails, no table is created and a replaced one is unchanged."""
    target = resolve_table(context, statement)
    if target.exists and statement.on_conflict is OnConflict.IGNORE:
        note = "the table already exists; nothing was done"
        return StatementResult(Report(_STATEMENT, ".".join(target.path), note=note))
    with context.connect(statement.query) as connection:
        with context.timer.phase("plan"):
            job = plan_table(context, connection, statement, target)
        filled = _fill(context, connection, job)
    return StatementResult(
        Report(
            _STATEMENT,
            ".".join(job.path),
            rows_produced=filled.rows,
            rows_written=filled.rows,
            bytes=filled.size,
            seconds=context.timer.seconds,
            engine=filled.choice.engine,
            reason=filled.choice.reason,
            ddl=target_ddl(job.path, job.plan),
        )
    )


def resolve_table(context: StatementContext, statement: CreateTableAs) -> TableToCreate:
    """Return the path of the new table; raise AlreadyExists if it may not be replaced."""
    path = context.names.path(statement.target)
    schema = context.names.schema(path[0], path[1])
    exists = context.names.table_exists(path)
    if exists and statement.on_conflict is OnConflict.ERROR:
        raise AlreadyExists("table", ".".join(path), "use CREATE OR REPLACE TABLE to replace it")
    return TableToCreate(path, schema, exists)


def plan_table(
    context: StatementContext,
    connection: StatementConnection,
    statement: CreateTableAs,
    target: TableToCreate,
) -> CreateTableAsJob:
    """Plan a CREATE TABLE AS without creating; raise what it would be refused for."""
    plan = plan_query(context, connection, statement.query, statement.columns)
    _check_names(plan)
    choice = choose_query_engine(context, connection, plan)
    # If someone else creates the table now, IF NOT EXISTS fails as CREATE TABLE does.
    replaces = statement.on_conflict is OnConflict.REPLACE
    on_conflict = OnConflict.REPLACE if replaces else OnConflict.ERROR
    request = CreateTable(target.path[2], plan.schema, on_conflict)
    job = CreateTableAsJob(target.path, target.schema, request, plan, choice)
    context.refuse_writing(target.path, job.kind)
    if not supports(target.schema, CanFill):
        _table_creator(target.schema)
    return job


def target_ddl(path: Path, plan: Plan) -> str:
    """Return the CREATE TABLE statement for the columns of a plan."""
    columns = [
        (field.name, data_type, not field.nullable)
        for field, data_type in zip(plan.schema, plan.types, strict=True)
    ]
    return queries.create_table(path, columns)


def _check_names(plan: Plan) -> None:
    """Raise BadRequest if two columns have one name, or a field has none."""
    name = find_duplicate_name(plan.schema.names)
    if name is not None:
        raise BadRequest(
            f"the query has two columns called {name!r}; give one of them another name with AS"
        )
    unnamed = next((f.name for f in plan.schema if _has_unnamed_fields(f.type)), None)
    if unnamed is not None:
        raise BadRequest(f"column {unnamed!r} is a struct whose fields have no names: name them")


def _has_unnamed_fields(data_type: pa.DataType) -> bool:
    fields = [data_type.field(index) for index in range(data_type.num_fields)]
    unnamed = pa.types.is_struct(data_type) and not all(field.name for field in fields)
    return unnamed or any(_has_unnamed_fields(field.type) for field in fields)


def _fill(
    context: StatementContext, connection: StatementConnection, job: CreateTableAsJob
) -> _Filled:
    """Create the table with its rows: Spark writes its files, or the rows are streamed to it."""
    spark, schema = context.spark, job.schema
    direct = job.choice.engine == SPARK and not context.in_transaction
    if direct and spark is not None and supports(schema, CanFillOnSpark):
        try:
            return _fill_on_spark(context, spark, schema, job)
        except BadRequest as error:
            if not job.replaces and context.names.table_exists(job.path):
                raise  # the query succeeded, and its rows did not fit
            job = replace(job, choice=fall_back_to_duckdb(context, job.choice, error))
    return _fill_by_stream(context, connection, job)


def _fill_on_spark(
    context: StatementContext, spark: SparkRunner, schema: CanFillOnSpark, job: CreateTableAsJob
) -> _Filled:
    timer = context.timer
    with timer.phase("spool"), spark.session(timer.tasks, job.choice.views):
        table = schema.create_on_spark(job.request, job.choice.sql)
    return _Filled(table.rows, table.size, job.choice)


def _fill_by_stream(
    context: StatementContext, connection: StatementConnection, job: CreateTableAsJob
) -> _Filled:
    begin, size = _begin(context, job), 0
    with (
        stream_query(context, connection, job.plan, job.choice) as stream,
        context.timer.phase("load"),
        context.write(job.path, job.kind, begin) as write,
    ):
        for batch in stream.batches:
            write(batch)
            size += array_bytes(batch)
    return _Filled(stream.rows, size, stream.choice)


def _begin(context: StatementContext, job: CreateTableAsJob) -> BeginWrite:
    """Return how the write begins.

    In a transaction a new table exists at once, without rows; a replaced one stays until COMMIT.
    """
    if context.in_transaction and not job.replaces:
        return lambda: _create_then_insert(job.schema, job.request)
    return lambda: _begin_create(job.schema, job.request)


def _begin_create(schema: Schema, request: CreateTable) -> AbstractContextManager[Write]:
    if supports(schema, CanFill):
        return schema.creating(request)
    return _create_then_insert(schema, request)


def _create_then_insert(schema: Schema, request: CreateTable) -> AbstractContextManager[Write]:
    table = _table_creator(schema).create_table(request)
    if not supports(table, CanInsert):
        raise NotSupported(f"table {request.name!r} does not support INSERT")
    return table.inserting(DMLOptions())


def _table_creator(schema: Schema) -> CanCreateTables:
    if not supports(schema, CanCreateTables):
        raise NotSupported(f"schema {schema.info().name!r} does not support CREATE TABLE")
    return schema
