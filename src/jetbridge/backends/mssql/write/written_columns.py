"""Decides which columns a statement writes, and which ones the server fills in."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from jetbridge.backends.mssql.metadata.catalog_views import TableDescription, is_filled_by_server
from jetbridge.backends.mssql.types import ServerColumn, takes_values
from jetbridge.errors import BadRequest


def writable_columns(table: TableDescription) -> list[ServerColumn]:
    """Return the columns that statements can write."""
    return [column for column in table.columns if takes_values(column)]


@dataclass
class WrittenColumns:
    """Count the values of a statement for columns that the server can fill in.

    Clients send all columns, with NULL for unknown values. If such a column is NULL in all rows of
    the statement, the server fills it in.
    """

    table: TableDescription
    _values: dict[str, int] = field(default_factory=dict)
    _nulls: dict[str, int] = field(default_factory=dict)

    def add(self, columns: Sequence[ServerColumn], arrays: Sequence[pa.Array]) -> None:
        for column, array in zip(columns, arrays, strict=True):
            if is_filled_by_server(column):
                name = column.name
                self._nulls[name] = self._nulls.get(name, 0) + array.null_count
                valid = len(array) - array.null_count
                self._values[name] = self._values.get(name, 0) + valid

    def columns(self) -> list[ServerColumn]:
        """Return the written columns. Raises BadRequest if some rows have no identity value."""
        columns = []
        for column in writable_columns(self.table):
            values = self._values.get(column.name)
            if values == 0:
                continue
            if column.identity and self._nulls.get(column.name):
                raise BadRequest(
                    f"{self.table.title()}.{column.name} is an identity column: give all rows of "
                    "the statement a value for it, or none"
                )
            columns.append(column)
        return columns

    def has_identity(self) -> bool:
        """Return whether the statement writes the identity column."""
        return any(column.identity for column in self.columns())
