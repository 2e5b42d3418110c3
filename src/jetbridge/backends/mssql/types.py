"""Which type of SQL Server a column of DuckDB gets, and which one of Arrow a column there has."""

import re
from collections.abc import Callable
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
_MOST_DIGITS = 38


def column_types(schema: pa.Schema, settings: MssqlSettings) -> list[str]:
    """One for each column; raises BadRequest that lists every column without one."""
    found = [_column_type(duckdb_type(field), settings) for field in schema]
    refused = [field for field, kind in zip(schema, found, strict=True) if kind is None]
    if refused:
        extended = replace(settings, ctas_extended_types=True)
        helps = all(_column_type(duckdb_type(field), extended) for field in refused)
        more = ", or SET mssql_ctas_extended_types = true" if helps else ""
        listed = ", ".join(f"{field.name!r} ({duckdb_type(field)})" for field in refused)
        raise BadRequest(
            f"SQL Server has no type for column {listed}: cast it to another type{more}"
        )
    return [kind for kind in found if kind is not None]


def _column_type(kind: str, settings: MssqlSettings) -> str | None:
    if kind == "TINYINT":
        return settings.ctas_tinyint.lower()
    if kind == "VARCHAR" or (kind == "JSON" and settings.ctas_extended_types):
        return f"{settings.ctas_text_type.lower()}({_length(settings)})"
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        digits, scale = (min(int(number), _MOST_DIGITS) for number in decimal.groups())
        return f"decimal({digits},{scale})"
    extended = _EXTENDED.get(kind) if settings.ctas_extended_types else None
    return _PLAIN.get(kind, extended)


def _length(settings: MssqlSettings) -> str:
    if settings.ctas_text_length == "max" and settings.default_string_length:
        return str(settings.default_string_length)
    # `auto` is decided when the rows are known; see `sized`.
    return "max" if settings.ctas_text_length == "auto" else settings.ctas_text_length


@dataclass(frozen=True)
class ServerColumn:
    """A column as `sys.columns` has it; lengths in bytes, -1 for max."""

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
    """Computed columns and rowversions do not."""
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
    """As clients see it; what Arrow has nothing for is read as text."""
    made = _ARROW.get(column.type)
    return pa.string() if made is None else made(column)


# What the driver loads in bulk; the rest goes through a type that SQL Server converts.
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
    "sql_variant": "nvarchar(4000)",  # which takes no `max`
}
_TEXTS = ("char", "varchar", "nchar", "nvarchar", "text", "ntext")


def is_read_as_text(column: ServerColumn) -> bool:
    """Those the driver gives as something else, or not at all."""
    return column.type not in _ARROW and column.type not in _TEXTS


def is_loaded(column: ServerColumn) -> bool:
    return column.type in _LOADED or column.type in _SCALED


def loaded_type(column: ServerColumn) -> str:
    """The T-SQL type of a column that holds its values on their way to it."""
    kind = column.type
    if kind in ("decimal", "numeric"):
        return f"decimal({column.precision},{column.scale})"
    if kind in _SCALED:
        return f"{kind}({column.scale})"
    if kind == "text":
        return "varchar(max)"
    if kind in ("nvarchar", "varchar", "varbinary", "char"):
        kind = "varchar" if kind == "char" else kind
        length = column.length // 2 if kind == "nvarchar" else column.length
        return f"{kind}({'max' if column.length < 0 else length})"
    return kind if kind in _LOADED else _INSTEAD.get(kind, "nvarchar(max)")


def wire_type(kind: str) -> pa.DataType:
    """What the driver is given for a column of such a T-SQL type."""
    name, _, arguments = kind.partition("(")
    digits = [int(each) for each in arguments.rstrip(")").split(",") if each.isdecimal()]
    precision, scale = (*digits, 0, 0)[:2]
    return arrow_type(ServerColumn("", name, 0, precision, scale, nullable=True))
