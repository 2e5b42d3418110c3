"""Renders T-SQL that creates and changes tables, and reads definitions of constraints.

SQL Server does not keep the text of a constraint. It writes it again, with every column in
brackets.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql.statements import bracket, path, text
from jetbridge.errors import BadRequest

COLUMNSTORE = "INDEX [columnstore] CLUSTERED COLUMNSTORE"
NO_DEFAULT = "NULL"


def _float(value: float) -> str:
    if not isfinite(value):
        raise BadRequest(f"SQL Server has no {value}")
    # Without an exponent it would be a decimal.
    return repr(value) if "e" in repr(value) else f"{value!r}E0"


def _timestamp(value: datetime) -> str:
    return text(value.isoformat())


# `datetime` before `date` and `bool` before `int`, whose subclasses they are.
_CONSTANTS: Mapping[type, Callable[[Any], str]] = {
    bool: lambda value: "1" if value else "0",
    int: lambda value: f"({value})" if value < 0 else str(value),
    float: lambda value: f"({_float(value)})" if value < 0 else _float(value),
    Decimal: lambda value: f"({value:f})" if value < 0 else f"{value:f}",
    str: text,
    bytes: lambda value: "0x" + value.hex().upper(),
    datetime: _timestamp,
    date: lambda value: text(value.isoformat()),
    time: lambda value: text(value.isoformat()),
    UUID: lambda value: text(str(value)),
}


def constant(value: Any) -> str:
    """Return a Python value as a constant that every language setting reads in the same way."""
    render = _CONSTANTS.get(type(value))
    if render is None:
        raise BadRequest(f"SQL Server has no constant for {type(value).__name__}")
    return render(value)


def column(
    name: str, sql_type: str, *, required: bool, default: str = "", fill_existing: bool = False
) -> str:
    """Return a column for CREATE TABLE or ADD; `fill_existing` gives the default to existing
    rows, too.
    """
    default_clause = f" DEFAULT {default}" if default else ""
    values = " WITH VALUES" if default and fill_existing else ""
    return (
        f"{bracket(name)} {sql_type} {'NOT NULL' if required else 'NULL'}{default_clause}{values}"
    )


def check(condition: str) -> str:
    return f"CHECK ({condition})"


def key(columns: Sequence[str], *, primary: bool, nonclustered: bool = False) -> str:
    """Return a key; `nonclustered` is for a table that has another clustered index."""
    key_type = "PRIMARY KEY" if primary else "UNIQUE"
    return (
        f"{key_type}{' NONCLUSTERED' if nonclustered else ''} ({', '.join(map(bracket, columns))})"
    )


def create_table(schema: str, name: str, parts: Sequence[str]) -> str:
    return f"CREATE TABLE {path(schema, name)} ({', '.join(parts)})"


def add(schema: str, table: str, what: str, *, name: str = "", trusted: bool = True) -> str:
    """Add a column or a constraint."""
    checked = "" if trusted else "WITH NOCHECK "
    named = f"CONSTRAINT {bracket(name)} " if name else ""
    return f"ALTER TABLE {path(schema, table)} {checked}ADD {named}{what}"


def default_for(name: str, definition: str) -> str:
    return f"DEFAULT {definition} FOR {bracket(name)}"


def drop_constraint(schema: str, table: str, name: str) -> str:
    return f"ALTER TABLE {path(schema, table)} DROP CONSTRAINT {bracket(name)}"


def disable_constraint(schema: str, table: str, name: str) -> str:
    return f"ALTER TABLE {path(schema, table)} NOCHECK CONSTRAINT {bracket(name)}"


def drop_column(schema: str, table: str, name: str) -> str:
    return f"ALTER TABLE {path(schema, table)} DROP COLUMN {bracket(name)}"


def alter_column(
    schema: str,
    table: str,
    name: str,
    sql_type: str,
    *,
    required: bool | None,
    collation: str = "",
) -> str:
    """Change the type of a column. Without `collation`, a string column gets that of the database.

    With `required` None the statement does not mention NULL, for servers that cannot change it.
    """
    collate = f" COLLATE {collation}" if collation.isidentifier() else ""
    null = {None: "", True: " NOT NULL", False: " NULL"}[required]
    return (
        f"ALTER TABLE {path(schema, table)} ALTER COLUMN {bracket(name)} {sql_type}{collate}{null}"
    )


def rename_column(schema: str, table: str, name: str, new: str) -> str:
    bracket(new)
    old = f"{path(schema, table)}.{bracket(name)}"
    return f"EXEC sp_rename {text(old)}, {text(new)}, N'COLUMN'"


# Queries before a change.


def find_row(schema: str, table: str) -> str:
    return f"SELECT TOP (1) 1 FROM {path(schema, table)}"


def count_nulls(schema: str, table: str, name: str) -> str:
    return f"SELECT COUNT_BIG(*) FROM {path(schema, table)} WHERE {bracket(name)} IS NULL"


def find_violation(schema: str, table: str, condition: str, columns: Sequence[str]) -> str:
    """Return a query for one row for which the condition is false; without columns it returns 1."""
    listed = ", ".join(map(bracket, columns)) or "1"
    return f"SELECT TOP (1) {listed} FROM {path(schema, table)} WHERE NOT ({condition})"


def find_duplicate(schema: str, table: str, columns: Sequence[str]) -> str:
    """Return a query for a key that occurs twice for a UNIQUE constraint, where NULL equals NULL.

    A key without NULL comes first, because it is easier to understand.
    """
    names = [bracket(name) for name in columns]
    listed = ", ".join(names)
    last = ", ".join(f"CASE WHEN {name} IS NULL THEN 1 ELSE 0 END" for name in names)
    return (
        f"SELECT TOP (1) {listed} FROM {path(schema, table)} GROUP BY {listed} "
        f"HAVING COUNT_BIG(*) > 1 ORDER BY {last}"
    )


def find_misfit(schema: str, table: str, name: str, condition: str) -> str:
    """Return a query for a value that does not fit; `condition` has {} in place of the column."""
    where = condition.format(bracket(name))
    return f"SELECT TOP (1) {bracket(name)} FROM {path(schema, table)} WHERE {where}"


def name_of(object_id: int) -> str:
    return (
        "SELECT s.name, o.name FROM sys.objects o JOIN sys.schemas s ON s.schema_id = o.schema_id "
        f"WHERE o.object_id = {int(object_id)}"
    )


def find_object(schema: str, name: str) -> str:
    return (
        "SELECT o.object_id FROM sys.objects o JOIN sys.schemas s ON s.schema_id = o.schema_id "
        f"WHERE s.name = {text(schema)} AND o.name = {text(name)}"
    )


def find_clustered_index(object_id: int) -> str:
    """Return a query with a row if the table has a clustered index or a clustered columnstore."""
    return f"SELECT index_id FROM sys.indexes WHERE object_id = {int(object_id)} AND type IN (1, 5)"


def defaults_of(object_id: int) -> str:
    return (
        "SELECT c.name, d.name, d.definition FROM sys.default_constraints d JOIN sys.columns c "
        "ON c.object_id = d.parent_object_id AND c.column_id = d.parent_column_id "
        f"WHERE d.parent_object_id = {int(object_id)}"
    )


def checks_of(object_id: int) -> str:
    return (
        "SELECT name, definition, is_disabled, is_not_trusted FROM sys.check_constraints "
        f"WHERE parent_object_id = {int(object_id)} ORDER BY object_id"
    )


def keys_of(object_id: int) -> str:
    """Return a query with a row for each column of a key; type 1 is clustered."""
    return (
        "SELECT x.name, CASE WHEN x.is_primary_key = 1 THEN 'PK' ELSE 'UQ' END, x.type, "
        "x.ignore_dup_key, c.name, i.is_descending_key FROM sys.indexes x "
        "JOIN sys.index_columns i ON i.object_id = x.object_id AND i.index_id = x.index_id "
        "JOIN sys.columns c ON c.object_id = i.object_id AND c.column_id = i.column_id "
        f"WHERE x.object_id = {int(object_id)} AND i.key_ordinal > 0 "
        "AND (x.is_primary_key = 1 OR x.is_unique_constraint = 1) "
        "ORDER BY x.index_id, i.key_ordinal"
    )


def recreate_key(
    columns: Sequence[tuple[str, bool]],
    *,
    primary: bool,
    clustered: bool,
    ignore_duplicates: bool = False,
) -> str:
    """Return an existing key again; `columns` are names, and whether each is in descending order.

    With `ignore_duplicates`, SQL Server drops a second row with the key without an error.
    """
    listed = ", ".join(f"{bracket(name)}{' DESC' if down else ''}" for name, down in columns)
    key_type = "PRIMARY KEY" if primary else "UNIQUE"
    more = " WITH (IGNORE_DUP_KEY = ON)" if ignore_duplicates else ""
    return f"{key_type} {'CLUSTERED' if clustered else 'NONCLUSTERED'} ({listed}){more}"


# Definitions as the catalog views show them.

_PIECES = re.compile(r"N?'(?:[^']|'')*'|\[(?:[^\]]|\]\])*\]")
_BEFORE_TYPE = re.compile(r"convert\(\s*$|\bas\s*$", re.IGNORECASE)
_TEXTS = re.compile(r"'(?:[^']|'')*'")
_BARE = re.compile(r'"((?:[^"]|"")*)"|\b([^\W\d]\w*)\b(?!\s*\()')


def _find_columns(definition: str) -> Iterator[re.Match[str]]:
    """Find the columns in a definition: names in brackets that are no type, function or schema."""
    for match in _PIECES.finditer(definition):
        after = definition[match.end() : match.end() + 1]
        before = definition[: match.start()]
        if match[0][0] == "[" and after not in (".", "(") and not _BEFORE_TYPE.search(before):
            yield match


def columns_in(definition: str) -> frozenset[str]:
    """Return the folded names of the columns in a definition."""
    return frozenset(fold(match[0][1:-1].replace("]]", "]")) for match in _find_columns(definition))


_CASTS = re.compile(
    r"CAST\(\(('(?:[^']|'')*')\) AS nvarchar\(\d+\)\)"
    r"|CAST\('(-?\d+(?:\.\d+)?)' AS (?:numeric|bigint|int|smallint)\)"
)


def remove_casts(definition: str) -> str:
    """Return the constants of a definition without the casts that Babelfish adds to each."""
    return _CASTS.sub(lambda match: f"N{match[1]}" if match[1] else f"({match[2]})", definition)


def identifiers_in(definition: str) -> frozenset[str]:
    """Return the folded words of a definition.

    The columns are among them if the server writes columns without brackets.
    """
    return frozenset(
        fold(match[1].replace('""', '"') if match[1] else match[2])
        for match in _BARE.finditer(_TEXTS.sub("''", definition))
    )


def rename_column_in(definition: str, old: str, new: str) -> str:
    parts, done = [], 0
    for match in _find_columns(definition):
        if fold(match[0][1:-1].replace("]]", "]")) == fold(old):
            parts += [definition[done : match.start()], bracket(new)]
            done = match.end()
    return "".join([*parts, definition[done:]])
