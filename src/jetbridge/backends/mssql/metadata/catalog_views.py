"""Reads the definitions of tables and views, and decides which constraints clients see.

Comments and tags of schemas are extended properties.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.mssql.connection.odbc import OdbcConnection
from jetbridge.backends.mssql.types import (
    ServerColumn,
    arrow_type,
    declared_type,
    declared_types,
    takes_values,
)
from jetbridge.catalog import SchemaInfo, TableInfo, UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql import constraint_reader, statements
from jetbridge.dialects.tsql.ddl import remove_casts
from jetbridge.errors import BadRequest

# A property has 7,500 bytes, and a character of nvarchar has two.
LONGEST_VALUE = 3750
_LONGEST_TAG = statements.LONGEST_NAME - len(statements.TAG_PREFIX)


def properties_of(info: SchemaInfo) -> list[tuple[str, str]]:
    """Return the names and values of properties for a comment and tags.

    Raises BadRequest for values that are too long for an extended property.
    """
    return list(_properties(info))


def _properties(info: SchemaInfo) -> Iterator[tuple[str, str]]:
    if info.comment:
        _check_length(f"the comment of schema {info.name!r}", info.comment)
        yield statements.DESCRIPTION, info.comment
    for key, value in info.tags.items():
        if _length(key) > _LONGEST_TAG:
            raise BadRequest(
                f"a tag of schema {info.name!r} is too long: {_length(key)} characters; SQL Server "
                f"keeps names of tags of up to {_LONGEST_TAG}: shorten {key[:40]!r}…"
            )
        _check_length(f"tag {key!r} of schema {info.name!r}", value)
        yield statements.TAG_PREFIX + key, value


def _check_length(title: str, value: str) -> None:
    if _length(value) > LONGEST_VALUE:
        raise BadRequest(
            f"{title} has {_length(value):,} characters; SQL Server keeps up to {LONGEST_VALUE:,}: "
            "shorten it"
        )


def _length(value: str) -> int:
    """Return the length in UTF-16 code units, as SQL Server counts."""
    return len(value.encode("utf-16-le", "surrogatepass")) // 2


def schema_info(name: str, rows: Iterable[tuple[str, str, str | None]]) -> SchemaInfo:
    """Return a schema with its comment and tags, from the properties of all schemas."""
    properties = {key: value or "" for schema, key, value in rows if schema == name}
    tags = {
        key.removeprefix(statements.TAG_PREFIX): value
        for key, value in properties.items()
        if key.startswith(statements.TAG_PREFIX)
    }
    return SchemaInfo(name, properties.get(statements.DESCRIPTION, ""), tags)


_VIEW = "V"
_PRIMARY = "PK"


@dataclass(frozen=True)
class TableDescription:
    """Describe a table or view as it was when it was read. `checks` are in T-SQL."""

    schema: str
    name: str
    object_id: int
    created: str
    is_view: bool
    columns: tuple[ServerColumn, ...]
    keys: tuple[UniqueKey, ...] = ()
    checks: tuple[str, ...] = ()

    def title(self) -> str:
        """Return schema and name, for messages."""
        return f"{self.schema}.{self.name}"

    def primary_key(self) -> tuple[ServerColumn, ...]:
        """Return the columns of the primary key; empty if there is none."""
        names = next((key.columns for key in self.keys if key.primary), ())
        return tuple(column for name in names for column in self.columns if column.name == name)

    def info(self, row_id: pa.DataType | None) -> TableInfo:
        """Return the table as clients see it."""
        checks, defaults = for_clients(self)
        return TableInfo(
            self.name,
            pa.schema([_field(column, defaults.get(column.name)) for column in self.columns]),
            row_id=row_id,
            identity=f"{self.object_id}-{self.created}",
            checks=checks,
            keys=self.keys,
        )


def _field(column: ServerColumn, default: str | None) -> pa.Field:
    metadata = {"default": default} if default else None
    return pa.field(column.name, arrow_type(column), nullable_for_clients(column), metadata)


def describe(
    connection: OdbcConnection, schema: str, name: str | None = None, *, folded: bool = False
) -> list[TableDescription]:
    """Read all tables and views of a schema, or the one with this name.

    With `folded`, most catalog views have names in lower case, as on Babelfish.
    """
    parameters = (schema,) if name is None else (schema, name)

    def read(of_all: str, of_one: str) -> list[tuple[Any, ...]]:
        return connection.rows(of_all if name is None else of_one, *parameters)

    columns = read(statements.COLUMNS, statements.COLUMNS_OF_ONE)
    if not columns:
        return []
    keys = _keys(read(statements.KEYS, statements.KEYS_OF_ONE))
    checks = _group_rows(read(statements.CHECKS, statements.CHECKS_OF_ONE))
    tables = []
    for object_id, rows in _group_rows(columns, whole=True).items():
        _, table_name, object_type, created, *_ = rows[0]
        tables.append(
            TableDescription(
                schema,
                table_name,
                object_id,
                created,
                object_type.strip() == _VIEW,
                tuple(_column(row) for row in rows),
                keys.get(object_id, ()),
                # The definition is NULL for a login that may not see it.
                tuple(text for (text,) in checks.get(object_id, []) if text),
            )
        )
    if folded:
        names = read(statements.NAMES, statements.NAMES_OF_ONE)
        return [_restore_names(table, names) for table in tables]
    return tables


def _restore_names(table: TableDescription, rows: Iterable[Sequence[Any]]) -> TableDescription:
    """Restore the spelling of names and constants; `rows` are names of tables and columns."""
    spellings = [(name, column) for name, column in rows if fold(name) == fold(table.name)]
    names: dict[str, str] = {fold(column): column for _, column in spellings}

    def restore(name: str) -> str:
        return names.get(fold(name), name)

    return replace(
        table,
        name=spellings[0][0] if spellings else table.name,
        columns=tuple(
            replace(column, name=restore(column.name), default=remove_casts(column.default))
            for column in table.columns
        ),
        checks=tuple(map(remove_casts, table.checks)),
        keys=tuple(replace(key, columns=tuple(map(restore, key.columns))) for key in table.keys),
    )


def _column(row: Sequence[Any]) -> ServerColumn:
    name, type_, length, precision, scale = row[4:9]
    nullable, identity, computed, default, collation = row[9:]
    return ServerColumn(
        name,
        type_,
        length,
        precision,
        scale,
        bool(nullable),
        bool(identity),
        bool(computed),
        default or "",
        collation or "",
    )


def _group_rows(rows: Iterable[Sequence[Any]], *, whole: bool = False) -> dict[int, list[Any]]:
    """Group rows by their first column, which they keep only with `whole`."""
    groups: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        groups[row[0]].append(row if whole else row[1:])
    return groups


def _keys(rows: Iterable[Sequence[Any]]) -> dict[int, tuple[UniqueKey, ...]]:
    columns: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for object_id, name, key_type, column in rows:
        columns[object_id, name, key_type.strip()].append(column)
    keys: dict[int, tuple[UniqueKey, ...]] = {}
    for (object_id, _, key_type), names in columns.items():
        key = UniqueKey(tuple(names), key_type == _PRIMARY)
        keys[object_id] = (*keys.get(object_id, ()), key)
    return keys


def for_clients(table: TableDescription) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the checks, and the defaults by column, that clients see, in DuckDB's SQL.

    The client evaluates them before it sends rows. So those that DuckDB evaluates differently, or
    not at all, are omitted: the server still enforces the check, and still fills in the default if
    a statement does not name the column.
    """
    types = declared_types(table.columns)
    schema = pa.schema([pa.field(column.name, arrow_type(column)) for column in table.columns])
    checks = (_visible_check(check, types, schema) for check in table.checks)
    defaults = {column.name: visible_default(column) for column in table.columns}
    return (
        tuple(check for check in checks if check),
        {name: text for name, text in defaults.items() if text},
    )


def is_filled_by_server(column: ServerColumn) -> bool:
    """Return whether the server fills in a column for which the client sends only NULL."""
    generated = column.identity or not takes_values(column)
    return generated or bool(column.default and not visible_default(column))


def nullable_for_clients(column: ServerColumn) -> bool:
    """Return whether the column is nullable for clients, which check NOT NULL themselves."""
    return column.nullable or is_filled_by_server(column)


def visible_default(column: ServerColumn) -> str:
    """Return the default that clients see; empty if there is none."""
    if not column.default or column.identity or column.computed:
        return ""
    text = constraint_reader.default(column.default, declared_type(column))
    return "" if text is None else _accept_default(text, arrow_type(column))


@lru_cache(maxsize=4096)
def _accept_default(text: str, data_type: pa.DataType) -> str:
    try:
        return duckdb_engine.default_expression(text, pa.field("value", data_type)).sql
    except BadRequest:
        return ""


def _visible_check(definition: str, types: Mapping[str, str], schema: pa.Schema) -> str:
    text = constraint_reader.check(definition, types)
    return "" if text is None else _accept_check(text, schema)


@lru_cache(maxsize=4096)
def _accept_check(text: str, schema: pa.Schema) -> str:
    try:
        return duckdb_engine.check_expression(text, schema).sql
    except BadRequest:
        return ""
