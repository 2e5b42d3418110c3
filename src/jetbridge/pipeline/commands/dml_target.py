"""Finds the columns that INSERT, UPDATE and MERGE INTO name, and their defaults."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from jetbridge.catalog.columns import default_of
from jetbridge.catalog.identifiers import find_duplicate_name, fold
from jetbridge.duckdb_engine import parse
from jetbridge.errors import BadRequest
from jetbridge.pipeline.parsing.statements import ObjectName


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
