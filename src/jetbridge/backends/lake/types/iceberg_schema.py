"""How a column of any DuckDB type is kept in an Iceberg table, and known again.

Iceberg has a type for some of DuckDB's; the table in `table.py` says what the others are kept as,
so that Spark, PyIceberg and DuckDB's `iceberg_scan` all read them, and the note of the column says
what they were. A note belongs to the storage type it was made for: if another engine changes that,
the note is ignored, and the column is what Iceberg says it is.
"""

import base64
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from jetbridge.backends.lake.types.nested_types import (
    bare,
    children,
    rebuilt,
    shape_of,
    speakable,
    stored_names,
)
from jetbridge.backends.lake.types.storage_types import kept, type_name
from jetbridge.errors import BadRequest, NotSupported

# The type of a field in a metadata file: a name, or an object for a list, struct or map.
Iceberg = Any
ColumnTypeNote = dict[str, str]

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


def iceberg_type(field: pa.Field, next_id: Callable[[], int]) -> Iceberg:
    """The type for a schema of Iceberg; raises BadRequest for a column that cannot be kept.

    Fields inside it are optional whatever Arrow says, because DuckDB does not hold anyone to it.
    """
    type_name(field)  # names the column if DuckDB does not know its type
    return _iceberg(field, next_id)


def _iceberg(field: pa.Field, next_id: Callable[[], int]) -> Iceberg:
    shape = shape_of(field.type)
    inner = [child.with_name(field.name) for child in children(field.type)]
    match shape:
        case "list":
            if getattr(bare(field.type), "list_size", 1) == 0:
                raise BadRequest(f"column {field.name!r}: an ARRAY has at least one element")
            return {
                "type": "list",
                "element-id": next_id(),
                "element": _iceberg(inner[0], next_id),
                "element-required": False,
            }
        case "map":
            return {
                "type": "map",
                "key-id": next_id(),
                "key": _iceberg(inner[0], next_id),
                "value-id": next_id(),
                "value": _iceberg(inner[1], next_id),
                "value-required": False,
            }
        case "struct" | "union":
            types = ["string"] if shape == "union" else []
            types += [_iceberg(child, next_id) for child in inner]
            return {
                "type": "struct",
                "fields": [
                    {"id": next_id(), "name": name, "required": False, "type": kind}
                    for name, kind in zip(_stored_names(field), types, strict=True)
                ],
            }
    return kept(field)[1].iceberg


def _stored_names(field: pa.Field) -> list[str]:
    names = [child.name for child in children(field.type)]
    if any("\0" in name for name in names):
        raise BadRequest(f"column {field.name!r}: the name of a field contains a NUL character")
    if shape_of(field.type) == "union" and not speakable(field.type):
        raise BadRequest(f"column {field.name!r}: a UNION has a name that is empty or there twice")
    return stored_names([TAG, *names] if shape_of(field.type) == "union" else names)


def signature(iceberg: Iceberg) -> str:
    """The type without names and ids, which another engine may change without changing values."""
    if isinstance(iceberg, str):
        return iceberg.replace(" ", "")
    return f"{iceberg['type']}<{','.join(signature(each) for _, _, each, _ in parts(iceberg))}>"


def parts(iceberg: Iceberg) -> list[tuple[str, int, Iceberg, bool]]:
    """Name, id, type and requirement of what is inside a nested type."""
    match iceberg["type"]:
        case "list":
            number, required = iceberg["element-id"], iceberg["element-required"]
            return [("element", number, iceberg["element"], required)]
        case "map":
            value = (iceberg["value-id"], iceberg["value"], iceberg["value-required"])
            return [("key", iceberg["key-id"], iceberg["key"], True), ("value", *value)]
    return [(f["name"], f["id"], f["type"], f["required"]) for f in iceberg["fields"]]


def note(field: pa.Field, iceberg: Iceberg) -> ColumnTypeNote | None:
    """What has to be recorded for `arrow_field` to give the field back; None: nothing."""
    metadata = {k: v for k, v in (field.metadata or {}).items() if k.startswith(_EXTENSION)}
    field = field.with_metadata(metadata or None)
    plain = arrow_field(field.name, iceberg, required=not field.nullable)
    if plain.equals(field, check_metadata=True):
        return None
    field = pa.field("", field.type, metadata=field.metadata)
    return {
        "storage": signature(iceberg),
        "duckdb": type_name(field),  # for people; nobody reads it
        "arrow": base64.b64encode(pa.schema([field]).serialize().to_pybytes()).decode(),
    }


def arrow_field(
    name: str,
    iceberg: Iceberg,
    *,
    required: bool = False,
    doc: str | None = None,
    notes: Sequence[ColumnTypeNote] = (),
) -> pa.Field:
    """The column as it was declared, by the first note that fits its type in Iceberg.

    Raises NotSupported for types of other engines that cannot be read.
    """
    logical = next(filter(None, (_noted(iceberg, each) for each in notes)), None)
    kind = _plain(name, iceberg) if logical is None else logical.type
    metadata = dict(logical.metadata or {}) if logical is not None else {}
    if doc:
        metadata[_COMMENT] = doc.encode()
    return pa.field(name, kind, nullable=not required, metadata=metadata or None)


def _noted(iceberg: Iceberg, note: ColumnTypeNote) -> pa.Field | None:
    storage = signature(iceberg)
    try:
        if note["storage"] != storage:
            return None
        field, made = _read_note(note["arrow"])
    except (pa.ArrowException, BadRequest, ValueError, TypeError, KeyError, OSError):
        return None  # another program has written it
    if made != storage:
        return None
    return field.with_type(_renamed(field.type, iceberg))


@lru_cache(maxsize=4096)
def _read_note(arrow: str) -> tuple[pa.Field, str]:
    """The field, and the signature of what it would be kept as today."""
    field = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(arrow, validate=True))).field(0)
    return field, signature(iceberg_type(field, int))


def _renamed(kind: pa.DataType, iceberg: Iceberg) -> pa.DataType:
    """The type with the names that another engine has given to fields of structs since."""
    if isinstance(iceberg, str):
        return kind
    shape, inner = shape_of(kind), children(kind)
    stored = [(name, each) for name, _, each, _ in parts(iceberg)]
    stored = stored[1:] if shape == "union" else stored
    types = [_renamed(f.type, each) for f, (_, each) in zip(inner, stored, strict=True)]
    names = [field.name for field in inner]
    if shape == "struct":
        before = stored_names(names)
        now = [name for name, _ in stored]
        names = [
            own if was == name else name for own, was, name in zip(names, before, now, strict=True)
        ]
    fields = [f.with_name(n).with_type(t) for f, n, t in zip(inner, names, types, strict=True)]
    return kind if fields == inner else rebuilt(kind, fields)


def _plain(column: str, iceberg: Iceberg) -> pa.DataType:
    """The Arrow type of a column that nobody has made a note of."""
    if isinstance(iceberg, str):
        return _primitive(column, iceberg)
    inner = [
        pa.field(name, _plain(column, each), nullable=not required)
        for name, _, each, required in parts(iceberg)
    ]
    match iceberg["type"]:
        case "list":  # DuckDB's own name for it in Arrow
            return pa.list_(inner[0].with_name("l"))
        case "map":
            return pa.map_(inner[0], inner[1])
    if not inner:
        raise NotSupported(f"column {column!r} has a struct without fields, which is not supported")
    return pa.struct(inner)


def _primitive(column: str, iceberg: str) -> pa.DataType:
    found = _ARROW.get(iceberg)
    if found is not None:
        return found
    decimal = _DECIMAL.fullmatch(iceberg)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    fixed = _FIXED.fullmatch(iceberg)
    if fixed is not None:
        return pa.binary(int(fixed[1]))
    # DuckDB 1.5 cannot read a table with timestamptz_ns, geography or unknown at all, and Arrow
    # has no VARIANT.
    raise NotSupported(f"column {column!r} has Iceberg's type {iceberg}, which is not supported")


def storage_field(name: str, field_id: int, iceberg: Iceberg, required: bool) -> pa.Field:
    """The column of a data file, with the field ids of all levels.

    Inside it everything may be NULL: a field is that beneath a NULL, even if it is required.
    """
    if isinstance(iceberg, str):
        kind = _primitive(name, iceberg)
    else:
        inner = [storage_field(*each[:3], required=False) for each in parts(iceberg)]
        match iceberg["type"]:
            case "list":
                kind = pa.list_(inner[0])
            case "map":
                kind = pa.map_(inner[0].with_nullable(False), inner[1])
            case _:
                kind = pa.struct(inner)
    return pa.field(name, kind, nullable=not required, metadata={FIELD_ID: str(field_id)})
