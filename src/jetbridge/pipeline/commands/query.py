"""The rows of a query, from whichever engine runs it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from jetbridge.dialects import spark as spark_sql
from jetbridge.duckdb_engine.planner import Desk
from jetbridge.errors import BadRequest, FailedPrecondition
from jetbridge.pipeline.name_resolution import Places
from jetbridge.pipeline.parsing.statements import Query
from jetbridge.pipeline.query import run_on_duckdb
from jetbridge.pipeline.query.engine_choice import AUTO, DUCKDB, SPARK, Choice, choose
from jetbridge.pipeline.query.plan import Plan, plan, plan_of_spark
from jetbridge.pipeline.query.run_on_spark import spool_rows
from jetbridge.pipeline.report import Clock
from jetbridge.pipeline.session import Outcome, Session
from jetbridge.spark.written_rows import Written


@dataclass
class Produced:
    """`rows` counts those that were taken so far."""

    choice: Choice
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    rows: int = 0


def planned(
    session: Session,
    desk: Desk,
    query: str,
    columns: tuple[str, ...] = (),
    places: Places | None = None,
) -> Plan:
    """A query bound against the catalogs; in a transaction not against what that has written."""
    if session.settings.dialect == SPARK:
        return _planned_by_spark(session, desk, query, columns)
    seen = places or session.places()
    found = plan(desk, seen, query, columns, session.means.rules)
    if session.transaction is not None:
        for path in found.sources:
            session.transaction.refuse_reading(seen.settled(path))
    return found


def chosen(session: Session, desk: Desk, plan: Plan) -> Choice:
    if session.settings.dialect == SPARK:
        text = spark_sql.renamed(plan.query, plan.schema.names)
        return Choice(SPARK, "the query is Spark SQL", text, dialect=SPARK)
    has_spark = session.means.spark is not None
    return choose(desk, plan, session.place, session.settings, has_spark=has_spark)


def _planned_by_spark(session: Session, desk: Desk, query: str, columns: tuple[str, ...]) -> Plan:
    if session.means.spark is None or not session.means.rules.trusted:
        raise FailedPrecondition("dialect = spark needs a lake, and the local command")
    described = session.means.spark.described(query)
    return plan_of_spark(desk, query, described, columns)


@contextmanager
def produced(
    session: Session,
    desk: Desk,
    plan: Plan,
    choice: Choice,
    clock: Clock,
    *,
    streams: bool = True,
) -> Iterator[Produced]:
    """The rows as a stream, for as long as the block lasts; Spark spools them first.

    `streams` False: they are changed as they come, which must not meet what still reads them.
    """
    made = Produced(choice)
    with ExitStack() as stack:
        spool = None
        if choice.engine == SPARK:
            try:
                spool = stack.enter_context(_spooled(session, choice, clock))
            except BadRequest as error:
                made.choice = second_choice(session, choice, error)
        if spool is not None:
            batches, total = spool_rows(plan, spool, session.means.memory_limit), spool.rows
        else:
            batches, total = run_on_duckdb.rows(desk, plan, streams=streams), None
        made.batches = _counted(batches, made, clock, total)
        yield made


def second_choice(session: Session, choice: Choice, error: BadRequest) -> Choice:
    """What `auto` does with a query that fails on Spark: DuckDB may read a text that Spark cannot.

    If it fails there too, that is what the user is told. Raises the error where there is no other.
    """
    if session.settings.engine != AUTO or choice.dialect == SPARK:
        raise error
    return Choice(DUCKDB, f"it failed on Spark: {str(error)[:200]}")


@contextmanager
def _spooled(session: Session, choice: Choice, clock: Clock) -> Iterator[Written]:
    if session.means.spark is None:
        raise FailedPrecondition("there is no lake, so there is no Spark")
    with ExitStack() as stack:
        with clock.phase("spool"):
            spool = stack.enter_context(
                session.means.spark.spooled(choice.sql, clock.tasks, choice.views)
            )
        yield spool


def _counted(
    batches: Iterator[pa.RecordBatch], made: Produced, clock: Clock, total: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        made.rows += batch.num_rows
        clock.rows(made.rows, total)
        yield batch


def query(session: Session, statement: Query) -> Outcome:
    """Its rows are read later; what is wrong with the query is said now."""
    with ExitStack() as stack:
        desk = stack.enter_context(session.desk(statement.text))
        clock = session.clock()
        with clock.phase("plan"):
            found = planned(session, desk, statement.text)
            choice = chosen(session, desk, found)
        made = stack.enter_context(produced(session, desk, found, choice, clock))
        return Outcome(schema=found.schema, batches=_closing(stack.pop_all(), made.batches))


def _closing(stack: ExitStack, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with stack:
        yield from batches
