"""What a table may look like: columns, defaults, checks and keys of CREATE and ALTER TABLE."""

from collections.abc import Iterable

import pyarrow as pa

from jetbridge import embedded
from jetbridge.backends.memory.state import TableState
from jetbridge.catalog import ROWID, CreateTable, UniqueKey
from jetbridge.errors import BadRequest

DEFAULT = b"default"


def new_state(request: CreateTable) -> TableState:
    """Version 1 of a table; raises BadRequest for a column or constraint it cannot take."""
    if not request.name:
        raise BadRequest("a table needs a name")
    schema = checked_schema(stored_field(field) for field in request.schema)
    keys = tuple(checked_key(schema, key) for key in request.keys)
    if sum(key.primary for key in keys) > 1:
        raise BadRequest(f"table {request.name!r} can have one primary key only")
    for key in keys:
        schema = with_required_key(schema, key)
    for text in request.checks:
        embedded.check_expression(text, schema)
    return TableState(
        name=request.name,
        schema=schema,
        comment=request.comment,
        checks=tuple(request.checks),
        keys=keys,
    )


def checked_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    schema = pa.schema(list(fields))
    if not len(schema):
        raise BadRequest("a table needs at least one column")
    seen: set[str] = set()
    for name in schema.names:
        check_column_name(name)
        if name.lower() in seen:
            raise BadRequest(f"column {name!r} is there twice")
        seen.add(name.lower())
    return schema


def check_column_name(name: str) -> None:
    if not name:
        raise BadRequest("a column needs a name")
    if name.lower() == ROWID:
        raise BadRequest(f"{name!r} is the name of the row id, choose another")


def stored_field(field: pa.Field) -> pa.Field:
    """The field as it is kept: dictionaries by their values, with a default that works."""
    field = field.with_type(_stored_type(field.type))
    embedded.duckdb_type(field)
    text = default_of(field)
    if text is not None:
        embedded.default_expression(text, field)
    return field


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
    if pa.types.is_struct(kind):
        return pa.struct([_stored_inner(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_stored_inner(kind.value_field))
    return _STORED_AS.get(kind, kind)


def _stored_inner(field: pa.Field) -> pa.Field:
    return field.with_type(_stored_type(field.type))


def default_of(field: pa.Field) -> str | None:
    text = (field.metadata or {}).get(DEFAULT)
    try:
        return text.decode() if text else None
    except UnicodeDecodeError:
        raise BadRequest(f"the default of column {field.name!r} is no UTF-8") from None


def with_default(field: pa.Field, text: str) -> pa.Field:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != DEFAULT}
    if text:
        metadata[DEFAULT] = text.encode()
    return field.with_metadata(metadata or None)


def checked_key(schema: pa.Schema, key: UniqueKey) -> UniqueKey:
    """The key with the columns as the table spells them."""
    spelled = {name.lower(): name for name in schema.names}
    kind = "primary key" if key.primary else "unique key"
    if not key.columns:
        raise BadRequest(f"a {kind} needs at least one column")
    for name in key.columns:
        if name.lower() not in spelled:
            raise BadRequest(f"the {kind} names the unknown column {name!r}")
    columns = tuple(dict.fromkeys(spelled[name.lower()] for name in key.columns))
    if len(columns) != len(key.columns):
        raise BadRequest(f"the {kind} names a column twice")
    return UniqueKey(columns, key.primary)


def with_required_key(schema: pa.Schema, key: UniqueKey) -> pa.Schema:
    """A primary key makes its columns NOT NULL."""
    if not key.primary:
        return schema
    return pa.schema([f.with_nullable(False) if f.name in key.columns else f for f in schema])
