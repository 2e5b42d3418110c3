"""Defines a table without its rows, and checks its columns: names, stored types, defaults."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.catalog import ROWID, CreateTable, UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.values import DEFAULT, default_of, refuse_duplicate_fields
from jetbridge.errors import BadRequest


def build_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a table; raise BadRequest for a bad or repeated name."""
    schema = pa.schema(list(fields))
    if not len(schema):
        raise BadRequest("a table needs at least one column")
    names: set[str] = set()
    for name in schema.names:
        check_column_name(name)
        if fold(name) in names:
            raise BadRequest(f"two columns are named {name!r}: names match without regard to case")
        names.add(fold(name))
    return schema


def check_column_name(name: str) -> None:
    """Raise BadRequest for an empty name, and for the name of the row id."""
    if not name:
        raise BadRequest("a column needs a name")
    if fold(name) == ROWID:
        raise BadRequest(f"a column cannot be named {name!r}, the name of the row id")


def to_stored_field(field: pa.Field) -> pa.Field:
    """Return the field with the type that is stored and a checked default; raise BadRequest."""
    refuse_duplicate_fields(field)
    field = field.with_type(_normalize_type(field.type))
    duckdb_engine.duckdb_type(field)
    text = default_of(field)
    return field if text is None else set_default(field, text)


# A column of NULLs is INTEGER in DuckDB. Arrow has no `take` for views.
_STORED_AS = {
    pa.null(): pa.int32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def _normalize_type(data_type: pa.DataType) -> pa.DataType:
    # Later batches of an ENUM column are plain strings, or have another dictionary.
    if isinstance(data_type, pa.DictionaryType | pa.RunEndEncodedType):
        return _normalize_type(data_type.value_type)
    for test, build in _NESTED:
        if test(data_type):
            return build(data_type)
    if pa.types.is_decimal32(data_type) or pa.types.is_decimal64(data_type):
        # Arrow can neither hash nor sort them.
        return pa.decimal128(data_type.precision, data_type.scale)
    return _STORED_AS.get(data_type, data_type)


def _normalize_list(data_type: Any) -> pa.DataType:
    return pa.list_(_normalize_inner(data_type.value_field))


def _normalize_large_list(data_type: Any) -> pa.DataType:
    return pa.large_list(_normalize_inner(data_type.value_field))


def _normalize_map(data_type: Any) -> pa.DataType:
    key, item = _normalize_inner(data_type.key_field), _normalize_inner(data_type.item_field)
    return pa.map_(key, item, keys_sorted=data_type.keys_sorted)


_NESTED: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]], ...] = (
    (pa.types.is_struct, lambda struct: pa.struct([_normalize_inner(field) for field in struct])),
    (pa.types.is_list, _normalize_list),
    (pa.types.is_list_view, _normalize_list),
    (pa.types.is_large_list, _normalize_large_list),
    (pa.types.is_large_list_view, _normalize_large_list),
    (
        pa.types.is_fixed_size_list,
        lambda array: pa.list_(_normalize_inner(array.value_field), array.list_size),
    ),
    (pa.types.is_map, _normalize_map),
)


def _normalize_inner(field: pa.Field) -> pa.Field:
    return field.with_type(_normalize_type(field.type))


def set_default(field: pa.Field, text: str) -> pa.Field:
    """Return the field with a default, or without one if the text is empty; raise BadRequest.

    DuckDB's spelling of the expression is kept: clients paste it into their own statements.
    """
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != DEFAULT}
    if text:
        metadata[DEFAULT] = duckdb_engine.default_expression(text, field).sql.encode()
    return field.with_metadata(metadata or None)


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
