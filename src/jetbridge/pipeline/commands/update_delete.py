"""UPDATE and DELETE: DuckDB finds the rows and their new values, the table changes them by id."""

from jetbridge.catalog import ROWID, CanDelete, CanUpdate, DMLOptions, Table, Write, supports
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.planner import StatementConnection
from jetbridge.errors import NotSupported
from jetbridge.pipeline.commands.dml_target import TargetColumns
from jetbridge.pipeline.commands.returning import (
    CHANGED,
    ReturningClause,
    check,
    evaluated,
    reported,
)
from jetbridge.pipeline.name_resolution import Path
from jetbridge.pipeline.parsing.statements import DmlKind, UpdateOrDelete
from jetbridge.pipeline.query.plan import TARGET, bind_query
from jetbridge.pipeline.query.run_on_duckdb import register_tables
from jetbridge.pipeline.report import PhaseTimer, Report
from jetbridge.pipeline.session import Session, StatementResult
from jetbridge.pipeline.transactions import BeginWrite


def change(session: Session, statement: UpdateOrDelete) -> StatementResult:
    places, rules = session.places(), session.means.rules
    path = places.path(statement.target)
    places.live(path[0])
    table = places.table(path)
    if session.transaction is not None:
        session.transaction.refuse_reading(path)
    if table.info().row_id is None:
        raise NotSupported(
            f"table {'.'.join(path)!r} has no row ids, so its rows cannot be updated or deleted; "
            "give it a primary key"
        )
    clock = session.clock()
    query = _query(statement, table)
    answers = ReturningClause(statement.returning, statement.alias, table.info().schema)
    with session.desk(query, path[0]) as desk:
        with clock.phase("plan"):
            found = bind_query(desk, places, query, rules=rules, target=table)
            check(desk, answers, rules)
        with clock.phase("load"), register_tables(desk, found.sources, query):
            source = found.query
            if answers.wanted:  # read twice: to change the rows, and to tell of them
                desk.create_table_as(CHANGED, queries.one_row_per_id(source))
                source = queries.select_all(CHANGED)
            begin = _beginning(statement.kind, path, table)
            with session.writing(path, statement.kind.value, begin, clock) as write:
                rows = _written(desk, write, _sent(source, statement), clock)
                returned = evaluated(desk, answers) if answers.wanted else None
    report = Report(
        statement.kind.value,
        ".".join(path),
        rows_produced=rows,
        rows_written=rows,
        seconds=clock.seconds,
        engine="duckdb",
        reason="rows are found by DuckDB and changed by their ids",
    )
    return reported(report, returned)


def _query(statement: UpdateOrDelete, table: Table) -> str:
    """The ids of the rows and their new values; with RETURNING, all columns as they will be."""
    new = TargetColumns(statement.target, table.info().schema).assigned(statement.assignments)
    columns = []
    for field in table.info().schema:
        expression = new.get(field.name)
        if expression is None and not statement.returning:
            continue
        old = queries.column(statement.alias, field.name)
        columns.append((field.name, expression or old, duckdb_type(field)))
    text = queries.changed_rows(TARGET, statement.alias, columns, statement.from_, statement.where)
    return f"{statement.with_} {text}" if statement.with_ else text


def _sent(source: str, statement: UpdateOrDelete) -> str:
    """What the table is sent: row ids, and the columns that change."""
    return queries.select_columns(source, [ROWID, *(name for name, _ in statement.assignments)])


def _beginning(kind: DmlKind, path: Path, table: Table) -> BeginWrite:
    options = DMLOptions()
    if kind is DmlKind.UPDATE and supports(table, CanUpdate):
        return lambda: table.updating(options)
    if kind is DmlKind.DELETE and supports(table, CanDelete):
        return lambda: table.deleting(options)
    raise NotSupported(f"table {'.'.join(path)!r} takes no {kind.value}")


def _written(desk: StatementConnection, write: Write, query: str, clock: PhaseTimer) -> int:
    rows = 0
    for batch in desk.stream(query):
        rows += write(batch).affected_rows
        clock.rows(rows)
    return rows
