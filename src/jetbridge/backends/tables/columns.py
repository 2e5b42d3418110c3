"""What a column may look like: its name, its type as it is stored, its default."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.catalog import ROWID
from jetbridge.catalog.columns import DEFAULT, default_of
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import BadRequest


def build_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    schema = pa.schema(list(fields))
    if not len(schema):
        raise BadRequest("a table needs at least one column")
    seen: set[str] = set()
    for name in schema.names:
        check_column_name(name)
        if fold(name) in seen:
            raise BadRequest(f"column {name!r} is there twice")
        seen.add(fold(name))
    return schema


def check_column_name(name: str) -> None:
    if not name:
        raise BadRequest("a column needs a name")
    if fold(name) == ROWID:
        raise BadRequest(f"{name!r} is the name of the row id, choose another")


def to_stored_field(field: pa.Field) -> pa.Field:
    """The field as it is kept: dictionaries by their values, with a default that works."""
    field = field.with_type(_stored_type(field.type))
    duckdb_engine.duckdb_type(field)
    text = default_of(field)
    return field if text is None else set_default(field, text)


# What DuckDB makes of a column of NULLs, and views, for which Arrow lacks `take`.
_STORED_AS = {
    pa.null(): pa.int32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def _stored_type(kind: pa.DataType) -> pa.DataType:
    # The client sends plain strings for an ENUM later on, and its dictionaries differ by batch.
    if isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType):
        return _stored_type(kind.value_type)
    for test, build in _NESTED:
        if test(kind):
            return build(kind)
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        # Arrow can neither hash nor sort them.
        return pa.decimal128(kind.precision, kind.scale)
    return _STORED_AS.get(kind, kind)


def _stored_list(kind: Any) -> pa.DataType:
    return pa.list_(_stored_inner(kind.value_field))


def _stored_large_list(kind: Any) -> pa.DataType:
    return pa.large_list(_stored_inner(kind.value_field))


def _stored_map(kind: Any) -> pa.DataType:
    key, item = _stored_inner(kind.key_field), _stored_inner(kind.item_field)
    return pa.map_(key, item, keys_sorted=kind.keys_sorted)


_NESTED: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]], ...] = (
    (pa.types.is_struct, lambda kind: pa.struct([_stored_inner(f) for f in kind])),
    (pa.types.is_list, _stored_list),
    (pa.types.is_list_view, _stored_list),
    (pa.types.is_large_list, _stored_large_list),
    (pa.types.is_large_list_view, _stored_large_list),
    (
        pa.types.is_fixed_size_list,
        lambda kind: pa.list_(_stored_inner(kind.value_field), kind.list_size),
    ),
    (pa.types.is_map, _stored_map),
)


def _stored_inner(field: pa.Field) -> pa.Field:
    return field.with_type(_stored_type(field.type))


def set_default(field: pa.Field, text: str) -> pa.Field:
    """The field with that default, or with none; raises BadRequest.

    What is kept is DuckDB's own spelling of it: a client pastes it into statements of its own.
    """
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != DEFAULT}
    if text:
        metadata[DEFAULT] = duckdb_engine.default_expression(text, field).sql.encode()
    return field.with_metadata(metadata or None)
