"""Runs queries: plans them, chooses their engine, and returns their rows as a stream."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from jetbridge.dialects import spark as spark_sql
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.errors import BadRequest, FailedPrecondition
from jetbridge.pipeline.context import StatementContext
from jetbridge.pipeline.parsing.statements import Query
from jetbridge.pipeline.query import run_on_duckdb
from jetbridge.pipeline.query.engine_choice import (
    AUTO,
    DUCKDB,
    NO_SPARK,
    SPARK,
    EngineChoice,
    choose_engine,
)
from jetbridge.pipeline.query.plan import Plan, bind_query, plan_spark_sql
from jetbridge.pipeline.query.run_on_spark import spool_rows
from jetbridge.pipeline.report import PhaseTimer, StatementResult
from jetbridge.spark.written_rows import WrittenFiles


@dataclass
class RowStream:
    """Hold the rows of a query and the engine that runs it. `rows` counts those read so far."""

    choice: EngineChoice
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    rows: int = 0


def run_query(context: StatementContext, statement: Query) -> StatementResult:
    """Plan a query and return its rows; raise what is wrong with it before the first row."""
    with ExitStack() as stack:
        connection = stack.enter_context(context.connect(statement.text))
        with context.timer.phase("plan"):
            plan = plan_query(context, connection, statement.text)
            choice = choose_query_engine(context, connection, plan)
        stream = stack.enter_context(stream_query(context, connection, plan, choice))
        batches = _closing(stack.pop_all(), stream.batches)
        return StatementResult(schema=plan.schema, batches=batches)


def plan_query(
    context: StatementContext,
    connection: StatementConnection,
    query: str,
    columns: tuple[str, ...] = (),
) -> Plan:
    """Plan a query; raise FailedPrecondition for a table that the transaction has written.

    `columns` rename the first columns of the query.
    """
    if context.settings.dialect == SPARK:
        return _plan_on_spark(context, connection, query, columns)
    plan = bind_query(connection, context.names, query, columns, context.access)
    for path in plan.sources:
        context.refuse_reading(context.names.resolve_path(path))
    return plan


def _plan_on_spark(
    context: StatementContext,
    connection: StatementConnection,
    query: str,
    columns: tuple[str, ...],
) -> Plan:
    if context.spark is None:
        raise FailedPrecondition(NO_SPARK)
    if not context.access.trusted:
        raise FailedPrecondition("dialect = spark is for the local command only")
    return plan_spark_sql(connection, query, context.spark.describe(query), columns)


def choose_query_engine(
    context: StatementContext, connection: StatementConnection, plan: Plan
) -> EngineChoice:
    """Return the engine for a planned query; raise as `choose_engine` does."""
    if context.settings.dialect == SPARK:
        sql = spark_sql.rename_columns(plan.query, plan.schema.names)
        return EngineChoice(SPARK, "the query is Spark SQL", sql, dialect=SPARK)
    return choose_engine(
        connection,
        plan,
        context.names.search_path,
        context.settings,
        has_spark=context.spark is not None,
    )


@contextmanager
def stream_query(
    context: StatementContext,
    connection: StatementConnection,
    plan: Plan,
    choice: EngineChoice,
    *,
    read_first: bool = False,
) -> Iterator[RowStream]:
    """Run a planned query, and stream its rows until the block ends. Spark spools them first.

    `read_first`: read all tables before the first row is returned.
    """
    stream = RowStream(choice)
    with ExitStack() as stack:
        spool = None
        if choice.engine == SPARK:
            try:
                spool = stack.enter_context(_spool(context, choice))
            except BadRequest as error:
                stream.choice = fall_back_to_duckdb(context, choice, error)
        if spool is not None:
            batches = spool_rows(plan, spool, context.databases.limits.memory_limit)
        else:
            batches = run_on_duckdb.stream_rows(connection, plan, read_first=read_first)
        total = None if spool is None else spool.rows
        stream.batches = _count(batches, stream, context.timer, total)
        yield stream


def fall_back_to_duckdb(
    context: StatementContext, choice: EngineChoice, error: BadRequest
) -> EngineChoice:
    """Choose DuckDB for a query that failed on Spark: it may read a text that Spark cannot.

    If DuckDB fails too, the user sees its error. Raises the error unless `engine` is auto.
    """
    if context.settings.engine != AUTO or choice.dialect == SPARK:
        raise error
    return EngineChoice(DUCKDB, f"it failed on Spark: {str(error)[:200]}")


@contextmanager
def _spool(context: StatementContext, choice: EngineChoice) -> Iterator[WrittenFiles]:
    if context.spark is None:
        raise FailedPrecondition(NO_SPARK)
    with ExitStack() as stack:
        with context.timer.phase("spool"):
            spool = stack.enter_context(
                context.spark.spool_query(choice.sql, context.timer.tasks, choice.views)
            )
        yield spool


def _count(
    batches: Iterator[pa.RecordBatch], stream: RowStream, timer: PhaseTimer, total: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        stream.rows += batch.num_rows
        timer.rows(stream.rows, total)
        yield batch


def _closing(stack: ExitStack, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with stack:
        yield from batches
