"""Maps a column of any DuckDB type to an Iceberg type, and back.

Iceberg has a type for some of DuckDB's types; the table in `storage_types` gives the storage type
of the others, so that Spark, PyIceberg and DuckDB's `iceberg_scan` all read them. A note of the
column holds its declared type. A note belongs to the storage type it was made for: if another
engine changes that, the note is ignored, and the column has the type of Iceberg.
"""

import base64
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from jetbridge.backends.lake.types.iceberg_types import (
    IcebergField,
    IcebergType,
    ListType,
    MapType,
    StructType,
    children_of,
    signature,
)
from jetbridge.backends.lake.types.nested_types import (
    bare,
    children,
    rebuilt,
    shape_of,
    speakable,
    stored_names,
)
from jetbridge.backends.lake.types.storage_types import kept, type_name
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import BadRequest, NotSupported

FIELD_ID = "PARQUET:field_id"
_EXTENSION = b"ARROW:extension:"
_COMMENT = b"comment"
TAG = "tag"


# Iceberg's own types as Arrow; `decimal` and `fixed` are below.
_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "uuid": pa.uuid(),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")


class ColumnTypeNote(msgspec.Struct, frozen=True):
    """Record the type that a column was declared with.

    `storage` is the signature of the type it was made for, `duckdb` is for people, and `arrow` is
    a schema of one field.
    """

    # Another program may have written anything here.
    storage: Any = ""
    duckdb: Any = ""
    arrow: Any = ""


def iceberg_type(field: pa.Field, next_id: Callable[[], int]) -> IcebergType:
    """Return the type for a schema of Iceberg; raises BadRequest for a column that has none.

    Fields inside it are optional whatever Arrow says, because DuckDB does not enforce it.
    """
    type_name(field)  # raises BadRequest for a type that DuckDB does not have
    return _iceberg(field, next_id)


def _iceberg(field: pa.Field, next_id: Callable[[], int]) -> IcebergType:
    shape = shape_of(field.type)
    inner = [child.with_name(field.name) for child in children(field.type)]
    match shape:
        case "list":
            if getattr(bare(field.type), "list_size", 1) == 0:
                raise BadRequest(f"column {field.name!r}: an ARRAY has at least one element")
            return ListType(next_id(), _iceberg(inner[0], next_id), element_required=False)
        case "map":
            key_id, key = next_id(), _iceberg(inner[0], next_id)
            return MapType(
                key_id, key, next_id(), _iceberg(inner[1], next_id), value_required=False
            )
        case "struct" | "union":
            types: list[IcebergType] = ["string"] if shape == "union" else []
            types += [_iceberg(child, next_id) for child in inner]
            return StructType(
                tuple(
                    IcebergField(next_id(), name, required=False, type=kind)
                    for name, kind in zip(_stored_names(field), types, strict=True)
                )
            )
    return kept(field)[1].iceberg


def _stored_names(field: pa.Field) -> list[str]:
    names = [child.name for child in children(field.type)]
    if any("\0" in name for name in names):
        raise BadRequest(f"column {field.name!r}: the name of a field contains a NUL character")
    if shape_of(field.type) == "union" and not speakable(field.type):
        raise BadRequest(f"column {field.name!r}: a UNION has a name that is empty or not unique")
    return stored_names([TAG, *names] if shape_of(field.type) == "union" else names)


def note(field: pa.Field, kind: IcebergType) -> ColumnTypeNote | None:
    """Return what `arrow_field` needs to restore the field; None if it needs nothing."""
    metadata = {k: v for k, v in (field.metadata or {}).items() if k.startswith(_EXTENSION)}
    field = field.with_metadata(metadata or None)
    plain = arrow_field(field.name, kind, required=not field.nullable)
    if plain.equals(field, check_metadata=True):
        return None
    field = pa.field("", field.type, metadata=field.metadata)
    arrow = base64.b64encode(pa.schema([field]).serialize().to_pybytes()).decode()
    return ColumnTypeNote(signature(kind), type_name(field), arrow)


def arrow_field(
    name: str,
    kind: IcebergType,
    *,
    required: bool = False,
    doc: str | None = None,
    notes: Sequence[ColumnTypeNote] = (),
) -> pa.Field:
    """Return the column as it was declared, by the first note that fits its type in Iceberg.

    Raises NotSupported for types of other engines that cannot be read.
    """
    logical = next(filter(None, (_noted(kind, note) for note in notes)), None)
    data_type = _plain(name, kind) if logical is None else logical.type
    metadata = dict(logical.metadata or {}) if logical is not None else {}
    if doc:
        metadata[_COMMENT] = doc.encode()
    return pa.field(name, data_type, nullable=not required, metadata=metadata or None)


def _noted(kind: IcebergType, note: ColumnTypeNote) -> pa.Field | None:
    """Return the field of a note; None if it is about another type, or cannot be read."""
    storage = signature(kind)
    if note.storage != storage:
        return None
    try:
        field, current_storage = _read_note(note.arrow)
    except (pa.ArrowException, BadRequest, ValueError, TypeError, OSError):
        return None  # another program wrote it
    if current_storage != storage:
        return None
    return field.with_type(_renamed(field.type, kind))


@lru_cache(maxsize=4096)
def _read_note(arrow: str) -> tuple[pa.Field, str]:
    """Return the field, and the signature of the type that would store it today."""
    field = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(arrow, validate=True))).field(0)
    return field, signature(iceberg_type(field, int))


def _renamed(data_type: pa.DataType, kind: IcebergType) -> pa.DataType:
    """Return the type with the names that another engine gave to fields of structs since."""
    if isinstance(kind, str):
        return data_type
    shape, inner = shape_of(data_type), children(data_type)
    stored = children_of(kind)
    stored = stored[1:] if shape == "union" else stored
    types = [_renamed(f.type, other.type) for f, other in zip(inner, stored, strict=True)]
    names = [field.name for field in inner]
    if shape == "struct":
        before = stored_names(names)
        after = [field.name for field in stored]
        names = [
            own if was == name else name
            for own, was, name in zip(names, before, after, strict=True)
        ]
    fields = [f.with_name(n).with_type(t) for f, n, t in zip(inner, names, types, strict=True)]
    return data_type if fields == inner else rebuilt(data_type, fields)


def _plain(column: str, kind: IcebergType) -> pa.DataType:
    """Return the Arrow type of a column without a note."""
    if isinstance(kind, str):
        return _primitive(column, kind)
    inner = [
        pa.field(field.name, _plain(column, field.type), nullable=not field.required)
        for field in children_of(kind)
    ]
    match kind:
        case ListType():  # DuckDB's own name for it in Arrow
            return pa.list_(inner[0].with_name("l"))
        case MapType():
            return pa.map_(inner[0], inner[1])
    if not inner:
        raise NotSupported(f"column {column!r} has a struct without fields, which is not supported")
    return pa.struct(inner)


def _primitive(column: str, kind: str) -> pa.DataType:
    data_type = _ARROW.get(kind)
    if data_type is not None:
        return data_type
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    fixed = _FIXED.fullmatch(kind)
    if fixed is not None:
        return pa.binary(int(fixed[1]))
    # DuckDB 1.5 cannot read a table with timestamptz_ns, geography or unknown at all, and Arrow
    # has no VARIANT.
    raise NotSupported(f"column {column!r} has Iceberg's type {kind}, which is not supported")


def storage_field(field: IcebergField) -> pa.Field:
    """Return the column of a data file, with the field ids of all levels.

    Inside it everything may be NULL: a field is NULL beneath a NULL, even if it is required.
    """
    return _storage_field(field, required=field.required)


def _storage_field(field: IcebergField, *, required: bool) -> pa.Field:
    metadata = {FIELD_ID: str(field.id)}
    data_type = _storage_type(field.name, field.type)
    return pa.field(field.name, data_type, nullable=not required, metadata=metadata)


def _storage_type(name: str, kind: IcebergType) -> pa.DataType:
    if isinstance(kind, str):
        return _primitive(name, kind)
    inner = [_storage_field(field, required=False) for field in children_of(kind)]
    match kind:
        case ListType():
            return pa.list_(inner[0])
        case MapType():
            return pa.map_(inner[0].with_nullable(False), inner[1])
    return pa.struct(inner)


def _lineage_column(name: str, field_id: int) -> pa.Field:
    return pa.field(name, pa.int64(), metadata={FIELD_ID: str(field_id)})


# Columns of files whose rows are not new: the id of a row, and the sequence number of the snapshot
# that changed it last.
ROW_ID_COLUMN = _lineage_column(queries.ROW_ID, queries.ROW_ID_FIELD)
UPDATED_COLUMN = _lineage_column(queries.UPDATED, queries.UPDATED_FIELD)
