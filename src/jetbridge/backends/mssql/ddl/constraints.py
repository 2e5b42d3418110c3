"""Reads the constraints of a table, and drops and restores those that block ALTER TABLE."""

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
    """Describe a constraint. `columns` are folded; `sql` follows the name in ADD CONSTRAINT."""

    name: str
    columns: frozenset[str]
    sql: str
    is_default: bool = False
    is_check: bool = False
    trusted: bool = True
    disabled: bool = False


def constraints(connection: SqlConnection, object_id: int) -> list[Constraint]:
    """Return defaults, then checks, then keys: they can be dropped in this order."""
    defaults = [
        Constraint(name, frozenset({fold(column)}), ddl.default_for(column, text), True)
        for column, name, text in connection.run(ddl.defaults_of(object_id))
    ]
    checks = [
        Constraint(
            name,
            ddl.columns_in(text) or ddl.identifiers_in(text),
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
        key_rows = [row for row in rows if row[0] == name]
        columns = [(column, bool(descending)) for *_, column, descending in key_rows]
        _, key_type, index, ignoring, *_ = key_rows[0]
        sql = ddl.recreate_key(
            columns,
            primary=key_type.strip() == "PK",
            clustered=index == _CLUSTERED,
            ignore_duplicates=bool(ignoring),
        )
        yield Constraint(name, frozenset(fold(column) for column, _ in columns), sql)


def using(connection: SqlConnection, table: TableDescription, column: str) -> list[Constraint]:
    """Return the constraints that use a column."""
    all_constraints = constraints(connection, table.object_id)
    return [constraint for constraint in all_constraints if fold(column) in constraint.columns]


def drop(connection: SqlConnection, table: TableDescription, constraint: Constraint) -> None:
    """Drop a constraint."""
    connection.run(ddl.drop_constraint(table.schema, table.name, constraint.name))


def add(connection: SqlConnection, table: TableDescription, constraint: Constraint) -> None:
    """Add a constraint as it was, disabled and untrusted if it was so."""
    name, trusted = constraint.name, constraint.trusted
    connection.run(ddl.add(table.schema, table.name, constraint.sql, name=name, trusted=trusted))
    if constraint.disabled:
        connection.run(ddl.disable_constraint(table.schema, table.name, name))


@contextmanager
def without(connection: SqlConnection, table: TableDescription, column: str) -> Iterator[None]:
    """Drop the constraints of a column during the block: ALTER COLUMN refuses a column in use."""
    dropped = using(connection, table, column)
    for constraint in dropped:
        drop(connection, table, constraint)
    yield
    for constraint in reversed(dropped):
        add(connection, table, constraint)
