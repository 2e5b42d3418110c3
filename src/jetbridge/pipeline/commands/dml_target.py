"""The columns of a table as a statement names them, and their defaults."""

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
    """Found by name, whatever its case."""

    table: ObjectName
    schema: pa.Schema

    @cached_property
    def _known(self) -> dict[str, pa.Field]:
        return {fold(each.name): each for each in self.schema}

    def find(self, name: str) -> pa.Field:
        found = self._known.get(fold(name))
        if found is None:
            raise BadRequest(f"table {self.table} has no column {name!r}")
        return found

    def find_all(self, names: Sequence[str]) -> list[pa.Field]:
        """Raises BadRequest for one that is named twice."""
        found = [self.find(name) for name in names]
        twice = find_duplicate_name([each.name for each in found])
        if twice is not None:
            raise BadRequest(f"column {twice!r} of {self.table} is set twice")
        return found

    def assigned(self, given: Sequence[tuple[str, str]]) -> dict[str, str]:
        """What each column becomes: the expression of its default for DEFAULT."""
        columns = self.find_all([name for name, _ in given])
        return {
            column.name: value(column, expression)
            for column, (_, expression) in zip(columns, given, strict=True)
        }


def value(column: pa.Field, expression: str) -> str:
    """What is written for a column, or the expression of its default for DEFAULT."""
    if expression.upper() != "DEFAULT":
        return expression
    return default(column)


def default(column: pa.Field) -> str:
    """The expression of its default, in DuckDB's own spelling."""
    text = default_of(column)
    return parse(text).sql if text else "NULL"
