"""Maps column types: from DuckDB to SQL Server, and from SQL Server to Arrow and the driver."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.errors import BadRequest

_PLAIN = {
    "BOOLEAN": "bit",
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "float",
    "UUID": "uniqueidentifier",
    "BLOB": "varbinary(max)",
    "DATE": "date",
    "TIME": "time(7)",
    "TIMESTAMP": "datetime2(7)",
    "TIMESTAMP WITH TIME ZONE": "datetimeoffset(7)",
}
_EXTENDED = {
    "UTINYINT": "tinyint",
    "USMALLINT": "int",
    "UINTEGER": "bigint",
    "UBIGINT": "decimal(20,0)",
    "HUGEINT": "decimal(38,0)",
    "TIMESTAMP_S": "datetime2(0)",
    "TIMESTAMP_MS": "datetime2(3)",
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_MAX_DIGITS = 38


def column_types(schema: pa.Schema, settings: MssqlSettings) -> list[str]:
    """Return the T-SQL type of each column. Raises BadRequest with all columns that have none."""
    types = [_column_type(duckdb_type(field), settings) for field in schema]
    refused = [field for field, type_ in zip(schema, types, strict=True) if type_ is None]
    if refused:
        extended = replace(settings, ctas_extended_types=True)
        setting_helps = all(_column_type(duckdb_type(field), extended) for field in refused)
        hint = ", or SET mssql_ctas_extended_types = true" if setting_helps else ""
        listed = ", ".join(f"{field.name!r} ({duckdb_type(field)})" for field in refused)
        raise BadRequest(
            f"SQL Server has no type for column {listed}; cast it to another type{hint}"
        )
    return [type_ for type_ in types if type_ is not None]


def _column_type(data_type: str, settings: MssqlSettings) -> str | None:
    if data_type == "TINYINT":
        return settings.ctas_tinyint.lower()
    if data_type == "VARCHAR" or (data_type == "JSON" and settings.ctas_extended_types):
        return f"{settings.ctas_text_type.lower()}({_length(settings)})"
    decimal = _DECIMAL.fullmatch(data_type)
    if decimal:
        digits, scale = (min(int(number), _MAX_DIGITS) for number in decimal.groups())
        return f"decimal({digits},{scale})"
    extended = _EXTENDED.get(data_type) if settings.ctas_extended_types else None
    return _PLAIN.get(data_type, extended)


def _length(settings: MssqlSettings) -> str:
    if settings.ctas_text_length == "max" and settings.default_string_length:
        return str(settings.default_string_length)
    # `create_table_as` replaces the length of `auto` when the rows are known.
    return "max" if settings.ctas_text_length == "auto" else settings.ctas_text_length


@dataclass(frozen=True)
class ServerColumn:
    """Describe a column as `sys.columns` does; `length` is in bytes, -1 for max."""

    name: str
    type: str
    length: int
    precision: int
    scale: int
    nullable: bool
    identity: bool = False
    computed: bool = False
    default: str = ""
    collation: str = ""


_ROWVERSION = "timestamp"


def takes_values(column: ServerColumn) -> bool:
    """Return whether statements can write the column: it is neither computed nor a rowversion."""
    return not column.computed and column.type != _ROWVERSION


_UTC = pa.timestamp("us", tz="UTC")
_ARROW: dict[str, Callable[[ServerColumn], pa.DataType]] = {
    "bit": lambda _: pa.bool_(),
    "tinyint": lambda _: pa.uint8(),
    "smallint": lambda _: pa.int16(),
    "int": lambda _: pa.int32(),
    "bigint": lambda _: pa.int64(),
    "real": lambda _: pa.float32(),
    "float": lambda _: pa.float64(),
    "decimal": lambda c: pa.decimal128(c.precision, c.scale),
    "numeric": lambda c: pa.decimal128(c.precision, c.scale),
    "money": lambda _: pa.decimal128(19, 4),
    "smallmoney": lambda _: pa.decimal128(10, 4),
    "binary": lambda _: pa.binary(),
    "varbinary": lambda _: pa.binary(),
    "image": lambda _: pa.binary(),
    "timestamp": lambda _: pa.binary(),
    "uniqueidentifier": lambda _: pa.uuid(),
    "date": lambda _: pa.date32(),
    "time": lambda _: pa.time64("us"),
    "datetime": lambda _: pa.timestamp("us"),
    "datetime2": lambda _: pa.timestamp("us"),
    "smalldatetime": lambda _: pa.timestamp("us"),
    "datetimeoffset": lambda _: _UTC,
}


def arrow_type(column: ServerColumn) -> pa.DataType:
    """Return the Arrow type that clients see: text if Arrow has no such type."""
    type_of = _ARROW.get(column.type)
    return pa.string() if type_of is None else type_of(column)


# Types that the driver loads in bulk. Values of other types are loaded as a type that SQL Server
# converts.
_NUMBERS = ("bit", "tinyint", "smallint", "int", "bigint", "real", "float", "decimal", "numeric")
_LOADED = (*_NUMBERS, "nvarchar", "varchar", "varbinary", "uniqueidentifier", "date")
_SCALED = ("time", "datetime2", "datetimeoffset")
_INSTEAD = {
    "money": "decimal(19,4)",
    "smallmoney": "decimal(10,4)",
    "datetime": "datetime2(6)",
    "smalldatetime": "datetime2(6)",
    "binary": "varbinary(8000)",
    "image": "varbinary(max)",
    "timestamp": "varbinary(8)",
    "sql_variant": "nvarchar(4000)",  # it cannot hold `max`
}
_TEXTS = ("char", "varchar", "nchar", "nvarchar", "text", "ntext")


def is_read_as_text(column: ServerColumn) -> bool:
    """Return whether queries convert the column to text: the driver cannot read its type."""
    return column.type not in _ARROW and column.type not in _TEXTS


def is_answered_as_text(column: ServerColumn) -> bool:
    """Return whether the core returns the column as an object that Arrow cannot read."""
    return column.type == "uniqueidentifier" or is_read_as_text(column)


def is_loadable(column: ServerColumn) -> bool:
    """Return whether bulk loads write the column directly."""
    return column.type in _LOADED or column.type in _SCALED


def type_for_load(column: ServerColumn) -> str:
    """Return the T-SQL type of the staging column for a column."""
    name = column.type
    if name in ("decimal", "numeric"):
        return f"decimal({column.precision},{column.scale})"
    if name in _SCALED:
        return f"{name}({column.scale})"
    if name == "text":
        return "varchar(max)"
    if name in ("nvarchar", "varchar", "varbinary", "char"):
        name = "varchar" if name == "char" else name
        length = column.length // 2 if name == "nvarchar" else column.length
        return f"{name}({'max' if column.length < 0 else length})"
    return name if name in _LOADED else _INSTEAD.get(name, "nvarchar(max)")


def driver_type(declared_type: str) -> pa.DataType:
    """Return the Arrow type that the driver expects for a T-SQL type."""
    name, _, arguments = declared_type.partition("(")
    digits = [int(text) for text in arguments.rstrip(")").split(",") if text.isdecimal()]
    precision, scale = (*digits, 0, 0)[:2]
    return arrow_type(ServerColumn("", name, 0, precision, scale, nullable=True))


_WITH_SCALE = ("datetime2", "datetimeoffset", "time")
_WITH_LENGTH = ("varchar", "char", "varbinary", "binary", "nvarchar", "nchar")
_WIDE = ("nvarchar", "nchar")


def declared_type(column: ServerColumn) -> str:
    """Return the type of an existing column as CREATE TABLE declares it."""
    if column.type in ("decimal", "numeric"):
        return f"{column.type}({column.precision},{column.scale})"
    if column.type in _WITH_SCALE:
        return f"{column.type}({column.scale})"
    if column.type not in _WITH_LENGTH:
        return column.type
    length = column.length // 2 if column.type in _WIDE else column.length
    return f"{column.type}({'max' if column.length < 0 else length})"


def declared_types(columns: Sequence[ServerColumn]) -> dict[str, str]:
    """Return the declared types by column."""
    return {column.name: declared_type(column) for column in columns}
