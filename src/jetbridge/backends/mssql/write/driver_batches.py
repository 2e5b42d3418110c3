"""Decides which columns a statement writes, and converts its rows to the types of the driver.

All values are checked before any is sent.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.mssql.metadata.catalog_views import TableDescription, is_filled_by_server
from jetbridge.backends.mssql.types import ServerColumn, driver_type, takes_values, type_for_load
from jetbridge.dialects.tsql.types import MOST_DIGITS
from jetbridge.duckdb_engine import cast, format_value
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


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_MICROS = 86_400_000_000
_MAX_TINYINT = 255
_SURROGATE_PAIRS = "[\U00010000-\U0010ffff]"
# Lengths of text columns that `auto` chooses from.
_LENGTHS = (10, 20, 50, 100, 200, 500, 1000, 2000, 4000)
_MAX_VARCHAR_BYTES = 8000
_EXACT = Context(prec=MOST_DIGITS)


@dataclass(frozen=True)
class BulkColumn:
    """Describe a column of a load by the name and the T-SQL type of the column in the table."""

    name: str
    sql_type: str

    @property
    def family(self) -> str:
        return self.sql_type.partition("(")[0]

    def field(self) -> pa.Field:
        return pa.field(self.name, driver_type(self.sql_type))

    def array(self, values: pa.Array, first_row: int) -> pa.Array:
        """Convert values for the driver. Raises BadRequest with column and row."""
        check = _CHECKS.get(self.family)
        invalid = _too_long(self.sql_type, values) if check is None else check(values)
        if invalid is not None:
            row, reason = invalid
            raise BadRequest(
                f"column {self.name!r}, row {first_row + row}: {_format(values[row])} {reason}"
            )
        return cast(values, self.field(), first_row)


def _format(value: pa.Scalar) -> str:
    """Return a value for an error message; Python would show 24:00:00 as 00:00:00."""
    if not pa.types.is_time64(value.type) or value.type.unit != "us":
        return format_value(value)
    seconds = value.cast(pa.int64()).as_py() // 1_000_000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def bulk_columns(columns: Sequence[ServerColumn]) -> list[BulkColumn]:
    """Return the columns of a load into these columns."""
    return [BulkColumn(column.name, staging_type(column)) for column in columns]


def staging_type(column: ServerColumn) -> str:
    """Return the type of a staging column. Its collation keeps the characters of the code page."""
    type_ = type_for_load(column)
    is_text = type_.startswith(("varchar", "nvarchar")) and column.collation.isidentifier()
    return f"{type_} COLLATE {column.collation}" if is_text else type_


def convert_batch(
    columns: Sequence[BulkColumn], values: Sequence[pa.Array], first_row: int
) -> pa.RecordBatch:
    """Convert the arrays of a batch; `first_row` counts rows in error messages."""
    arrays = [column.array(array, first_row) for column, array in zip(columns, values, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=driver_schema(columns))


def convert_batches(
    columns: Sequence[BulkColumn], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Convert batches with these columns in other types."""
    first_row = 0
    for batch in batches:
        yield convert_batch(columns, batch.columns, first_row)
        first_row += batch.num_rows


def driver_schema(columns: Sequence[BulkColumn]) -> pa.Schema:
    """Return the schema of batches that the driver loads."""
    return pa.schema([column.field() for column in columns])


# The first row with an invalid value, and the reason.
Invalid = tuple[int, str] | None


def _first(mask: pa.Array, reason: str) -> Invalid:
    row = pc.index(mask, value=True).as_py()
    return None if row < 0 else (row, reason)


def _tinyint(values: pa.Array) -> Invalid:
    if not pa.types.is_integer(values.type) or values.type == pa.uint8():
        return None
    outside = pc.less(values, 0)
    if values.type != pa.int8():
        outside = pc.or_(outside, pc.greater(values, _MAX_TINYINT))
    return _first(
        outside, "does not fit tinyint of SQL Server (0 to 255); SET mssql_ctas_tinyint = SMALLINT"
    )


def _finite(values: pa.Array) -> Invalid:
    if not pa.types.is_floating(values.type):
        return None
    return _first(pc.invert(pc.is_finite(values)), "is not supported by SQL Server; use NULL")


def _date(values: pa.Array) -> Invalid:
    if not pa.types.is_date32(values.type):
        return None
    return _outside(values.cast(pa.int32()), _FIRST_DAY, _LAST_DAY + 1)


def _timestamp(values: pa.Array) -> Invalid:
    if not pa.types.is_timestamp(values.type) or values.type.unit != "us":
        return None
    low, high = _FIRST_DAY * _MICROS, (_LAST_DAY + 1) * _MICROS
    return _outside(values.cast(pa.int64()), low, high)


def _time(values: pa.Array) -> Invalid:
    if not pa.types.is_time64(values.type) or values.type.unit != "us":
        return None
    numbers = values.cast(pa.int64())
    outside = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, _MICROS))
    return _first(
        outside, "is not a time of SQL Server (00:00:00 to 23:59:59.999999); use 00:00:00"
    )


def _outside(numbers: pa.Array, low: int, end: int) -> Invalid:
    outside = pc.or_(pc.less(numbers, low), pc.greater_equal(numbers, end))
    return _first(outside, "is not in the years 1 to 9999 of SQL Server")


def _too_long(sql_type: str, values: pa.Array) -> Invalid:
    """Check lengths against the type. The server checks varchar characters of several bytes."""
    sized = _SIZED.match(sql_type)
    if sized is None or not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return None
    max_length = int(sized[2])
    lengths = _LENGTHS_OF[sized[1]](values)
    return _first(pc.greater(lengths, max_length), f"is longer than {sized[0]} of SQL Server")


def _units(values: pa.Array) -> pa.Array:
    lengths = pc.utf8_length(values)
    if pc.sum(pc.binary_length(values)) == pc.sum(lengths):  # all ASCII
        return lengths
    return pc.add(lengths, pc.count_substring_regex(values, _SURROGATE_PAIRS))


_SIZED = re.compile(r"(nvarchar|varchar|varbinary)\((\d+)\)")
_LENGTHS_OF: dict[str, Callable[[pa.Array], pa.Array]] = {
    "nvarchar": _units,
    "varchar": pc.utf8_length,
    "varbinary": pc.binary_length,
}


def _digits(values: pa.Array) -> Invalid:
    """Check for 39 digits, which a HUGEINT may have and Arrow allows."""
    data_type = values.type
    if not pa.types.is_decimal128(data_type) or data_type.precision < MOST_DIGITS:
        return None
    largest = Decimal(10**MOST_DIGITS - 1).scaleb(-data_type.scale, _EXACT)
    too_large = pc.greater(pc.abs(values), pa.scalar(largest, data_type))
    return _first(too_large, f"has more than {MOST_DIGITS} digits")


_CHECKS: dict[str, Callable[[pa.Array], Invalid]] = {
    "tinyint": _tinyint,
    "decimal": _digits,
    "real": _finite,
    "float": _finite,
    "date": _date,
    "time": _time,
    "datetime2": _timestamp,
    "datetimeoffset": _timestamp,
}


def max_utf16_units(column: pa.Array) -> int:
    """Return an upper bound of the UTF-16 units of a text, which nvarchar counts."""
    longest: int = pc.max(pc.utf8_length(column)).as_py() or 0
    if longest and pc.any(pc.match_substring_regex(column, _SURROGATE_PAIRS)).as_py():
        return 2 * longest
    return longest


def max_bytes(column: pa.Array) -> int:
    """Return the bytes of the longest text, an upper bound of what varchar needs."""
    longest: int = pc.max(pc.binary_length(column)).as_py() or 0
    return longest


def with_length(column: BulkColumn, longest: int) -> BulkColumn:
    """Return the column with the next larger length, or with `max`."""
    is_wide = column.family == "nvarchar"
    lengths = _LENGTHS if is_wide else (*_LENGTHS, _MAX_VARCHAR_BYTES)
    length = next((str(number) for number in lengths if number >= longest), "max")
    return replace(column, sql_type=f"{column.family}({length})")


def rows_to_arrays(rows: Sequence[tuple[Any, ...]], fields: Sequence[pa.Field]) -> list[pa.Array]:
    """Convert rows of the core to columns of these fields."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    return [cast(_array(values, f), f) for values, f in zip(columns, fields, strict=True)]


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if isinstance(field.type, pa.BaseExtensionType):
        return pa.array(values, pa.string())
    return pa.array(values, field.type)
