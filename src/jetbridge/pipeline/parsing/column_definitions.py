"""Reads the columns and constraints of CREATE TABLE: DuckDB creates such a table to tell."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog.columns import DEFAULT
from jetbridge.duckdb_engine.connection import SCRATCH, StatementConnection
from jetbridge.errors import NotSupported


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
