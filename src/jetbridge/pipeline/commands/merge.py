"""MERGE INTO: DuckDB finds what happens to each row, the table does it in one step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import MERGE_ACTION, ROWID, CanMerge, Table, supports
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.dialects.quoting import literal
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.planner import PAST, StatementConnection
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.commands.dml_target import TargetColumns, default
from jetbridge.pipeline.commands.query import plan_query
from jetbridge.pipeline.commands.returning import (
    CHANGED,
    ReturningClause,
    check,
    evaluated,
    reported,
)
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA, NameResolver, Path
from jetbridge.pipeline.parsing.statements import MatchCase, MergeStatement, WhenClause
from jetbridge.pipeline.query.plan import TARGET, Plan, bind_query
from jetbridge.pipeline.query.run_on_duckdb import register_tables
from jetbridge.pipeline.report import PhaseTimer, Report
from jetbridge.pipeline.session import Session, StatementResult
from jetbridge.pipeline.transactions import BeginWrite

HOW = "MERGE INTO"
SOURCE = (PAST, DEFAULT_SCHEMA, "jetbridge_source")


def merge(session: Session, wanted: MergeStatement) -> StatementResult:
    places = session.places()
    path = places.path(wanted.target)
    places.live(path[0])
    table = places.table(path)
    merging = table.merging if supports(table, CanMerge) else None
    if merging is None or table.info().row_id is None:
        raise NotSupported(f"table {'.'.join(path)!r} takes no MERGE INTO; use UPDATE and INSERT")
    if session.transaction is not None:
        session.transaction.refuse_reading(path)
    clock = session.clock()
    query = _with(wanted, wanted.source)
    answers = ReturningClause(wanted.returning, wanted.alias, table.info().schema)
    with session.desk(query, path[0]) as desk:
        with clock.phase("plan"):
            source = plan_query(session, desk, query, places=places)
            check(desk, answers, session.means.rules, pa.field(MERGE_ACTION, pa.string()))
            text = _with(wanted, _Parts(wanted, table, source.schema.names).query())
        with clock.phase("spool"):
            _keep_changed(session, desk, places, source, table, text)
        with clock.phase("load"):
            returned = evaluated(desk, answers) if answers.wanted else None
            rows = _merged(session, desk, path, merging, clock)
    report = Report(
        HOW,
        ".".join(path),
        rows_produced=rows,
        rows_written=rows,
        seconds=clock.seconds,
        engine="duckdb",
        reason="DuckDB finds the rows, the table merges them by their ids",
    )
    return reported(report, returned)


def _with(wanted: MergeStatement, query: str) -> str:
    return f"{wanted.with_} {query}" if wanted.with_ else query


def _keep_changed(
    session: Session,
    desk: StatementConnection,
    places: NameResolver,
    source: Plan,
    table: Table,
    text: str,
) -> None:
    """The source once, so that it is the same for all clauses; then what happens to each row."""
    with register_tables(desk, source.sources, source.query):
        desk.create_table_as(SOURCE, source.query)
    rules = session.means.rules
    # Expressions stand where the files of the table may be read.
    strict = rules.without_files() if desk.reads_table_files else rules
    found = bind_query(desk, places, text, rules=strict, target=table)
    with register_tables(desk, found.sources, found.query):
        desk.create_table_as(CHANGED, found.query)


def _merged(
    session: Session, desk: StatementConnection, path: Path, merging: BeginWrite, clock: PhaseTimer
) -> int:
    query = queries.select_all(CHANGED)
    with session.writing(path, HOW, merging, clock) as write:
        return sum(write(batch).affected_rows for batch in desk.stream(query))


@dataclass(frozen=True)
class _Parts:
    """One query for each WHEN clause, put together."""

    wanted: MergeStatement
    table: Table
    names: Sequence[str]

    def query(self) -> str:
        effective = self.wanted.effective_clauses()
        return queries.union_all([self._clause(clause, earlier) for clause, earlier in effective])

    def _clause(self, clause: WhenClause, earlier: Sequence[str]) -> str:
        wanted = self.wanted
        action = literal(clause.action)
        if clause.action == "ERROR":
            message = f"Merge error condition WHEN {clause.case.value}"
            action = queries.error_expression(message, clause.message)
        kind = pa.field(ROWID, self.table.info().row_id or pa.int64())
        rowid = queries.null_of_type(duckdb_type(kind))
        if clause.case is not MatchCase.NEW:
            rowid = queries.column(wanted.alias, ROWID)
        values = self._values(clause)
        made = [(MERGE_ACTION, action), (ROWID, rowid)]
        for field in self.table.info().schema:
            made.append((field.name, queries.cast_to_type(values[field.name], duckdb_type(field))))
        return queries.merge_part(
            made,
            queries.MergeSides(TARGET, wanted.alias, SOURCE, wanted.source_alias, self._on()),
            clause.case.value,
            clause.condition,
            earlier,
        )

    def _on(self) -> str:
        wanted = self.wanted
        if not wanted.using:
            return wanted.condition
        return " AND ".join(
            f"{queries.column(wanted.alias, name)} = {queries.column(wanted.source_alias, name)}"
            for name in wanted.using
        )

    def _values(self, clause: WhenClause) -> Mapping[str, str]:
        """What each column of the table will be."""
        schema, alias = self.table.info().schema, self.wanted.alias
        known = TargetColumns(self.wanted.target, schema)
        given = known.assigned(self._given(clause))
        if clause.case is MatchCase.NEW:
            return {**{field.name: default(field) for field in schema}, **given}
        return {**{name: queries.column(alias, name) for name in schema.names}, **given}

    def _given(self, clause: WhenClause) -> Sequence[tuple[str, str]]:
        if clause.action not in ("UPDATE", "INSERT"):
            return ()
        names = list(clause.columns) or self.table.info().schema.names
        if clause.values is None:
            return self._of_source(clause, names)
        if clause.action == "INSERT" and clause.values:
            if len(names) != len(clause.values):
                raise BadRequest(
                    f"INSERT names {len(names)} columns and has {len(clause.values)} values"
                )
            return [(n, value) for n, (_, value) in zip(names, clause.values, strict=True)]
        return clause.values

    def _of_source(self, clause: WhenClause, names: Sequence[str]) -> list[tuple[str, str]]:
        alias = self.wanted.source_alias
        if clause.by_name:
            return [(name, queries.column(alias, name)) for name in self.names]
        if len(names) != len(self.names):
            raise BadRequest(
                f"{clause.action} by position needs {len(names)} columns, and the source has "
                f"{len(self.names)}; name them, or add BY NAME"
            )
        return [(n, queries.column(alias, s)) for n, s in zip(names, self.names, strict=True)]
