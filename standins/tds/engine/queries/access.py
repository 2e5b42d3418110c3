"""What a statement reads: for each table its hints, and which rows it looks for."""

from dataclasses import dataclass, field
from typing import Any

from standins.tds.engine.storage.catalog import Table

MARKER = "\x03{}\x03"


@dataclass
class Access:
    """One table of FROM. Its visible rows are what `marker` stands for in the compiled text.

    `conditions` are those on single columns that an index may be looked up with; with none on the
    first column of an index the whole table is read, and every uncommitted row is waited for.
    """

    number: int
    alias: str
    table: Table
    hints: frozenset[str] = frozenset()
    conditions: list[tuple[str, str]] = field(default_factory=list)
    target: bool = False  # of UPDATE, DELETE, MERGE

    @property
    def marker(self) -> str:
        return MARKER.format(self.number)

    def seek(self) -> str:
        """SQL over the alias; empty where the table is scanned."""
        asked = {stored for stored, _ in self.conditions}
        for key in self.table.keys:
            if key.columns and self.table.by_id(key.columns[0]).stored in asked:
                columns = {self.table.by_id(each).stored for each in key.columns}
                return " AND ".join(sql for stored, sql in self.conditions if stored in columns)
        return ""


@dataclass
class CatalogAccess:
    """A catalog view; `wanted` are the constants its columns are compared with."""

    alias: str
    view: str
    dirty: bool = False
    wanted: dict[str, Any] = field(default_factory=dict)

    def concerns(self, table: Table) -> bool:
        """Whether a definition that is not committed may be among the rows."""
        names = {str(each).lower() for key, each in self.wanted.items() if "name" in key}
        if names and table.name.lower() not in names:
            return names <= {table.schema.lower()}
        number = self.wanted.get("object_id")
        return number is None or number == table.object_id
