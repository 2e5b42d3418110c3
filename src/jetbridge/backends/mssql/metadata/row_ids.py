"""Row ids made of the primary key: the number itself, or the values of the key as a JSON text."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.types import ServerColumn, arrow_type
from jetbridge.dialects.tsql.values import packed, unpacked
from jetbridge.duckdb_engine import cast, duckdb_type
from jetbridge.duckdb_engine.sandbox import DATA, query
from jetbridge.errors import BadRequest

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "bit", "decimal", "numeric", "money", "smallmoney")
_TEXTS = ("char", "nchar", "varchar", "nvarchar", "binary", "varbinary")
_EXACT = (*_NUMBERS, *_TEXTS, "uniqueidentifier", "date", "smalldatetime")
_MOMENTS = ("time", "datetime2")
_SEEN_DIGITS = 6


@dataclass(frozen=True)
class RowIds:
    """`columns` are those of the key, in its order."""

    columns: tuple[ServerColumn, ...]

    @property
    def type(self) -> pa.DataType:
        return pa.int64() if self._is_number() else pa.string()

    def fields(self) -> list[pa.Field]:
        return [pa.field(each.name, arrow_type(each)) for each in self.columns]

    def _is_number(self) -> bool:
        return len(self.columns) == 1 and self.columns[0].type in _WHOLE

    def of(self, keys: Sequence[pa.Array]) -> pa.Array:
        """The row ids of rows with these keys."""
        if self._is_number():
            return keys[0].cast(pa.int64())
        names = [f"k{index}" for index in range(len(keys))]
        found = query(packed(DATA, names), pa.table(dict(zip(names, keys, strict=True))))
        return found.column(0).combine_chunks().cast(pa.string())

    def keys(self, ids: pa.Array, table: str) -> list[pa.Array]:
        """Back again; raises BadRequest for what no row of the table can have."""
        if ids.null_count or ids.type not in (self.type, pa.large_string()):
            raise BadRequest(f"the row ids of {table!r} must be {self.type} without NULL")
        fields = self.fields()
        if self._is_number():
            return [cast(ids, fields[0])]
        wanted = [(f"k{index}", duckdb_type(field)) for index, field in enumerate(fields)]
        try:
            found = query(unpacked(DATA, "id", wanted), pa.table({"id": ids}))
        except Exception as error:
            raise BadRequest(f"{table!r} has no row ids like these") from error
        columns = [column.combine_chunks() for column in found.columns]
        return [cast(column, field) for column, field in zip(columns, fields, strict=True)]


def row_ids(table: TableDescription) -> RowIds | None:
    """None where there is no key, or one with values that are seen less exactly than they are."""
    key = table.primary_key()
    return RowIds(key) if key and all(map(_is_exact, key)) else None


def _is_exact(column: ServerColumn) -> bool:
    return column.type in _EXACT or (column.type in _MOMENTS and column.scale <= _SEEN_DIGITS)
