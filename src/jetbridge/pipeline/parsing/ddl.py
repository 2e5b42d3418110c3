"""Reads ALTER TABLE, and the columns and constraints of CREATE TABLE.

The columns come from an empty table that DuckDB creates with them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import (
    AddCheck,
    AddKey,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    SetDefault,
    SetNotNull,
    UniqueKey,
)
from jetbridge.catalog.values import DEFAULT
from jetbridge.duckdb_engine.connection import SCRATCH, StatementConnection
from jetbridge.errors import NotSupported
from jetbridge.pipeline.parsing.statements import (
    AddDeclaredColumn,
    AlterAction,
    ChangeColumnType,
    SetLayout,
)
from jetbridge.pipeline.parsing.tokens import TokenCursor


@dataclass(frozen=True)
class ColumnDefinitions:
    """Hold the columns and constraints of a table.

    `schema` has NOT NULL, and defaults as metadata. `keys` are the columns of each key, and whether
    it is the primary key.
    """

    schema: pa.Schema
    checks: tuple[str, ...]
    keys: tuple[tuple[tuple[str, ...], bool], ...]


def parse_column_definitions(connection: StatementConnection, columns: str) -> ColumnDefinitions:
    """Read the text that follows the name of the table; raise what DuckDB refuses."""
    with connection.scratch(columns):
        if "GENERATED" in columns.upper() and connection.fetch(_GENERATED):
            raise NotSupported("generated columns are not supported: compute them in queries")
        defaults = {name: default for name, default in connection.fetch(_COLUMNS) if default}
        constraints = connection.fetch(_CONSTRAINTS)
        schema = connection.schema(f"SELECT * FROM {SCRATCH}")
    if any(kind == "FOREIGN KEY" for kind, _, _ in constraints):
        raise NotSupported("foreign keys are not supported")
    required = _columns_of(constraints, "NOT NULL")
    fields = []
    for field in schema:
        metadata = dict(field.metadata or {})
        if field.name in defaults:
            metadata[DEFAULT] = defaults[field.name].encode()
        fields.append(
            pa.field(field.name, field.type, field.name not in required, metadata or None)
        )
    return ColumnDefinitions(
        pa.schema(fields),
        tuple(text for kind, text, _ in constraints if kind == "CHECK"),
        tuple(
            (tuple(names), kind == "PRIMARY KEY")
            for kind, _, names in constraints
            if kind in ("PRIMARY KEY", "UNIQUE")
        ),
    )


def _columns_of(constraints: Sequence[tuple[str, str, list[str]]], kind: str) -> set[str]:
    return {name for other, _, names in constraints if other == kind for name in names}


_OF_SCRATCH = f"table_name = '{SCRATCH.rpartition('.')[2]}'"
_COLUMNS = f"SELECT column_name, column_default FROM duckdb_columns() WHERE {_OF_SCRATCH}"
_CONSTRAINTS = (
    "SELECT constraint_type, expression, constraint_column_names FROM duckdb_constraints() "
    f"WHERE {_OF_SCRATCH}"
)
# Only the text of the table says that a column is generated.
_GENERATED = (
    f"SELECT sql FROM duckdb_tables() WHERE {_OF_SCRATCH} AND sql ILIKE '% GENERATED ALWAYS AS%'"
)


_ALLOWED = "use ADD, DROP, RENAME, ALTER COLUMN, SET PARTITIONED BY or SET SORTED BY"


def read_alter_action(cursor: TokenCursor) -> AlterAction:
    """Read what follows the name of the table; raises NotSupported for an unknown form."""
    layout = _layout(cursor)
    if layout is not None:
        return layout
    form = cursor.peek()
    read = _FORMS.get(form)
    if read is None:
        raise NotSupported(f"ALTER TABLE ... {form} is not supported: {_ALLOWED}")
    cursor.take(form)
    return read(cursor)


def _layout(cursor: TokenCursor) -> SetLayout | None:
    """Read SET or RESET of PARTITIONED BY and SORTED BY; return None for another form."""
    resets = cursor.peek() == "RESET"
    for word in ("PARTITIONED", "SORTED"):
        if cursor.take("RESET" if resets else "SET", word):
            cursor.expect("BY")
            text = ""
            if not resets:
                cursor.expect("(")
                text = cursor.inside()
            cursor.end()
            return SetLayout(text, None) if word == "PARTITIONED" else SetLayout(None, text)
    return None


def _add(cursor: TokenCursor) -> AlterAction:
    if cursor.take("CONSTRAINT"):
        cursor.identifier()
    if cursor.peek() in ("CHECK", "PRIMARY", "UNIQUE", "FOREIGN"):
        return _constraint(cursor)
    cursor.take("COLUMN")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    path = cursor.dotted_name()
    if cursor.contains("PRIMARY", "KEY"):
        raise NotSupported("add the column first, then ADD PRIMARY KEY (...)")
    return AddDeclaredColumn(path, cursor.rest(), if_not_exists)


def _constraint(cursor: TokenCursor) -> AlterAction:
    if cursor.take("CHECK"):
        cursor.expect("(")
        expression = cursor.inside()
        cursor.end()
        return AddCheck(expression)
    if cursor.take("PRIMARY", "KEY"):
        return AddKey(UniqueKey(cursor.names_in_brackets(), primary=True))
    if cursor.take("UNIQUE"):
        return AddKey(UniqueKey(cursor.names_in_brackets()))
    raise NotSupported("foreign keys are not supported")


def _drop(cursor: TokenCursor) -> AlterAction:
    if cursor.take("CONSTRAINT"):
        raise NotSupported("constraints cannot be dropped: create a new table without it")
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    path = cursor.dotted_name()
    cascade = cursor.take("CASCADE")
    cursor.take("RESTRICT")
    cursor.end()
    if len(path) > 1:
        return RemoveField(path, if_exists, cascade)
    return RemoveColumn(path[0], if_exists, cascade)


def _rename(cursor: TokenCursor) -> AlterAction:
    if cursor.take("TO"):
        name = cursor.identifier()
        cursor.end()
        return RenameTable(name)
    cursor.take("COLUMN")
    path = cursor.dotted_name()
    cursor.expect("TO")
    name = cursor.identifier()
    cursor.end()
    return RenameField(path, name) if len(path) > 1 else RenameColumn(path[0], name)


def _alter_column(cursor: TokenCursor) -> AlterAction:
    cursor.take("COLUMN")
    column = cursor.identifier()
    if cursor.take("SET", "NOT", "NULL"):
        return SetNotNull(column)
    if cursor.take("DROP", "NOT", "NULL"):
        return DropNotNull(column)
    if cursor.take("DROP", "DEFAULT"):
        return SetDefault(column, "NULL")
    if cursor.take("SET", "DEFAULT"):
        return SetDefault(column, cursor.rest())
    cursor.take("SET", "DATA")
    cursor.expect("TYPE")
    data_type = cursor.until("USING")
    expression = cursor.rest() if cursor.take("USING") else ""
    return ChangeColumnType(column, data_type, expression)


_FORMS: dict[str, Callable[[TokenCursor], AlterAction]] = {
    "ADD": _add,
    "DROP": _drop,
    "RENAME": _rename,
    "ALTER": _alter_column,
}
