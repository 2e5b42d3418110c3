"""Runs UPDATE and DELETE: DuckDB finds the rows and new values, the table changes them by id."""

from jetbridge.catalog import ROWID, CanDelete, CanUpdate, DMLOptions, Table, Write, supports
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.errors import NotSupported
from jetbridge.pipeline.commands.dml_target import (
    CHANGED,
    ReturningClause,
    TargetColumns,
    check_returning,
    evaluate_returning,
    with_report,
)
from jetbridge.pipeline.context import BeginWrite, StatementContext
from jetbridge.pipeline.name_resolution import Path
from jetbridge.pipeline.parsing.statements import DmlKind, UpdateOrDelete
from jetbridge.pipeline.query.plan import TARGET, Plan, bind_query
from jetbridge.pipeline.query.run_on_duckdb import register_tables
from jetbridge.pipeline.report import PhaseTimer, Report, StatementResult


def update_or_delete(context: StatementContext, statement: UpdateOrDelete) -> StatementResult:
    """Run UPDATE, DELETE or TRUNCATE."""
    path, table = _resolve_target(context, statement)
    query = _select_changes(statement, table)
    returning = ReturningClause(statement.returning, statement.alias, table.info().schema)
    timer = context.timer
    with context.connect(query, path[0]) as connection:
        with timer.phase("plan"):
            plan = bind_query(connection, context.names, query, access=context.access, target=table)
            check_returning(connection, returning, context.access)
        with timer.phase("load"), register_tables(connection, plan.sources, query):
            changed = _kept_changes(connection, plan, returning)
            begin = _begin(statement.kind, path, table)
            with context.write(path, statement.kind.value, begin) as write:
                rows = _write_rows(connection, write, _sent_columns(changed, statement), timer)
                returned = evaluate_returning(connection, returning)
    report = Report(
        statement.kind.value,
        ".".join(path),
        rows_produced=rows,
        rows_written=rows,
        seconds=timer.seconds,
        engine="duckdb",
        reason="DuckDB finds the rows, the table changes them by their ids",
    )
    return with_report(report, returned)


def _resolve_target(context: StatementContext, statement: UpdateOrDelete) -> tuple[Path, Table]:
    path = context.names.path(statement.target)
    context.names.writable_catalog(path[0])
    table = context.names.table(path)
    context.refuse_reading(path)
    if table.info().row_id is None:
        raise NotSupported(
            f"table {'.'.join(path)!r} has no row ids, so its rows cannot be updated or deleted; "
            "give it a primary key"
        )
    return path, table


def _select_changes(statement: UpdateOrDelete, table: Table) -> str:
    """Return the query for row ids and new values; with RETURNING, for all columns."""
    schema = table.info().schema
    expressions = TargetColumns(statement.target, schema).assign(statement.assignments)
    columns = []
    for field in schema:
        expression = expressions.get(field.name)
        if expression is None and not statement.returning:
            continue
        unchanged = queries.column(statement.alias, field.name)
        columns.append((field.name, expression or unchanged, duckdb_type(field)))
    text = queries.select_changes(
        TARGET, statement.alias, columns, statement.from_, statement.where
    )
    return f"{statement.with_} {text}" if statement.with_ else text


def _kept_changes(connection: StatementConnection, plan: Plan, returning: ReturningClause) -> str:
    """Return the query for the changes; with RETURNING, which also reads them, keep their rows."""
    if not returning:
        return plan.query
    connection.create_table_as(CHANGED, queries.one_row_per_id(plan.query))
    return queries.select_all(CHANGED)


def _sent_columns(query: str, statement: UpdateOrDelete) -> str:
    """Return the query for what the table gets: row ids, and the columns that change."""
    return queries.select_columns(query, [ROWID, *(name for name, _ in statement.assignments)])


def _begin(kind: DmlKind, path: Path, table: Table) -> BeginWrite:
    options = DMLOptions()
    if kind is DmlKind.UPDATE and supports(table, CanUpdate):
        return lambda: table.updating(options)
    if kind is DmlKind.DELETE and supports(table, CanDelete):
        return lambda: table.deleting(options)
    raise NotSupported(f"table {'.'.join(path)!r} does not support {kind.value}")


def _write_rows(
    connection: StatementConnection, write: Write, query: str, timer: PhaseTimer
) -> int:
    rows = 0
    for batch in connection.stream(query):
        rows += write(batch).affected_rows
        timer.rows(rows)
    return rows
