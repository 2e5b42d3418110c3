"""The rows of a query, from whichever engine runs it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from jetbridge.dialects import spark as spark_sql
from jetbridge.duckdb_engine.planner import StatementConnection
from jetbridge.errors import BadRequest, FailedPrecondition
from jetbridge.pipeline.name_resolution import NameResolver
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
from jetbridge.pipeline.query.plan import Plan, bind_query, plan_of_spark
from jetbridge.pipeline.query.run_on_spark import spool_rows
from jetbridge.pipeline.report import PhaseTimer
from jetbridge.pipeline.session import Session, StatementResult
from jetbridge.spark.written_rows import Written


@dataclass
class RowStream:
    """`rows` counts those that were taken so far."""

    choice: EngineChoice
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    rows: int = 0


def plan_query(
    session: Session,
    desk: StatementConnection,
    query: str,
    columns: tuple[str, ...] = (),
    places: NameResolver | None = None,
) -> Plan:
    """A query bound against the catalogs; in a transaction not against what that has written."""
    if session.settings.dialect == SPARK:
        return _planned_by_spark(session, desk, query, columns)
    seen = places or session.places()
    found = bind_query(desk, seen, query, columns, session.means.rules)
    if session.transaction is not None:
        for path in found.sources:
            session.transaction.refuse_reading(seen.settled(path))
    return found


def engine_for(session: Session, desk: StatementConnection, plan: Plan) -> EngineChoice:
    if session.settings.dialect == SPARK:
        text = spark_sql.renamed(plan.query, plan.schema.names)
        return EngineChoice(SPARK, "the query is Spark SQL", text, dialect=SPARK)
    has_spark = session.means.spark is not None
    return choose_engine(desk, plan, session.place, session.settings, has_spark=has_spark)


def _planned_by_spark(
    session: Session, desk: StatementConnection, query: str, columns: tuple[str, ...]
) -> Plan:
    if session.means.spark is None:
        raise FailedPrecondition(NO_SPARK)
    if not session.means.rules.trusted:
        raise FailedPrecondition("dialect = spark is for the local command only")
    described = session.means.spark.described(query)
    return plan_of_spark(desk, query, described, columns)


@contextmanager
def stream_query(
    session: Session,
    desk: StatementConnection,
    plan: Plan,
    choice: EngineChoice,
    clock: PhaseTimer,
    *,
    streams: bool = True,
) -> Iterator[RowStream]:
    """The rows as a stream, for as long as the block lasts; Spark spools them first.

    `streams` False: they are changed as they come, which must not meet what still reads them.
    """
    made = RowStream(choice)
    with ExitStack() as stack:
        spool = None
        if choice.engine == SPARK:
            try:
                spool = stack.enter_context(_spooled(session, choice, clock))
            except BadRequest as error:
                made.choice = fall_back_to_duckdb(session, choice, error)
        if spool is not None:
            batches, total = spool_rows(plan, spool, session.means.memory_limit), spool.rows
        else:
            batches, total = run_on_duckdb.stream_rows(desk, plan, streams=streams), None
        made.batches = _counted(batches, made, clock, total)
        yield made


def fall_back_to_duckdb(session: Session, choice: EngineChoice, error: BadRequest) -> EngineChoice:
    """What `auto` does with a query that fails on Spark: DuckDB may read a text that Spark cannot.

    If it fails there too, that is what the user is told. Raises the error where there is no other.
    """
    if session.settings.engine != AUTO or choice.dialect == SPARK:
        raise error
    return EngineChoice(DUCKDB, f"it failed on Spark: {str(error)[:200]}")


@contextmanager
def _spooled(session: Session, choice: EngineChoice, clock: PhaseTimer) -> Iterator[Written]:
    if session.means.spark is None:
        raise FailedPrecondition(NO_SPARK)
    with ExitStack() as stack:
        with clock.phase("spool"):
            spool = stack.enter_context(
                session.means.spark.spooled(choice.sql, clock.tasks, choice.views)
            )
        yield spool


def _counted(
    batches: Iterator[pa.RecordBatch], made: RowStream, clock: PhaseTimer, total: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        made.rows += batch.num_rows
        clock.rows(made.rows, total)
        yield batch


def run_query(session: Session, statement: Query) -> StatementResult:
    """Its rows are read later; what is wrong with the query is said now."""
    with ExitStack() as stack:
        desk = stack.enter_context(session.desk(statement.text))
        clock = session.clock()
        with clock.phase("plan"):
            found = plan_query(session, desk, statement.text)
            choice = engine_for(session, desk, found)
        made = stack.enter_context(stream_query(session, desk, found, choice, clock))
        return StatementResult(schema=found.schema, batches=_closing(stack.pop_all(), made.batches))


def _closing(stack: ExitStack, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with stack:
        yield from batches
