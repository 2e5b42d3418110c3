"""What clients are told of checks and defaults: only what they may evaluate themselves."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.mssql.ddl.create_table import declared, declared_columns
from jetbridge.backends.mssql.types import ServerColumn, arrow_type, takes_values
from jetbridge.dialects.tsql import constraint_reader
from jetbridge.errors import BadRequest

if TYPE_CHECKING:
    from jetbridge.backends.mssql.metadata.catalog_views import TableDescription


def for_clients(described: "TableDescription") -> tuple[tuple[str, ...], dict[str, str]]:
    """The checks, and the defaults by the names of their columns, in DuckDB's spelling.

    The client judges rows by these checks and fills in these defaults before it sends anything, so
    one that DuckDB reads otherwise than SQL Server, or not at all, is left out: the server still
    enforces the check, and still has the default for whoever does not name the column.
    """
    types = declared_columns(described.columns)
    schema = pa.schema([pa.field(each.name, arrow_type(each)) for each in described.columns])
    checks = (_check(each, types, schema) for each in described.checks)
    defaults = {each.name: shown_default(each) for each in described.columns}
    return (
        tuple(each for each in checks if each),
        {name: text for name, text in defaults.items() if text},
    )


def filled_by_server(column: ServerColumn) -> bool:
    """Whether a NULL of the client, which it sends for what it does not know, is to be left out."""
    by_itself = column.identity or not takes_values(column)
    return by_itself or bool(column.default and not shown_default(column))


def nullable_for_clients(column: ServerColumn) -> bool:
    """The client checks NOT NULL itself, and knows nothing of what the server fills in."""
    return column.nullable or filled_by_server(column)


def shown_default(column: ServerColumn) -> str:
    """Empty where there is none to show."""
    if not column.default or column.identity or column.computed:
        return ""
    found = constraint_reader.default(column.default, declared(column))
    return "" if found is None else _accepted_default(found, arrow_type(column))


@lru_cache(maxsize=4096)
def _accepted_default(text: str, kind: pa.DataType) -> str:
    try:
        return duckdb_engine.default_expression(text, pa.field("value", kind)).sql
    except BadRequest:
        return ""


def _check(definition: str, types: Mapping[str, str], schema: pa.Schema) -> str:
    found = constraint_reader.check(definition, types)
    return "" if found is None else _accepted_check(found, schema)


@lru_cache(maxsize=4096)
def _accepted_check(text: str, schema: pa.Schema) -> str:
    try:
        return duckdb_engine.check_expression(text, schema).sql
    except BadRequest:
        return ""
