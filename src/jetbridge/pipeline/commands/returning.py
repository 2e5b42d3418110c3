"""RETURNING: expressions over the rows that a statement has written."""

from dataclasses import dataclass, field, replace

import pyarrow as pa

from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine.connection import PAST, StatementConnection
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA
from jetbridge.pipeline.report import Report, StatementResult

# Where RETURNING finds the rows that a statement has changed.
CHANGED = (PAST, DEFAULT_SCHEMA, queries.CHANGED)


@dataclass
class ReturningClause:
    """Hold the RETURNING of one statement, and the rows that it sees.

    `items` are the expressions after RETURNING, none if there is no such clause. `alias` is the
    name of the rows in them, and `schema` their columns.
    """

    items: tuple[str, ...]
    alias: str
    schema: pa.Schema
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Return whether the statement has a RETURNING clause."""
        return bool(self.items)

    def add(self, batch: pa.RecordBatch | None, rows: int) -> None:
        """Keep the rows with which the table answered a write of so many rows."""
        if not self:
            return
        if batch is not None:
            self._batches.append(batch.select(self.schema.names))
        elif rows:
            raise NotSupported(
                "RETURNING is not supported for a table that this transaction created; COMMIT first"
            )

    def rows(self) -> pa.Table:
        """Return all rows that were kept."""
        return pa.Table.from_batches(self._batches, None if self._batches else self.schema)

    def query(self) -> str:
        """Return the query over `CHANGED`. A star stands for the columns of the table only."""
        columns = ", ".join(queries.column(self.alias, name) for name in self.schema.names)
        stars = ("*", f"{self.alias}.*".upper())
        items = [columns if item.upper() in stars else item for item in self.items]
        return queries.select_returning(", ".join(items), CHANGED, self.alias)


def check_returning(
    connection: StatementConnection,
    returning: ReturningClause,
    access: AccessRules,
    *extra: pa.Field,
) -> None:
    """Raise what is wrong with RETURNING before anything is written.

    RETURNING sees the changed rows, with the `extra` columns, and nothing else.
    """
    if not returning:
        return
    query = returning.query()
    references = access.without_files().check(connection, query)
    if references.tables != {CHANGED} or references.table_functions:
        raise BadRequest("RETURNING may not read tables: it sees the rows that were written")
    connection.declare(CHANGED, pa.schema([*returning.schema, *extra]))
    connection.types(query)


def evaluate_answers(
    connection: StatementConnection, returning: ReturningClause
) -> StatementResult | None:
    """Evaluate RETURNING over the rows with which the table answered; None without RETURNING."""
    if not returning:
        return None
    connection.register(queries.ANSWERS, returning.rows())
    connection.create_table_as(CHANGED, queries.select_all((queries.ANSWERS,)))
    return evaluate_returning(connection, returning)


def evaluate_returning(
    connection: StatementConnection, returning: ReturningClause
) -> StatementResult | None:
    """Evaluate RETURNING over the rows at `CHANGED`; None without RETURNING."""
    if not returning:
        return None
    query = returning.query()
    batches = list(connection.stream(query))
    schema = batches[0].schema if batches else connection.schema(query)
    return StatementResult(schema=schema, batches=iter(batches))


def with_report(report: Report, rows: StatementResult | None) -> StatementResult:
    """Return the result of a statement: its report, and its rows if it had RETURNING."""
    return StatementResult(report) if rows is None else replace(rows, report=report)
