"""Follows fields through changes of a schema, by their ids."""

from collections.abc import Sequence
from itertools import count

import msgspec

from jetbridge.backends.lake.types.iceberg_types import (
    IcebergField,
    IcebergType,
    ListType,
    MapType,
    StructType,
    children_of,
    fields_inside,
)
from jetbridge.dialects.quoting import identifier

# Iceberg reads the first type from old files as the second.
_WIDENS = {("int", "long"), ("float", "double")}


def reshape(value: str, stored: IcebergType, current: IcebergType) -> str:
    """Return SQL for a value whose inner fields were renamed, added or removed since.

    DuckDB casts structs by the names of their fields; here fields with the same id are the same.
    """
    if list(fields_inside(stored)) == list(fields_inside(current)):
        return value
    return _reshape(value, stored, current, count())


def _reshape(value: str, stored: IcebergType, current: IcebergType, numbers: "count[int]") -> str:
    match stored, current:
        case StructType(), StructType():
            fields = _struct(value, stored.fields, current.fields, numbers)
            return f"CASE WHEN {value} IS NOT NULL THEN {fields} END"
        case ListType(), ListType():
            item = f"e{next(numbers)}"
            element = _reshape(item, stored.element, current.element, numbers)
            return f"list_transform({value}, lambda {item}: {element})"
        case MapType(), MapType():
            return _map(value, stored, current, numbers)
    return value


def _map(value: str, stored: MapType, current: MapType, numbers: "count[int]") -> str:
    item = f"e{next(numbers)}"
    key = _reshape(f"{item}.key", stored.key, current.key, numbers)
    inner = _reshape(f"{item}.value", stored.value, current.value, numbers)
    entry = f"lambda {item}: struct_pack(key := {key}, value := {inner})"
    entries = f"list_transform(map_entries({value}), {entry})"
    return f"CASE WHEN {value} IS NOT NULL THEN map_from_entries({entries}) END"


def _struct(
    value: str,
    stored: Sequence[IcebergField],
    current: Sequence[IcebergField],
    numbers: "count[int]",
) -> str:
    before = {field.id: field for field in stored}
    parts = []
    for field in current:
        old, part = before.get(field.id), "NULL"
        if old is not None:
            inner = f"{value}.{identifier(old.name)}"
            part = _reshape(inner, old.type, field.type, numbers)
        parts.append(f"{identifier(field.name)} := {part}")
    return f"struct_pack({', '.join(parts)})"


def merge_types(old: IcebergType, new: IcebergType) -> IcebergType | None:
    """Return the new type with the ids of the old one, where fields have the same name.

    A field keeps its id for as long as it means the same. None if the files of the old type cannot
    be read as the new one.
    """
    match old, new:
        case str(), str():
            return new if _reads(old, new) else None
        case StructType(), StructType():
            return _merge_structs(old, new)
        case ListType(), ListType():
            return _merge_lists(old, new)
        case MapType(), MapType():
            return _merge_maps(old, new)
    return None


def _merge_lists(old: ListType, new: ListType) -> ListType | None:
    element = merge_types(old.element, new.element)
    if element is None:
        return None
    return ListType(old.element_id, element, new.element_required)


def _merge_maps(old: MapType, new: MapType) -> MapType | None:
    key, value = merge_types(old.key, new.key), merge_types(old.value, new.value)
    if key is None or value is None:
        return None
    return MapType(old.key_id, key, old.value_id, value, new.value_required)


def _merge_structs(old: StructType, new: StructType) -> StructType | None:
    before = {field.name: field for field in old.fields}
    fields: list[IcebergField] = []
    for field in new.fields:
        known = before.get(field.name)
        if known is None:
            fields.append(field)
            continue
        kind = merge_types(known.type, field.type)
        if kind is None:
            return None
        fields.append(msgspec.structs.replace(field, id=known.id, type=kind))
    return StructType(tuple(fields))


def _reads(old: str, new: str) -> bool:
    if old.replace(" ", "") == new.replace(" ", "") or (old, new) in _WIDENS:
        return True
    before, after = _digits(old), _digits(new)
    return bool(before and after and before[1] == after[1] and before[0] <= after[0])


def _digits(kind: str) -> tuple[int, int] | None:
    if not kind.startswith("decimal("):
        return None
    precision, _, scale = kind[len("decimal(") : -1].partition(",")
    return int(precision), int(scale)


def renames_inside(schemas: Sequence[Sequence[IcebergField]]) -> bool:
    """Return whether a field inside a column ever had another name."""
    names: dict[int, str] = {}
    for fields in schemas:
        for field in fields:
            for number, name in fields_inside(field.type):
                if names.setdefault(number, name) != name:
                    return True
    return False


def ids_below(field: IcebergField) -> set[int]:
    """Return the ids of a field and of all fields inside it."""
    return {field.id}.union(*(ids_below(child) for child in children_of(field.type)))
