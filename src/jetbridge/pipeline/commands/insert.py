"""INSERT INTO: the rows of a query or of VALUES, all of them or none."""

from dataclasses import dataclass, replace

from jetbridge.catalog import CanInsert, DMLOptions, Table, Write, supports
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.planner import StatementConnection
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.commands.dml_target import TargetColumns, value
from jetbridge.pipeline.commands.query import RowStream, engine_for, plan_query, stream_query
from jetbridge.pipeline.commands.returning import ReturningClause, check, reported, returned
from jetbridge.pipeline.name_resolution import Path
from jetbridge.pipeline.parsing.statements import Insert
from jetbridge.pipeline.query.engine_choice import SPARK, EngineChoice
from jetbridge.pipeline.query.plan import Plan
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.session import Session, StatementResult
from jetbridge.pipeline.transactions import BeginWrite

HOW = "INSERT"


@dataclass(frozen=True)
class InsertTarget:
    """An INSERT whose table exists; `statement` has the defaults of its columns written out."""

    path: Path
    table: Table
    statement: Insert


@dataclass(frozen=True)
class PlannedInsert:
    """An INSERT that nothing forbids, as far as that can be seen without its rows."""

    plan: Plan
    choice: EngineChoice
    returning: ReturningClause
    begin: BeginWrite


def resolve_insert(session: Session, statement: Insert) -> InsertTarget:
    """Look up the table of an INSERT; raise what is wrong with it or with its VALUES."""
    places = session.places()
    path = places.path(statement.target)
    table = places.live_table(path)
    return InsertTarget(path, table, _with_defaults(statement, table))


def plan_insert(session: Session, desk: StatementConnection, target: InsertTarget) -> PlannedInsert:
    """Plan an INSERT without writing; raise whatever it would be refused for."""
    path, table, statement = target.path, target.table, target.statement
    plan = _planned(session, desk, statement, table)
    choice = engine_for(session, desk, plan)
    answers = ReturningClause(statement.returning, path[2], table.info().schema)
    check(desk, answers, session.means.rules)
    session.refuse_writing(path, HOW)
    return PlannedInsert(plan, choice, answers, _beginning(session, path, table, answers))


def insert(session: Session, statement: Insert) -> StatementResult:
    target = resolve_insert(session, statement)
    path, clock = target.path, session.clock()
    with session.desk(target.statement.query) as desk:
        with clock.phase("plan"):
            work = plan_insert(session, desk, target)
        answers = work.returning
        at_once = not answers.wanted and session.transaction is None
        with (
            stream_query(session, desk, work.plan, work.choice, clock, streams=at_once) as made,
            clock.phase("load"),
            session.writing(path, HOW, work.begin, clock) as write,
        ):
            size = _written(made, write, answers)
            rows = returned(desk, answers) if answers.wanted else None
    report = Report(
        HOW,
        ".".join(path),
        rows_produced=made.rows,
        rows_written=made.rows,
        bytes=size,
        seconds=clock.seconds,
        engine=made.choice.engine,
        reason=made.choice.reason,
    )
    return reported(report, rows)


def _planned(session: Session, desk: StatementConnection, statement: Insert, table: Table) -> Plan:
    """The query, with the names and types of the columns that it goes to."""
    found = plan_query(session, desk, statement.query)
    names = found.schema.names if statement.by_name else _targets(statement, table)
    if len(names) != len(found.schema):
        raise BadRequest(
            f"{statement.target} wants {len(names)} columns, and the query has {len(found.schema)}"
        )
    known = TargetColumns(statement.target, table.info().schema)
    fields = known.find_all(names)
    columns = [(field.name, duckdb_type(field)) for field in fields]
    given = [name for name, _ in columns]
    if session.settings.dialect == SPARK:  # the table casts what it is given
        return plan_query(session, desk, statement.query, tuple(given))
    return plan_query(session, desk, queries.cast_to_target(statement.query, given, columns))


def _with_defaults(statement: Insert, table: Table) -> Insert:
    """`VALUES (1, DEFAULT)` with the defaults written out; DuckDB knows them for its own tables."""
    if statement.values is None:
        return statement
    known = TargetColumns(statement.target, table.info().schema)
    fields = known.find_all(_targets(statement, table))
    rows: list[list[str]] = []
    for row in statement.values.rows:
        if len(row) != len(fields):
            raise BadRequest(
                f"{statement.target} wants {len(fields)} columns, and VALUES has {len(row)}"
            )
        rows.append([value(field, text) for field, text in zip(fields, row, strict=True)])
    return replace(statement, query=f"{queries.values(rows)} {statement.values.rest}".strip())


def _targets(statement: Insert, table: Table) -> list[str]:
    return list(statement.columns) or list(table.info().schema.names)


def _beginning(session: Session, path: Path, table: Table, answers: ReturningClause) -> BeginWrite:
    if not supports(table, CanInsert):
        raise NotSupported(f"table {'.'.join(path)!r} takes no rows")
    # In a transaction a later INSERT may want what this one does not.
    options = DMLOptions(returning=answers.wanted or session.transaction is not None)
    return lambda: table.inserting(options)


def _written(made: RowStream, write: Write, answers: ReturningClause) -> int:
    size = 0
    for batch in made.batches:
        answer = write(batch)
        answers.add(answer.returning_data, batch.num_rows)
        size += batch.nbytes
    return size
