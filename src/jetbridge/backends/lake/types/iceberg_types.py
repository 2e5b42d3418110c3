"""Fields and types of an Iceberg schema, decoded from the JSON of a metadata file."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec


class IcebergField(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """Describe a column, or a field inside one."""

    id: int
    name: str
    required: bool
    type: "IcebergType"
    doc: str | None = None
    # A value in JSON. Old files have no such column: their rows have this value.
    initial_default: Any = None
    write_default: Any = None


class ListType(msgspec.Struct, frozen=True, rename="kebab", tag_field="type", tag="list"):
    """Describe a list."""

    element_id: int
    element: "IcebergType"
    element_required: bool


class MapType(msgspec.Struct, frozen=True, rename="kebab", tag_field="type", tag="map"):
    """Describe a map; its keys are never NULL."""

    key_id: int
    key: "IcebergType"
    value_id: int
    value: "IcebergType"
    value_required: bool


class StructType(msgspec.Struct, frozen=True, rename="kebab", tag_field="type", tag="struct"):
    """Describe a struct."""

    fields: tuple[IcebergField, ...]


NestedType = ListType | MapType | StructType
# A flat type has a name, such as `decimal(9,2)`.
IcebergType = str | ListType | MapType | StructType

_FIELDS = msgspec.json.Decoder(tuple[IcebergField, ...])


def children_of(kind: IcebergType) -> Sequence[IcebergField]:
    """Return the fields right inside a type; a list has `element`, a map `key` and `value`."""
    match kind:
        case ListType():
            return (IcebergField(kind.element_id, "element", kind.element_required, kind.element),)
        case MapType():
            key = IcebergField(kind.key_id, "key", True, kind.key)
            return (key, IcebergField(kind.value_id, "value", kind.value_required, kind.value))
        case StructType():
            return kind.fields
    return ()


def fields_inside(kind: IcebergType) -> Iterator[tuple[int, str]]:
    """Yield id and name of every named field inside a type, at any depth.

    The parts of lists and maps have no name of their own and are left out.
    """
    for field in children_of(kind):
        if isinstance(kind, StructType):
            yield field.id, field.name
        yield from fields_inside(field.type)


def contains_lists(kind: IcebergType) -> bool:
    """Return whether a type is a list or a map, or has one inside it."""
    if isinstance(kind, ListType | MapType):
        return True
    return any(contains_lists(field.type) for field in children_of(kind))


def signature(kind: IcebergType) -> str:
    """Return the type without names and ids, which another engine may change."""
    if isinstance(kind, str):
        return kind.replace(" ", "")
    inner = ",".join(signature(field.type) for field in children_of(kind))
    return f"{_tag(kind)}<{inner}>"


def _tag(kind: NestedType) -> str:
    return str(kind.__struct_config__.tag)


def type_label(kind: IcebergType) -> str:
    """Return how an error names a type: the name of a flat one, else `list`, `map` or `struct`."""
    return kind if isinstance(kind, str) else _tag(kind)


def decode_fields(text: bytes | str) -> tuple[IcebergField, ...]:
    """Decode a JSON array of fields; raises ValueError."""
    return _FIELDS.decode(text)


def to_json(fields: Iterable[IcebergField]) -> list[dict[str, Any]]:
    """Return fields as values that `json` can write."""
    return [msgspec.to_builtins(field) for field in fields]
