"""Runs INSERT INTO: writes the rows of a query or of VALUES, all of them or none."""

from dataclasses import dataclass, replace

from jetbridge.catalog import CanInsert, DMLOptions, Table, Write, supports
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.commands.dml_target import (
    ReturningClause,
    TargetColumns,
    check_returning,
    evaluate_answers,
    resolve_default,
    with_report,
)
from jetbridge.pipeline.commands.query import (
    RowStream,
    choose_query_engine,
    plan_query,
    stream_query,
)
from jetbridge.pipeline.context import BeginWrite, StatementContext
from jetbridge.pipeline.name_resolution import Path
from jetbridge.pipeline.parsing.statements import Insert
from jetbridge.pipeline.query.engine_choice import SPARK, EngineChoice
from jetbridge.pipeline.query.plan import Plan
from jetbridge.pipeline.report import Report, StatementResult
from jetbridge.runtime.array_sizes import array_bytes

_STATEMENT = "INSERT"


@dataclass(frozen=True)
class InsertTarget:
    """Hold an INSERT whose table exists. `statement` has defaults in place of DEFAULT."""

    path: Path
    table: Table
    statement: Insert


@dataclass(frozen=True)
class InsertJob:
    """Hold a planned INSERT, which only its rows can still make fail."""

    plan: Plan
    choice: EngineChoice
    returning: ReturningClause
    begin: BeginWrite


def insert(context: StatementContext, statement: Insert) -> StatementResult:
    """Run INSERT INTO."""
    target = resolve_insert(context, statement)
    with context.connect(target.statement.query) as connection:
        with context.timer.phase("plan"):
            job = plan_insert(context, connection, target)
        # The table may then write rows as they arrive: reading it would wait for its own locks.
        read_first = bool(job.returning) or context.in_transaction
        with (
            stream_query(context, connection, job.plan, job.choice, read_first=read_first) as rows,
            context.timer.phase("load"),
            context.write(target.path, _STATEMENT, job.begin) as write,
        ):
            size = _write_rows(rows, write, job.returning)
            returned = evaluate_answers(connection, job.returning)
    report = Report(
        _STATEMENT,
        ".".join(target.path),
        rows_produced=rows.rows,
        rows_written=rows.rows,
        bytes=size,
        seconds=context.timer.seconds,
        engine=rows.choice.engine,
        reason=rows.choice.reason,
    )
    return with_report(report, returned)


def resolve_insert(context: StatementContext, statement: Insert) -> InsertTarget:
    """Look up the table of an INSERT; raise what is wrong with it or with its VALUES."""
    path = context.names.path(statement.target)
    table = context.names.writable_table(path)
    return InsertTarget(path, table, _resolve_defaults(statement, table))


def plan_insert(
    context: StatementContext, connection: StatementConnection, target: InsertTarget
) -> InsertJob:
    """Plan an INSERT without writing; raise what it would be refused for."""
    path, table, statement = target.path, target.table, target.statement
    plan = _plan_rows(context, connection, statement, table)
    choice = choose_query_engine(context, connection, plan)
    returning = ReturningClause(statement.returning, path[2], table.info().schema)
    check_returning(connection, returning, context.access)
    context.refuse_writing(path, _STATEMENT)
    return InsertJob(plan, choice, returning, _begin(context, path, table, returning))


def _plan_rows(
    context: StatementContext, connection: StatementConnection, statement: Insert, table: Table
) -> Plan:
    """Plan the query, with the names and types of the columns that its rows go to."""
    plan = plan_query(context, connection, statement.query)
    names = plan.schema.names if statement.by_name else _target_names(statement, table)
    if len(names) != len(plan.schema):
        raise BadRequest(
            f"{statement.target} needs {len(names)} columns, and the query has {len(plan.schema)}"
        )
    fields = TargetColumns(statement.target, table.info().schema).find_all(names)
    columns = [(field.name, duckdb_type(field)) for field in fields]
    spelled = [name for name, _ in columns]
    if context.settings.dialect == SPARK:  # the table casts the values
        return plan_query(context, connection, statement.query, tuple(spelled))
    query = queries.cast_to_target(statement.query, spelled, columns)
    return plan_query(context, connection, query)


def _resolve_defaults(statement: Insert, table: Table) -> Insert:
    """Replace DEFAULT in `VALUES (1, DEFAULT)`: DuckDB knows defaults of its own tables only."""
    if statement.values is None:
        return statement
    columns = TargetColumns(statement.target, table.info().schema)
    fields = columns.find_all(_target_names(statement, table))
    rows: list[list[str]] = []
    for row in statement.values.rows:
        if len(row) != len(fields):
            raise BadRequest(
                f"{statement.target} needs {len(fields)} columns, and VALUES has {len(row)}"
            )
        rows.append([resolve_default(field, text) for field, text in zip(fields, row, strict=True)])
    return replace(statement, query=f"{queries.values(rows)} {statement.values.rest}".strip())


def _target_names(statement: Insert, table: Table) -> list[str]:
    return list(statement.columns) or list(table.info().schema.names)


def _begin(
    context: StatementContext, path: Path, table: Table, returning: ReturningClause
) -> BeginWrite:
    if not supports(table, CanInsert):
        raise NotSupported(f"table {'.'.join(path)!r} does not support INSERT")
    # A later INSERT of the transaction may have RETURNING, and shares this write.
    options = DMLOptions(returning=bool(returning) or context.in_transaction)
    return lambda: table.inserting(options)


def _write_rows(stream: RowStream, write: Write, returning: ReturningClause) -> int:
    """Write all rows and return their bytes."""
    size = 0
    for batch in stream.batches:
        result = write(batch)
        returning.add(result.returning_data, batch.num_rows)
        size += array_bytes(batch)
    return size
