"""Makes row ids of the primary key: its number, or its values as a JSON list."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.types import ServerColumn, arrow_type
from jetbridge.dialects.tsql.statements import pack, unpack
from jetbridge.duckdb_engine import cast, duckdb_type
from jetbridge.duckdb_engine.sandbox import DATA, query
from jetbridge.errors import BadRequest

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "bit", "decimal", "numeric", "money", "smallmoney")
_TEXTS = ("char", "nchar", "varchar", "nvarchar", "binary", "varbinary")
_EXACT = (*_NUMBERS, *_TEXTS, "uniqueidentifier", "date", "smalldatetime")
_MOMENTS = ("time", "datetime2")
_VISIBLE_DIGITS = 6


@dataclass(frozen=True)
class RowIds:
    """Convert keys to row ids and back. `columns` are those of the primary key, in its order."""

    columns: tuple[ServerColumn, ...]

    @property
    def type(self) -> pa.DataType:
        return pa.int64() if self._is_number() else pa.string()

    def fields(self) -> list[pa.Field]:
        return [pa.field(column.name, arrow_type(column)) for column in self.columns]

    def _is_number(self) -> bool:
        return len(self.columns) == 1 and self.columns[0].type in _WHOLE

    def encode(self, keys: Sequence[pa.Array]) -> pa.Array:
        """Return the row ids of rows with these keys."""
        if self._is_number():
            return keys[0].cast(pa.int64())
        names = [f"k{index}" for index in range(len(keys))]
        texts = query(pack(DATA, names), pa.table(dict(zip(names, keys, strict=True))))
        return texts.column(0).combine_chunks().cast(pa.string())

    def decode(self, ids: pa.Array, table: str) -> list[pa.Array]:
        """Return the keys of row ids. Raises BadRequest for ids that the table cannot have."""
        if ids.null_count or ids.type not in (self.type, pa.large_string()):
            raise BadRequest(f"the row ids of {table!r} must be {self.type} without NULL")
        fields = self.fields()
        if self._is_number():
            return [cast(ids, fields[0])]
        types = [(f"k{index}", duckdb_type(field)) for index, field in enumerate(fields)]
        try:
            keys = query(unpack(DATA, "id", types), pa.table({"id": ids}))
        except Exception as error:
            raise BadRequest(f"the statement has invalid row ids for {table!r}") from error
        columns = [column.combine_chunks() for column in keys.columns]
        return [cast(column, field) for column, field in zip(columns, fields, strict=True)]


def row_ids(table: TableDescription) -> RowIds | None:
    """Return the row ids of a table.

    Return None if it has no primary key, or if clients see its values less exactly than stored.
    """
    key = table.primary_key()
    return RowIds(key) if key and all(map(_is_exact, key)) else None


def _is_exact(column: ServerColumn) -> bool:
    return column.type in _EXACT or (column.type in _MOMENTS and column.scale <= _VISIBLE_DIGITS)
