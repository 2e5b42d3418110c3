"""T-SQL that makes and changes tables, and what it takes to read definitions of constraints.

SQL Server keeps no text of a constraint but writes it anew, with every column in brackets.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql.statements import bracketed, path, text
from jetbridge.errors import BadRequest

COLUMNSTORE = "INDEX [columnstore] CLUSTERED COLUMNSTORE"
NO_DEFAULT = "NULL"


def _float(value: float) -> str:
    if not isfinite(value):
        raise BadRequest(f"SQL Server has no {value}")
    # Without an exponent it would be a decimal.
    return repr(value) if "e" in repr(value) else f"{value!r}E0"


def _moment(value: datetime) -> str:
    return text(value.isoformat())


# `datetime` before `date` and `bool` before `int`, whose subclasses they are.
_CONSTANTS: Mapping[type, Callable[[Any], str]] = {
    bool: lambda value: "1" if value else "0",
    int: lambda value: f"({value})" if value < 0 else str(value),
    float: lambda value: f"({_float(value)})" if value < 0 else _float(value),
    Decimal: lambda value: f"({value:f})" if value < 0 else f"{value:f}",
    str: text,
    bytes: lambda value: "0x" + value.hex().upper(),
    datetime: _moment,
    date: lambda value: text(value.isoformat()),
    time: lambda value: text(value.isoformat()),
    UUID: lambda value: text(str(value)),
}


def constant(value: Any) -> str:
    """A value that Arrow gave, in a form that no language setting reads otherwise."""
    made = _CONSTANTS.get(type(value))
    if made is None:
        raise BadRequest(f"SQL Server has no constant for {type(value).__name__}")
    return made(value)


def column(name: str, kind: str, *, required: bool, default: str = "", filled: bool = False) -> str:
    """One of CREATE TABLE or ADD; `filled` gives rows that are there the default, too."""
    shown = f" DEFAULT {default}" if default else ""
    values = " WITH VALUES" if default and filled else ""
    return f"{bracketed(name)} {kind} {'NOT NULL' if required else 'NULL'}{shown}{values}"


def check(condition: str) -> str:
    return f"CHECK ({condition})"


def key(columns: Sequence[str], *, primary: bool, loose: bool = False) -> str:
    """`loose`: beside another clustered index."""
    kind = "PRIMARY KEY" if primary else "UNIQUE"
    return f"{kind}{' NONCLUSTERED' if loose else ''} ({', '.join(map(bracketed, columns))})"


def create_table(schema: str, name: str, parts: Sequence[str]) -> str:
    return f"CREATE TABLE {path(schema, name)} ({', '.join(parts)})"


def add(schema: str, table: str, what: str, *, name: str = "", trusted: bool = True) -> str:
    """A column or a constraint."""
    checked = "" if trusted else "WITH NOCHECK "
    named = f"CONSTRAINT {bracketed(name)} " if name else ""
    return f"ALTER TABLE {path(schema, table)} {checked}ADD {named}{what}"


def default_for(name: str, definition: str) -> str:
    return f"DEFAULT {definition} FOR {bracketed(name)}"


def drop_constraint(schema: str, table: str, name: str) -> str:
    return f"ALTER TABLE {path(schema, table)} DROP CONSTRAINT {bracketed(name)}"


def disable(schema: str, table: str, name: str) -> str:
    return f"ALTER TABLE {path(schema, table)} NOCHECK CONSTRAINT {bracketed(name)}"


def drop_column(schema: str, table: str, name: str) -> str:
    return f"ALTER TABLE {path(schema, table)} DROP COLUMN {bracketed(name)}"


def alter_column(
    schema: str,
    table: str,
    name: str,
    kind: str,
    *,
    required: bool | None,
    collation: str = "",
) -> str:
    """Without its collation a column of text would get that of the database.

    `required` None says nothing of NULL, for servers where that cannot be changed.
    """
    collate = f" COLLATE {collation}" if collation.isidentifier() else ""
    null = {None: "", True: " NOT NULL", False: " NULL"}[required]
    return f"ALTER TABLE {path(schema, table)} ALTER COLUMN {bracketed(name)} {kind}{collate}{null}"


def rename_column(schema: str, table: str, name: str, new: str) -> str:
    bracketed(new)
    old = f"{path(schema, table)}.{bracketed(name)}"
    return f"EXEC sp_rename {text(old)}, {text(new)}, N'COLUMN'"


# Questions before a change.


def any_row(schema: str, table: str) -> str:
    return f"SELECT TOP (1) 1 FROM {path(schema, table)}"


def nulls(schema: str, table: str, name: str) -> str:
    return f"SELECT COUNT_BIG(*) FROM {path(schema, table)} WHERE {bracketed(name)} IS NULL"


def violation(schema: str, table: str, condition: str, columns: Sequence[str]) -> str:
    """A row that the condition is false for; of no columns a 1."""
    listed = ", ".join(map(bracketed, columns)) or "1"
    return f"SELECT TOP (1) {listed} FROM {path(schema, table)} WHERE NOT ({condition})"


def duplicate(schema: str, table: str, columns: Sequence[str]) -> str:
    """A key that is there twice, as a UNIQUE constraint would see it: NULL is one value.

    One without NULL comes first, for that is easier to understand.
    """
    names = [bracketed(each) for each in columns]
    listed = ", ".join(names)
    last = ", ".join(f"CASE WHEN {each} IS NULL THEN 1 ELSE 0 END" for each in names)
    return (
        f"SELECT TOP (1) {listed} FROM {path(schema, table)} GROUP BY {listed} "
        f"HAVING COUNT_BIG(*) > 1 ORDER BY {last}"
    )


def unlike(schema: str, table: str, name: str, condition: str) -> str:
    """A value that does not suit; `condition` holds {} where the column is meant."""
    where = condition.format(bracketed(name))
    return f"SELECT TOP (1) {bracketed(name)} FROM {path(schema, table)} WHERE {where}"


def name_of(object_id: int) -> str:
    return (
        "SELECT s.name, o.name FROM sys.objects o JOIN sys.schemas s ON s.schema_id = o.schema_id "
        f"WHERE o.object_id = {int(object_id)}"
    )


def object_called(schema: str, name: str) -> str:
    return (
        "SELECT o.object_id FROM sys.objects o JOIN sys.schemas s ON s.schema_id = o.schema_id "
        f"WHERE s.name = {text(schema)} AND o.name = {text(name)}"
    )


def clustered(object_id: int) -> str:
    """A row if there is a clustered index; a columnstore is one, too."""
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
    """A row for each column; type 1 is clustered."""
    return (
        "SELECT x.name, CASE WHEN x.is_primary_key = 1 THEN 'PK' ELSE 'UQ' END, x.type, "
        "x.ignore_dup_key, c.name, i.is_descending_key FROM sys.indexes x "
        "JOIN sys.index_columns i ON i.object_id = x.object_id AND i.index_id = x.index_id "
        "JOIN sys.columns c ON c.object_id = i.object_id AND c.column_id = i.column_id "
        f"WHERE x.object_id = {int(object_id)} AND i.key_ordinal > 0 "
        "AND (x.is_primary_key = 1 OR x.is_unique_constraint = 1) "
        "ORDER BY x.index_id, i.key_ordinal"
    )


def key_again(
    columns: Sequence[tuple[str, bool]], *, primary: bool, clustered: bool, ignoring: bool = False
) -> str:
    """A key as it was: its columns, and whether each is in descending order.

    `ignoring`: a second row with the key is left out without an error.
    """
    listed = ", ".join(f"{bracketed(name)}{' DESC' if down else ''}" for name, down in columns)
    kind = "PRIMARY KEY" if primary else "UNIQUE"
    more = " WITH (IGNORE_DUP_KEY = ON)" if ignoring else ""
    return f"{kind} {'CLUSTERED' if clustered else 'NONCLUSTERED'} ({listed}){more}"


# Definitions as the catalog views show them.

_PIECES = re.compile(r"N?'(?:[^']|'')*'|\[(?:[^\]]|\]\])*\]")
_BEFORE_TYPE = re.compile(r"convert\(\s*$|\bas\s*$", re.IGNORECASE)
_TEXTS = re.compile(r"'(?:[^']|'')*'")
_BARE = re.compile(r'"((?:[^"]|"")*)"|\b([^\W\d]\w*)\b(?!\s*\()')


def _named(definition: str) -> Iterator[re.Match[str]]:
    """The columns in it: what is in brackets and neither a type nor a function nor a schema."""
    for found in _PIECES.finditer(definition):
        after = definition[found.end() : found.end() + 1]
        before = definition[: found.start()]
        if found[0][0] == "[" and after not in (".", "(") and not _BEFORE_TYPE.search(before):
            yield found


def columns_in(definition: str) -> frozenset[str]:
    """Their folded names."""
    return frozenset(fold(found[0][1:-1].replace("]]", "]")) for found in _named(definition))


_CASTS = re.compile(
    r"CAST\(\(('(?:[^']|'')*')\) AS nvarchar\(\d+\)\)"
    r"|CAST\('(-?\d+(?:\.\d+)?)' AS (?:numeric|bigint|int|smallint)\)"
)


def without_casts(definition: str) -> str:
    """Constants as they were given, where Babelfish shows each as a text that is cast."""
    return _CASTS.sub(lambda found: f"N{found[1]}" if found[1] else f"({found[2]})", definition)


def words_in(definition: str) -> frozenset[str]:
    """Folded; the columns are among them where the server writes these without brackets."""
    return frozenset(
        fold(found[1].replace('""', '"') if found[1] else found[2])
        for found in _BARE.finditer(_TEXTS.sub("''", definition))
    )


def with_column_renamed(definition: str, old: str, new: str) -> str:
    parts, done = [], 0
    for found in _named(definition):
        if fold(found[0][1:-1].replace("]]", "]")) == fold(old):
            parts += [definition[done : found.start()], bracketed(new)]
            done = found.end()
    return "".join([*parts, definition[done:]])
