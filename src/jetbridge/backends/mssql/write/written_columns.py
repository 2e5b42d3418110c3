"""Which columns of a table a statement gives values to, and which the server fills in."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.metadata.visible_constraints import filled_by_server
from jetbridge.backends.mssql.types import ServerColumn, takes_values
from jetbridge.errors import BadRequest


def writable(table: TableDescription) -> list[ServerColumn]:
    """Those that take values at all."""
    return [each for each in table.columns if takes_values(each)]


@dataclass
class WrittenColumns:
    """Rows that were seen so far.

    Clients send all columns, with NULL for what they know nothing of. A column that the server can
    fill in, and that has nothing but NULL in the whole statement, is left to it.
    """

    table: TableDescription
    _values: dict[str, int] = field(default_factory=dict)
    _nulls: dict[str, int] = field(default_factory=dict)

    def look(self, columns: Sequence[ServerColumn], arrays: Sequence[pa.Array]) -> None:
        for column, array in zip(columns, arrays, strict=True):
            if filled_by_server(column):
                name = column.name
                self._nulls[name] = self._nulls.get(name, 0) + array.null_count
                valid = len(array) - array.null_count
                self._values[name] = self._values.get(name, 0) + valid

    def columns(self) -> list[ServerColumn]:
        """Raises BadRequest where some rows have an identity value and others have none."""
        found = []
        for column in writable(self.table):
            values = self._values.get(column.name)
            if values == 0:
                continue
            if column.identity and self._nulls.get(column.name):
                raise BadRequest(
                    f"{self.table.title()}.{column.name} is an identity column: give all rows of "
                    "a statement a value for it, or none"
                )
            found.append(column)
        return found

    def identity(self) -> bool:
        """Whether values for the identity column come along."""
        return any(column.identity for column in self.columns())
