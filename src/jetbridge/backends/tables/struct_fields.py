"""Adds, drops and renames fields of nested STRUCT columns, in types and in arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.values import default_of
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, NotFound

Fields = list[pa.Field]

# DuckDB's names for the content of a list and of a map in the path of ALTER TABLE.
_ELEMENT = "element"
_VALUE = "value"


@dataclass(frozen=True)
class StructEdit:
    """Change one STRUCT: `fields` returns its new fields, `children` its new arrays."""

    fields: Callable[[Fields], Fields]
    children: Callable[[pa.StructArray, Fields], list[pa.Array]]


def edit_type(data_type: pa.DataType, path: tuple[str, ...], edit: StructEdit) -> pa.DataType:
    """Return the type with the STRUCT at the end of the path edited.

    Raise NotFound for a path that does not exist, and BadRequest if it does not end at a STRUCT.
    """
    if not path:
        if not pa.types.is_struct(data_type):
            raise BadRequest(f"{data_type} is not a STRUCT, so it has no fields")
        return pa.struct(edit.fields(_fields_of(data_type)))
    name, rest = path[0], path[1:]
    if pa.types.is_struct(data_type):
        fields = _fields_of(data_type)
        index = _field_index(fields, name)
        fields[index] = _edit_field(fields[index], rest, edit)
        return pa.struct(fields)
    if _is_list(data_type) and fold(name) == _ELEMENT:
        return _list_of(data_type, _edit_field(data_type.value_field, rest, edit))
    if pa.types.is_map(data_type) and fold(name) == _VALUE:
        return pa.map_(data_type.key_field, _edit_field(data_type.item_field, rest, edit))
    raise NotFound("field", name)


def _fields_of(struct: pa.DataType) -> Fields:
    return [struct.field(i) for i in range(struct.num_fields)]


def _edit_field(field: pa.Field, path: tuple[str, ...], edit: StructEdit) -> pa.Field:
    return field.with_type(edit_type(field.type, path, edit))


def _is_list(data_type: pa.DataType) -> bool:
    """Return whether values of the type are lists, of any size."""
    return bool(
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
    )


def _list_of(data_type: Any, element: pa.Field) -> pa.DataType:
    """Return a list type like `data_type`, with another element."""
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(element, data_type.list_size)
    return pa.large_list(element) if pa.types.is_large_list(data_type) else pa.list_(element)


def _field_index(fields: Fields, name: str) -> int:
    """Return the position of a field; raise NotFound."""
    for index, field in enumerate(fields):
        if fold(field.name) == fold(name):
            return index
    raise NotFound("field", name)


def edit_array(array: Any, new_type: Any, path: tuple[str, ...], edit: StructEdit) -> pa.Array:
    """Return the array with the edited type, as `edit_type` returns it."""
    nulls = array.is_null() if array.null_count else None
    if not path:
        fields = _fields_of(new_type)
        return pa.StructArray.from_arrays(edit.children(array, fields), fields=fields, mask=nulls)
    rest = path[1:]
    if pa.types.is_struct(new_type):
        fields = _fields_of(new_type)
        children = [array.field(i) for i in range(len(fields))]
        index = _field_index(fields, path[0])
        children[index] = edit_array(children[index], fields[index].type, rest, edit)
        return pa.StructArray.from_arrays(children, fields=fields, mask=nulls)
    edit_content = _edit_map if pa.types.is_map(new_type) else _edit_list
    return edit_content(array, new_type, rest, edit, nulls)


def _edit_list(
    array: Any, new_type: Any, path: tuple[str, ...], edit: StructEdit, nulls: pa.Array | None
) -> pa.Array:
    if pa.types.is_fixed_size_list(new_type):
        size = new_type.list_size
        elements = array.values.slice(array.offset * size, len(array) * size)
        values = edit_array(elements, new_type.value_type, path, edit)
        return pa.FixedSizeListArray.from_arrays(values, type=new_type, mask=nulls)
    array = _without_offset(array)
    values = edit_array(array.values, new_type.value_type, path, edit)
    list_class = pa.LargeListArray if pa.types.is_large_list(new_type) else pa.ListArray
    return list_class.from_arrays(array.offsets, values, type=new_type, mask=nulls)


def _edit_map(
    array: Any, new_type: Any, path: tuple[str, ...], edit: StructEdit, nulls: pa.Array | None
) -> pa.Array:
    array = _without_offset(array)
    items = edit_array(array.items, new_type.item_type, path, edit)
    return pa.MapArray.from_arrays(array.offsets, array.keys, items, type=new_type, mask=nulls)


def _without_offset(array: Any) -> Any:
    """Return a copy of a slice: `from_arrays` does not support a mask with offsets of a slice."""
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array


def add_field(field: pa.Field) -> StructEdit:
    """Add a field at the end, with its default in all rows; the edit may raise AlreadyExists."""

    def fields(existing: Fields) -> Fields:
        if any(fold(f.name) == fold(field.name) for f in existing):
            raise AlreadyExists("field", field.name)
        return [*existing, field]

    def children(array: pa.StructArray, fields: Fields) -> list[pa.Array]:
        text = default_of(field)
        values = (
            pa.nulls(len(array), field.type)
            if text is None
            else duckdb_engine.default_values(text, field, len(array))
        )
        return [*(array.field(i) for i in range(len(fields) - 1)), values]

    return StructEdit(fields, children)


def remove_field(name: str) -> StructEdit:
    """Remove a field; the edit raises FailedPrecondition for the last one of a STRUCT."""

    def fields(existing: Fields) -> Fields:
        index = _field_index(existing, name)
        if len(existing) == 1:
            raise FailedPrecondition(
                f"field {name!r} cannot be dropped: it is the last field of its STRUCT"
            )
        return existing[:index] + existing[index + 1 :]

    def children(array: pa.StructArray, fields: Fields) -> list[pa.Array]:
        names = {field.name for field in fields}
        return [array.field(i) for i, field in enumerate(array.type) if field.name in names]

    return StructEdit(fields, children)


def rename_field(name: str, new_name: str) -> StructEdit:
    """Rename a field; the edit may raise AlreadyExists."""

    def fields(existing: Fields) -> Fields:
        index = _field_index(existing, name)
        others = existing[:index] + existing[index + 1 :]
        if any(fold(f.name) == fold(new_name) for f in others):
            raise AlreadyExists("field", new_name)
        return [f.with_name(new_name) if i == index else f for i, f in enumerate(existing)]

    def children(array: pa.StructArray, fields: Fields) -> list[pa.Array]:
        return [array.field(i) for i in range(len(fields))]

    return StructEdit(fields, children)
