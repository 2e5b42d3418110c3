"""The columns of a table as a statement names them, and their defaults."""

from dataclasses import dataclass, field

import pyarrow as pa

from jetbridge.catalog.fields import default_of
from jetbridge.errors import BadRequest
from jetbridge.names import fold
from jetbridge.pipeline.statements import ObjectName


@dataclass(frozen=True)
class Columns:
    """Found by name, whatever its case."""

    table: ObjectName
    schema: pa.Schema
    _known: dict[str, pa.Field] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", {fold(each.name): each for each in self.schema})

    def find(self, name: str) -> pa.Field:
        found = self._known.get(fold(name))
        if found is None:
            raise BadRequest(f"table {self.table} has no column {name!r}")
        return found

    def assigned(self, name: str, expression: str) -> tuple[str, str]:
        """The column, and what it becomes: the expression of its default for DEFAULT."""
        found = self.find(name)
        is_default = expression.upper() == "DEFAULT"
        return found.name, (default_of(found) or "NULL") if is_default else expression
