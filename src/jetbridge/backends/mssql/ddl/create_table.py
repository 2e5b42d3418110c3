"""CREATE TABLE for SQL Server, from the request of a client.

Columns of text keep the collation of the database, in which 'a' and 'A' may be one value: for `=`
in T-SQL and for UNIQUE. NULL is one value for UNIQUE as well.
"""

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.types import ServerColumn, column_types
from jetbridge.backends.tables.definition import Definition, define_table
from jetbridge.catalog import CreateTable, UniqueKey
from jetbridge.catalog.columns import default_of
from jetbridge.dialects.tsql import ddl, expressions
from jetbridge.dialects.tsql.types import MOST_DIGITS
from jetbridge.errors import BadRequest

# Of the columns of a clustered index together.
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


def create_table(
    schema: str,
    request: CreateTable,
    settings: MssqlSettings,
    *,
    name: str | None = None,
    by_query: bool = False,
    types: Mapping[str, str] | None = None,
) -> str:
    """The statement; under another name for a staging table.

    A key cannot hold nvarchar(max) or varbinary(max): as a key of its own a column of text becomes
    nvarchar(450), and less beside others, so that all columns of a key fit in 900 bytes.
    `by_query`: for CREATE TABLE AS, which may make a columnstore; `types` are T-SQL's, by column,
    where they are known already. Raises BadRequest for what is
    wrong and NotSupported for a CHECK or a default that cannot be written.
    """
    definition = define_table(request)
    types = types or declared_types(definition, settings)
    columnstore = by_query and settings.ctas_table_kind == "columnstore"
    parts = [column_of(field, types[field.name], filled=False) for field in definition.schema]
    parts += [
        ddl.key(key.columns, primary=key.primary, loose=columnstore) for key in definition.keys
    ]
    parts += [ddl.check(expressions.check(each, types)) for each in definition.checks]
    if columnstore:
        parts.append(ddl.COLUMNSTORE)
    return ddl.create_table(schema, request.name if name is None else name, parts)


def declared_types(definition: Definition, settings: MssqlSettings) -> dict[str, str]:
    """By the names of the columns; those of keys are short enough."""
    found = column_types(definition.schema, settings)
    return fitting(dict(zip(definition.schema.names, found, strict=True)), definition.keys)


def column_of(field: pa.Field, kind: str, *, filled: bool) -> str:
    default = written_default(field, kind)
    return ddl.column(field.name, kind, required=not field.nullable, default=default, filled=filled)


def written_default(field: pa.Field, kind: str) -> str:
    """The default of a column in T-SQL; empty for none and for NULL, which is the same.

    What gives the same value each time is calculated here, and the constant is what the server
    gets.
    """
    expression = default_of(field)
    if expression is None:
        return ""
    if _changes(expression):
        return expressions.default(expression, kind, field.name)
    try:
        value = duckdb_engine.default_values(expression, field, 1)[0].as_py()
        return "" if value is None else ddl.constant(value)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"the default {expression[:80]} of column {field.name!r} is beyond SQL Server"
        ) from None


def _changes(expression: str) -> bool:
    """Whether it is another value each time: then no CHECK may call it."""
    nothing = pa.schema([pa.field("nothing", pa.int8())])
    try:
        duckdb_engine.check_expression(f"({expression}) IS NULL", nothing)
    except BadRequest:
        return True
    return False


def fitting(types: Mapping[str, str], keys: Iterable[UniqueKey]) -> dict[str, str]:
    """The types with those of key columns shortened; raises BadRequest if that is not enough."""
    found = dict(types)
    for key in keys:
        long = [name for name in key.columns if _bytes(found[name]) > KEY_BYTES]
        rest = KEY_BYTES - sum(_bytes(found[name]) for name in key.columns if name not in long)
        # Two for a character of nvarchar.
        share = rest // len(long) if long else rest
        if share < (2 if long else 0):
            raise BadRequest(f"the key ({', '.join(key.columns)}) is wider than {KEY_BYTES} bytes")
        for name in long:
            found[name] = _shortened(found[name], share)
    return found


def _bytes(kind: str) -> int:
    sized = _SIZED.fullmatch(kind)
    if sized is None:
        wide = _WIDEST_NUMBER if kind.startswith(("decimal", "numeric")) else _OTHER
        return _FIXED.get(kind, wide)
    if sized[2] == "max":
        return KEY_BYTES + 1
    return int(sized[2]) * (2 if sized[1] == "nvarchar" else 1)


def _shortened(kind: str, share: int) -> str:
    base = kind.partition("(")[0]
    return f"{base}({share // 2 if base == 'nvarchar' else share})"


def collation_for(kind: str, column: ServerColumn) -> str:
    """What ALTER COLUMN has to name so that a text stays in its collation."""
    return column.collation if kind.partition("(")[0] in _COLLATED else ""
