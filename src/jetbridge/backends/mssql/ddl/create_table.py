"""Writes CREATE TABLE for SQL Server from the request of a client.

Text columns have the collation of the database, in which 'a' and 'A' may be equal: for `=` in T-SQL
and for UNIQUE. Two NULLs are equal for UNIQUE, too.
"""

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.types import ServerColumn, column_types
from jetbridge.backends.tables.definition import Definition, define_table
from jetbridge.catalog import CreateTable, UniqueKey
from jetbridge.catalog.values import default_of
from jetbridge.dialects.tsql import ddl, expressions
from jetbridge.dialects.tsql.types import MOST_DIGITS
from jetbridge.errors import BadRequest

# The limit for all columns of a clustered index together.
# https://learn.microsoft.com/sql/sql-server/maximum-capacity-specifications-for-sql-server
KEY_BYTES = 900
_SIZED = re.compile(r"(n?varchar|varbinary)\((max|\d+)\)")
_FIXED = {
    "bit": 1,
    "tinyint": 1,
    "smallint": 2,
    "int": 4,
    "date": 3,
    "real": 4,
    "time(7)": 5,
    "datetimeoffset(7)": 10,
    "uniqueidentifier": 16,
    f"decimal({MOST_DIGITS},0)": 17,
}
_WIDEST_NUMBER = 17
_OTHER = 8
_COLLATED = ("char", "varchar", "nchar", "nvarchar", "text", "ntext")


def check_table_name(name: str) -> None:
    """Raise BadRequest for a name that SQL Server would give to a temporary table."""
    if name.startswith("#"):
        raise BadRequest(
            f"table {name!r} cannot be created: tables whose names begin with '#' are temporary "
            "tables of SQL Server; use another name"
        )


def create_table(
    schema: str,
    request: CreateTable,
    settings: MssqlSettings,
    *,
    name: str | None = None,
    by_query: bool = False,
    types: Mapping[str, str] | None = None,
) -> str:
    """Return the statement, with another `name` for a staging table.

    Keys cannot have nvarchar(max) or varbinary(max). So a text column that is a key becomes
    nvarchar(450), or shorter if the key has more columns: all of them must fit in 900 bytes.
    `by_query` is for CREATE TABLE AS, which may create a columnstore. `types` are the T-SQL types
    by column, if they are known. Raises BadRequest for an invalid request, and NotSupported for a
    CHECK or a default that T-SQL cannot express.
    """
    check_table_name(request.name)
    definition = define_table(request)
    types = types or choose_types(definition, settings)
    columnstore = by_query and settings.ctas_table_kind == "columnstore"
    parts = [
        column_of(field, types[field.name], fill_existing=False) for field in definition.schema
    ]
    parts += [
        ddl.key(key.columns, primary=key.primary, nonclustered=columnstore)
        for key in definition.keys
    ]
    parts += [ddl.check(expressions.check(check, types)) for check in definition.checks]
    if columnstore:
        parts.append(ddl.COLUMNSTORE)
    return ddl.create_table(schema, request.name if name is None else name, parts)


def choose_types(definition: Definition, settings: MssqlSettings) -> dict[str, str]:
    """Return the T-SQL types by column; those of key columns are short enough."""
    types = column_types(definition.schema, settings)
    return shorten_keys(dict(zip(definition.schema.names, types, strict=True)), definition.keys)


def column_of(field: pa.Field, sql_type: str, *, fill_existing: bool) -> str:
    """Return the definition of a column; with `fill_existing`, existing rows get its default."""
    default = render_default(field, sql_type)
    required = not field.nullable
    return ddl.column(
        field.name, sql_type, required=required, default=default, fill_existing=fill_existing
    )


def render_default(field: pa.Field, sql_type: str) -> str:
    """Return the default of a column in T-SQL; empty without one, and for NULL.

    A default that always has the same value is evaluated here, and the server gets the constant.
    """
    expression = default_of(field)
    if expression is None:
        return ""
    if _changes(expression):
        return expressions.default(expression, sql_type, field.name)
    try:
        value = duckdb_engine.default_values(expression, field, 1)[0].as_py()
        return "" if value is None else ddl.constant(value)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"SQL Server cannot store the default {expression[:80]} of column {field.name!r}; use "
            "another value"
        ) from None


def _changes(expression: str) -> bool:
    """Return whether an expression has another value each time, which no CHECK may have."""
    nothing = pa.schema([pa.field("nothing", pa.int8())])
    try:
        duckdb_engine.check_expression(f"({expression}) IS NULL", nothing)
    except BadRequest:
        return True
    return False


def shorten_keys(types: Mapping[str, str], keys: Iterable[UniqueKey]) -> dict[str, str]:
    """Return the types, shortened for key columns. Raises BadRequest if that is not enough."""
    shortened = dict(types)
    for key in keys:
        long = [name for name in key.columns if _bytes(shortened[name]) > KEY_BYTES]
        rest = KEY_BYTES - sum(_bytes(shortened[name]) for name in key.columns if name not in long)
        # A character of nvarchar has two bytes.
        share = rest // len(long) if long else rest
        if share < (2 if long else 0):
            raise BadRequest(f"the key ({', '.join(key.columns)}) is wider than {KEY_BYTES} bytes")
        for name in long:
            shortened[name] = _shorten(shortened[name], share)
    return shortened


def _bytes(sql_type: str) -> int:
    sized = _SIZED.fullmatch(sql_type)
    if sized is None:
        wide = _WIDEST_NUMBER if sql_type.startswith(("decimal", "numeric")) else _OTHER
        return _FIXED.get(sql_type, wide)
    if sized[2] == "max":
        return KEY_BYTES + 1
    return int(sized[2]) * (2 if sized[1] == "nvarchar" else 1)


def _shorten(sql_type: str, share: int) -> str:
    base = sql_type.partition("(")[0]
    return f"{base}({share // 2 if base == 'nvarchar' else share})"


def collation_for(sql_type: str, column: ServerColumn) -> str:
    """Return the collation that ALTER COLUMN must name to keep that of a text column."""
    return column.collation if sql_type.partition("(")[0] in _COLLATED else ""
