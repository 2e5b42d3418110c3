"""RETURNING: expressions over the rows that a statement has written."""

from dataclasses import dataclass, field, replace

import pyarrow as pa

from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine.planner import PAST, StatementConnection
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA
from jetbridge.pipeline.parsing.tokens import TokenCursor
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.session import StatementResult

# Where rows are that a statement has changed.
CHANGED = (PAST, DEFAULT_SCHEMA, queries.CHANGED)


@dataclass
class ReturningClause:
    """`listed` is what stands after RETURNING; `alias` is what the rows are called there."""

    listed: str
    alias: str
    schema: pa.Schema
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        return bool(self.listed)

    def add(self, batch: pa.RecordBatch | None, rows: int) -> None:
        if not self.wanted:
            return
        if batch is not None:
            self._batches.append(batch.select(self.schema.names))
        elif rows:
            raise NotSupported("RETURNING of rows for a table that this transaction has made")

    def rows(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, None if self._batches else self.schema)

    def query(self) -> str:
        """A star means the columns of the table, not those that we have beside them."""
        names = ", ".join(queries.column(self.alias, name) for name in self.schema.names)
        stars = ("*", f"{self.alias}.*".upper())
        words, items = TokenCursor(self.listed), []
        while words:
            item = words.until(",")
            items.append(names if item.upper() in stars else item)
            words.take(",")
        return queries.select_returning(", ".join(items), CHANGED, self.alias)


def check(
    desk: StatementConnection, answers: ReturningClause, rules: AccessRules, *extra: pa.Field
) -> None:
    """Raises what is wrong with RETURNING before anything is written.

    It sees the rows that were changed, with these columns besides, and nothing else.
    """
    if not answers.wanted:
        return
    query = answers.query()
    names = rules.without_files().check(desk, query)
    if names.tables != {CHANGED} or names.table_functions:
        raise BadRequest("RETURNING may not read tables: it sees the rows that were written")
    desk.declare(CHANGED, pa.schema([*answers.schema, *extra]))
    desk.types(query)


def returned(desk: StatementConnection, answers: ReturningClause) -> StatementResult:
    """For rows that a table has answered with."""
    desk.register(queries.ANSWERS, answers.rows())
    desk.create_table_as(CHANGED, queries.select_all((queries.ANSWERS,)))
    return evaluated(desk, answers)


def reported(report: Report, rows: StatementResult | None) -> StatementResult:
    """Return the report of a statement, with its rows if it had RETURNING."""
    return StatementResult(report) if rows is None else replace(rows, report=report)


def evaluated(desk: StatementConnection, answers: ReturningClause) -> StatementResult:
    """For rows that are kept as `CHANGED`."""
    query = answers.query()
    batches = list(desk.stream(query))
    schema = batches[0].schema if batches else desk.schema(query)
    return StatementResult(schema=schema, batches=iter(batches))
