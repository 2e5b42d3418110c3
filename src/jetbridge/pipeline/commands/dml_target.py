"""Finds the columns that INSERT, UPDATE and MERGE INTO name, their defaults, and RETURNING."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from jetbridge.catalog.identifiers import find_duplicate_name, fold
from jetbridge.catalog.values import default_of
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine import parse
from jetbridge.duckdb_engine.connection import PAST, StatementConnection
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA
from jetbridge.pipeline.parsing.statements import ObjectName
from jetbridge.pipeline.report import Report, StatementResult


@dataclass(frozen=True)
class TargetColumns:
    """Find the columns of a table by their names, in any case."""

    table: ObjectName
    schema: pa.Schema

    @cached_property
    def _by_name(self) -> dict[str, pa.Field]:
        return {fold(column.name): column for column in self.schema}

    def find(self, name: str) -> pa.Field:
        """Return a column; raise BadRequest if the table does not have it."""
        column = self._by_name.get(fold(name))
        if column is None:
            raise BadRequest(f"table {self.table} has no column {name!r}")
        return column

    def find_all(self, names: Sequence[str]) -> list[pa.Field]:
        """Return these columns; raise BadRequest for a column that is named twice."""
        columns = [self.find(name) for name in names]
        duplicate = find_duplicate_name([column.name for column in columns])
        if duplicate is not None:
            raise BadRequest(f"column {duplicate!r} of {self.table} is set twice")
        return columns

    def assign(self, assignments: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Return the expression for each assigned column, with defaults in place of DEFAULT."""
        columns = self.find_all([name for name, _ in assignments])
        return {
            column.name: resolve_default(column, expression)
            for column, (_, expression) in zip(columns, assignments, strict=True)
        }


def resolve_default(column: pa.Field, expression: str) -> str:
    """Return the expression to write to a column: its default if the statement says DEFAULT."""
    return default_expression(column) if expression.upper() == "DEFAULT" else expression


def default_expression(column: pa.Field) -> str:
    """Return the default of a column in DuckDB's own spelling; NULL if it has none."""
    text = default_of(column)
    return parse(text).sql if text else "NULL"


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
        raise BadRequest(
            "RETURNING cannot read tables: use only columns of the rows that were written"
        )
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
