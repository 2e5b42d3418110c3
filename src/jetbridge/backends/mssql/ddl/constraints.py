"""Constraints of a table by their names: what ALTER TABLE meets, and puts back as it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jetbridge.backends.mssql.connection.sql_connection import SqlConnection
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql import ddl

_CLUSTERED = 1


@dataclass(frozen=True)
class Constraint:
    """`columns` are folded; `sql` is what ADD CONSTRAINT has after the name."""

    name: str
    columns: frozenset[str]
    sql: str
    is_default: bool = False
    is_check: bool = False
    trusted: bool = True
    disabled: bool = False


def constraints(connection: SqlConnection, object_id: int) -> list[Constraint]:
    """Defaults, then checks, then keys: in this order they can be dropped."""
    defaults = [
        Constraint(name, frozenset({fold(column)}), ddl.default_for(column, text), True)
        for column, name, text in connection.run(ddl.defaults_of(object_id))
    ]
    checks = [
        Constraint(
            name,
            ddl.columns_in(text) or ddl.words_in(text),
            ddl.check(text),
            is_check=True,
            trusted=not untrusted,
            disabled=bool(disabled),
        )
        for name, text, disabled, untrusted in connection.run(ddl.checks_of(object_id))
    ]
    return [*defaults, *checks, *_keys(connection.run(ddl.keys_of(object_id)))]


def _keys(rows: list[tuple[Any, ...]]) -> Iterator[Constraint]:
    for name in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == name]
        columns = [(column, bool(down)) for *_, column, down in own]
        _, kind, index, ignoring, *_ = own[0]
        sql = ddl.key_again(
            columns,
            primary=kind.strip() == "PK",
            clustered=index == _CLUSTERED,
            ignoring=bool(ignoring),
        )
        yield Constraint(name, frozenset(fold(column) for column, _ in columns), sql)


def using(connection: SqlConnection, table: TableDescription, column: str) -> list[Constraint]:
    found = constraints(connection, table.object_id)
    return [each for each in found if fold(column) in each.columns]


def drop(connection: SqlConnection, table: TableDescription, each: Constraint) -> None:
    connection.run(ddl.drop_constraint(table.schema, table.name, each.name))


def add(connection: SqlConnection, table: TableDescription, each: Constraint) -> None:
    where = table.schema, table.name
    connection.run(ddl.add(*where, each.sql, name=each.name, trusted=each.trusted))
    if each.disabled:
        connection.run(ddl.disable(*where, each.name))


@contextmanager
def without(connection: SqlConnection, table: TableDescription, column: str) -> Iterator[None]:
    """ALTER COLUMN refuses a column that constraints use; here they are gone for a while."""
    held = using(connection, table, column)
    for each in held:
        drop(connection, table, each)
    yield
    for each in reversed(held):
        add(connection, table, each)
