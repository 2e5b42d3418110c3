"""A table without its rows: columns, comment, checks and keys."""

from dataclasses import dataclass

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.tables.columns import build_schema, to_stored_field
from jetbridge.catalog import CreateTable, UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import BadRequest


@dataclass(frozen=True)
class Definition:
    """What CREATE and ALTER TABLE decide; defaults are in the metadata of the columns."""

    name: str
    schema: pa.Schema
    comment: str = ""
    checks: tuple[str, ...] = ()
    keys: tuple[UniqueKey, ...] = ()

    def position(self, name: str) -> int | None:
        """Index of a column, by its name in any case."""
        wanted = fold(name)
        return next((i for i, n in enumerate(self.schema.names) if fold(n) == wanted), None)


def define_table(request: CreateTable) -> Definition:
    """A new table; raises BadRequest for a column or constraint it cannot take."""
    if not request.name:
        raise BadRequest("a table needs a name")
    schema = build_schema(to_stored_field(field) for field in request.schema)
    keys = tuple(normalize_key(schema, key) for key in request.keys)
    if sum(key.primary for key in keys) > 1:
        raise BadRequest(f"table {request.name!r} can have one primary key only")
    for key in keys:
        schema = require_key_columns(schema, key)
    checks = tuple(normalize_check(text, schema, request.name) for text in request.checks)
    return Definition(request.name, schema, request.comment, checks, keys)


def normalize_check(text: str, schema: pa.Schema, table: str) -> str:
    """A CHECK as it is kept, in DuckDB's own spelling; raises BadRequest."""
    return duckdb_engine.check_expression(text, schema, table).sql


def normalize_key(schema: pa.Schema, key: UniqueKey) -> UniqueKey:
    """The key with the columns as the table spells them."""
    spelled = {fold(name): name for name in schema.names}
    kind = "primary key" if key.primary else "unique key"
    if not key.columns:
        raise BadRequest(f"a {kind} needs at least one column")
    for name in key.columns:
        if fold(name) not in spelled:
            raise BadRequest(f"the {kind} names the unknown column {name!r}")
    columns = tuple(dict.fromkeys(spelled[fold(name)] for name in key.columns))
    if len(columns) != len(key.columns):
        raise BadRequest(f"the {kind} names a column twice")
    return UniqueKey(columns, key.primary)


def require_key_columns(schema: pa.Schema, key: UniqueKey) -> pa.Schema:
    """A primary key makes its columns NOT NULL."""
    if not key.primary:
        return schema
    return pa.schema([f.with_nullable(False) if f.name in key.columns else f for f in schema])
