"""Runs MERGE INTO: DuckDB finds what happens to each row, the table does it in one step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import MERGE_ACTION, ROWID, CanMerge, Table, supports
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.dialects.quoting import literal
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.connection import PAST, StatementConnection
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.commands.dml_target import (
    CHANGED,
    ReturningClause,
    TargetColumns,
    check_returning,
    default_expression,
    evaluate_returning,
    with_report,
)
from jetbridge.pipeline.commands.query import plan_query
from jetbridge.pipeline.context import BeginWrite, StatementContext
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA, Path
from jetbridge.pipeline.parsing.statements import MatchCase, MergeStatement, WhenClause
from jetbridge.pipeline.query.plan import TARGET, Plan, bind_query
from jetbridge.pipeline.query.run_on_duckdb import register_tables
from jetbridge.pipeline.report import Report, StatementResult

_STATEMENT = "MERGE INTO"
# Where the query of each clause finds the rows of the source.
_SOURCE = (PAST, DEFAULT_SCHEMA, "jetbridge_source")


@dataclass(frozen=True)
class _MergeTarget:
    path: Path
    table: Table
    begin: BeginWrite


def merge(context: StatementContext, statement: MergeStatement) -> StatementResult:
    """Run MERGE INTO."""
    target = _resolve_target(context, statement)
    schema = target.table.info().schema
    query = _after_with(statement, statement.source)
    returning = ReturningClause(statement.returning, statement.alias, schema)
    timer = context.timer
    with context.connect(query, target.path[0]) as connection:
        with timer.phase("plan"):
            source = plan_query(context, connection, query)
            action = pa.field(MERGE_ACTION, pa.string())
            check_returning(connection, returning, context.access, action)
            clauses = _ClauseQueries(statement, target.table, source.schema.names).query()
        with timer.phase("spool"):
            _keep_changes(context, connection, source, target, _after_with(statement, clauses))
        with timer.phase("load"):
            returned = evaluate_returning(connection, returning)
            rows = _write_rows(context, connection, target)
    report = Report(
        _STATEMENT,
        ".".join(target.path),
        rows_produced=rows,
        rows_written=rows,
        seconds=timer.seconds,
        engine="duckdb",
        reason="DuckDB finds the rows, the table merges them by their ids",
    )
    return with_report(report, returned)


def _resolve_target(context: StatementContext, statement: MergeStatement) -> _MergeTarget:
    path = context.names.path(statement.target)
    context.names.writable_catalog(path[0])
    table = context.names.table(path)
    begin = table.merging if supports(table, CanMerge) else None
    if begin is None or table.info().row_id is None:
        raise NotSupported(
            f"table {'.'.join(path)!r} does not support MERGE INTO; use UPDATE and INSERT"
        )
    context.refuse_reading(path)
    return _MergeTarget(path, table, begin)


def _after_with(statement: MergeStatement, query: str) -> str:
    return f"{statement.with_} {query}" if statement.with_ else query


def _keep_changes(
    context: StatementContext,
    connection: StatementConnection,
    source: Plan,
    target: _MergeTarget,
    clauses: str,
) -> None:
    """Keep the rows of the source, the same for all clauses, then what happens to each row."""
    with register_tables(connection, source.sources, source.query):
        connection.create_table_as(_SOURCE, source.query)
    access = context.access
    if connection.reads_table_files:
        access = access.without_files()
    plan = bind_query(connection, context.names, clauses, access=access, target=target.table)
    with register_tables(connection, plan.sources, plan.query):
        connection.create_table_as(CHANGED, plan.query)


def _write_rows(
    context: StatementContext, connection: StatementConnection, target: _MergeTarget
) -> int:
    query = queries.select_all(CHANGED)
    with context.write(target.path, _STATEMENT, target.begin) as write:
        return sum(write(batch).affected_rows for batch in connection.stream(query))


@dataclass(frozen=True)
class _ClauseQueries:
    """Render one query for each WHEN clause, and join them."""

    statement: MergeStatement
    table: Table
    source_names: Sequence[str]

    def query(self) -> str:
        effective = self.statement.effective_clauses()
        return queries.union_all([self._clause(clause, earlier) for clause, earlier in effective])

    def _clause(self, clause: WhenClause, earlier: Sequence[str]) -> str:
        statement = self.statement
        values = self._values(clause)
        columns = [(MERGE_ACTION, _action(clause)), (ROWID, self._row_id(clause))]
        for field in self.table.info().schema:
            value = queries.cast_to_type(values[field.name], duckdb_type(field))
            columns.append((field.name, value))
        sides = queries.MergeSides(
            TARGET, statement.alias, _SOURCE, statement.source_alias, self._join_condition()
        )
        return queries.merge_part(columns, sides, clause.case.value, clause.condition, earlier)

    def _row_id(self, clause: WhenClause) -> str:
        if clause.case is not MatchCase.NEW:
            return queries.column(self.statement.alias, ROWID)
        field = pa.field(ROWID, self.table.info().row_id or pa.int64())
        return queries.null_of_type(duckdb_type(field))

    def _join_condition(self) -> str:
        statement = self.statement
        if not statement.using:
            return statement.condition
        return " AND ".join(
            f"{queries.column(statement.alias, name)} = "
            f"{queries.column(statement.source_alias, name)}"
            for name in statement.using
        )

    def _values(self, clause: WhenClause) -> Mapping[str, str]:
        """Return the expression for each column of the table after the clause."""
        schema, alias = self.table.info().schema, self.statement.alias
        columns = TargetColumns(self.statement.target, schema)
        assigned = columns.assign(self._assignments(clause))
        if clause.case is MatchCase.NEW:
            return {**{field.name: default_expression(field) for field in schema}, **assigned}
        return {**{name: queries.column(alias, name) for name in schema.names}, **assigned}

    def _assignments(self, clause: WhenClause) -> Sequence[tuple[str, str]]:
        if clause.action not in ("UPDATE", "INSERT"):
            return ()
        names = list(clause.columns) or self.table.info().schema.names
        if clause.values is None:
            return self._source_columns(clause, names)
        if clause.action == "INSERT" and clause.values:
            if len(names) != len(clause.values):
                raise BadRequest(
                    f"INSERT names {len(names)} columns and has {len(clause.values)} values"
                )
            return [(n, value) for n, (_, value) in zip(names, clause.values, strict=True)]
        return clause.values

    def _source_columns(self, clause: WhenClause, names: Sequence[str]) -> list[tuple[str, str]]:
        """Assign the columns of the source to those of the table, by name or by position."""
        alias, source_names = self.statement.source_alias, self.source_names
        if clause.by_name:
            return [(name, queries.column(alias, name)) for name in source_names]
        if len(names) != len(source_names):
            raise BadRequest(
                f"{clause.action} by position needs {len(names)} columns, and the source has "
                f"{len(source_names)}; name them, or add BY NAME"
            )
        pairs = zip(names, source_names, strict=True)
        return [(name, queries.column(alias, source_name)) for name, source_name in pairs]


def _action(clause: WhenClause) -> str:
    if clause.action != "ERROR":
        return literal(clause.action)
    message = f"Merge error condition WHEN {clause.case.value}"
    return queries.error_expression(message, clause.message)
