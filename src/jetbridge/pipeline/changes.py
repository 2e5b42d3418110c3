"""UPDATE and DELETE: DuckDB finds the rows and their new values, the table changes them by id."""

from collections.abc import Sequence
from dataclasses import dataclass

from jetbridge.catalog import ROWID, CanDelete, CanUpdate, DMLOptions, Table, Write, supports
from jetbridge.embedded import duckdb_type
from jetbridge.embedded.statements import (
    check_list_text,
    check_sources_text,
    check_with_text,
)
from jetbridge.embedded.workbench import Desk
from jetbridge.errors import NotSupported
from jetbridge.pipeline.columns import Columns
from jetbridge.pipeline.on_duckdb import laid_out
from jetbridge.pipeline.places import Path
from jetbridge.pipeline.plan import TARGET, plan
from jetbridge.pipeline.report import Clock, Report
from jetbridge.pipeline.returning import CHANGED, Returned, check, evaluated
from jetbridge.pipeline.session import Outcome, Session
from jetbridge.pipeline.statements import Change, Changing, ObjectName
from jetbridge.pipeline.tokens import Words
from jetbridge.pipeline.transactions import Beginning
from jetbridge.sqltext import pipeline as queries


@dataclass(frozen=True)
class Wanted:
    """An UPDATE or DELETE in its parts; `before` is its WITH, `sources` FROM or USING."""

    target: ObjectName
    alias: str
    assigned: Sequence[tuple[str, str]]
    before: str
    sources: str
    condition: str
    returning: str


def read_change(statement: Change) -> Wanted:
    words = Words(statement.text)
    before = ""
    if words.peek() == "WITH":
        before = check_with_text(words.until("UPDATE", "DELETE", "TRUNCATE"))
    updates = words.take("UPDATE")
    if not updates and words.take("TRUNCATE"):
        words.take("TABLE")
    elif not updates:
        words.expect("DELETE")
        words.expect("FROM")
    target = words.name()
    alias = words.alias("SET", "USING", "WHERE", "RETURNING") or target.name
    assigned = _assignments(words) if updates else ()
    more = words.take("FROM" if updates else "USING")
    sources = check_sources_text(words.until("WHERE", "RETURNING")) if more else ""
    condition = words.expression("RETURNING") if words.take("WHERE") else ""
    returning = check_list_text(words.rest()) if words.take("RETURNING") else ""
    return Wanted(target, alias, assigned, before, sources, condition, returning)


def _assignments(words: Words) -> list[tuple[str, str]]:
    return assignments(words, "FROM", "WHERE", "RETURNING")


def assignments(words: Words, *end: str) -> list[tuple[str, str]]:
    """`SET a = 1, b = c + 1` up to one of these words."""
    words.expect("SET")
    found = []
    while True:
        if words.peek() == "(":
            raise NotSupported("SET (a, b) = ... is not supported: write SET a = ..., b = ...")
        column = words.identifier()
        words.expect("=")
        found.append((column, words.expression(",", *end)))
        if not words.take(","):
            return found


def change(session: Session, statement: Change) -> Outcome:
    wanted = read_change(statement)
    places, rules = session.places(), session.means.rules
    path = places.path(wanted.target)
    places.live(path[0])
    table = places.table(path)
    if session.transaction is not None:
        session.transaction.refuse_reading(path)
    if table.info().row_id is None:
        raise NotSupported(
            f"the rows of {'.'.join(path)!r} have no ids, so they cannot be changed; in SQL Server "
            "a table needs a primary key for that"
        )
    clock = session.clock()
    query = _query(wanted, table)
    answers = Returned(wanted.returning, wanted.alias, table.info().schema)
    with session.desk(query, path[0]) as desk:
        with clock.phase("plan"):
            found = plan(desk, places, query, rules=rules, target=table)
            check(desk, answers, rules)
        with clock.phase("load"), laid_out(desk, found.sources, query):
            source = found.query
            if answers.wanted:  # read twice: to change the rows, and to tell of them
                desk.keep(CHANGED, queries.once(source))
                source = queries.everything(CHANGED)
            begin = _beginning(statement.kind, path, table)
            with session.writing(path, statement.kind.value, begin, clock) as write:
                rows = _written(desk, write, _sent(source, wanted), clock)
                told = evaluated(desk, answers) if answers.wanted else None
    return told or Outcome(
        Report(
            statement.kind.value,
            ".".join(path),
            rows_produced=rows,
            rows_written=rows,
            seconds=clock.seconds,
            engine="duckdb",
            reason="rows are found by DuckDB and changed by their ids",
        )
    )


def _query(wanted: Wanted, table: Table) -> str:
    """The ids of the rows and their new values; with RETURNING, all columns as they will be."""
    new = Columns(wanted.target, table.info().schema).assigned(wanted.assigned)
    columns = []
    for field in table.info().schema:
        expression = new.get(field.name)
        if expression is None and not wanted.returning:
            continue
        old = queries.column(wanted.alias, field.name)
        columns.append((field.name, expression or old, duckdb_type(field)))
    text = queries.changed_rows(TARGET, wanted.alias, columns, wanted.sources, wanted.condition)
    return f"{wanted.before} {text}" if wanted.before else text


def _sent(source: str, wanted: Wanted) -> str:
    """What the table is sent: row ids, and the columns that change."""
    return queries.picked(source, [ROWID, *(name for name, _ in wanted.assigned)])


def _beginning(kind: Changing, path: Path, table: Table) -> Beginning:
    options = DMLOptions()
    if kind is Changing.UPDATE and supports(table, CanUpdate):
        return lambda: table.updating(options)
    if kind is Changing.DELETE and supports(table, CanDelete):
        return lambda: table.deleting(options)
    raise NotSupported(f"table {'.'.join(path)!r} takes no {kind.value}")


def _written(desk: Desk, write: Write, query: str, clock: Clock) -> int:
    rows = 0
    for batch in desk.stream(query):
        rows += write(batch).affected_rows
        clock.rows(rows)
    return rows
