"""Defines a table without its rows: columns, comment, checks and keys."""

from dataclasses import dataclass

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.tables.columns import build_schema, to_stored_field
from jetbridge.catalog import CreateTable, UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import BadRequest


@dataclass(frozen=True)
class Definition:
    """Hold what CREATE and ALTER TABLE decide; defaults are in the metadata of the columns."""

    name: str
    schema: pa.Schema
    comment: str = ""
    checks: tuple[str, ...] = ()
    keys: tuple[UniqueKey, ...] = ()

    def position(self, name: str) -> int | None:
        """Return the position of a column; its name matches without regard to case."""
        folded = fold(name)
        return next((i for i, n in enumerate(self.schema.names) if fold(n) == folded), None)


def define_table(request: CreateTable) -> Definition:
    """Return the definition of a new table; raise BadRequest for a bad column or constraint."""
    if not request.name:
        raise BadRequest("a table needs a name")
    schema = build_schema(to_stored_field(field) for field in request.schema)
    keys = tuple(normalize_key(schema, key, request.name) for key in request.keys)
    if sum(key.primary for key in keys) > 1:
        raise BadRequest(f"table {request.name!r} can have only one primary key")
    for key in keys:
        schema = require_key_columns(schema, key)
    checks = tuple(normalize_check(text, schema, request.name) for text in request.checks)
    return Definition(request.name, schema, request.comment, checks, keys)


def normalize_check(text: str, schema: pa.Schema, table: str) -> str:
    """Return a CHECK in DuckDB's spelling; raise BadRequest."""
    return duckdb_engine.check_expression(text, schema, table).sql


def normalize_key(schema: pa.Schema, key: UniqueKey, table: str) -> UniqueKey:
    """Return a key with the names of its columns as the table spells them; raise BadRequest."""
    spelling = {fold(name): name for name in schema.names}
    title = f"the {'primary' if key.primary else 'unique'} key of table {table!r}"
    if not key.columns:
        raise BadRequest(f"{title} needs at least one column")
    for name in key.columns:
        if fold(name) not in spelling:
            raise BadRequest(f"{title} names column {name!r}, which does not exist")
    columns = tuple(dict.fromkeys(spelling[fold(name)] for name in key.columns))
    if len(columns) != len(key.columns):
        raise BadRequest(f"{title} names a column twice")
    return UniqueKey(columns, key.primary)


def require_key_columns(schema: pa.Schema, key: UniqueKey) -> pa.Schema:
    """Return the schema with the columns of a primary key NOT NULL."""
    if not key.primary:
        return schema
    return pa.schema([f.with_nullable(False) if f.name in key.columns else f for f in schema])
