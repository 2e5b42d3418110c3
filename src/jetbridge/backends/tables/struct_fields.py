"""ADD, DROP and RENAME of fields inside nested STRUCT columns, on types and on arrays."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.catalog.columns import default_of
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, NotFound

# Changes the fields of one STRUCT; `children` is None while only the type is asked for.
Fields = list[pa.Field]
Edit = Callable[[Fields], Fields]
Columns = Callable[[pa.StructArray, Fields], list[pa.Array]]

# What DuckDB calls the inside of a list and of a map in the path of ALTER TABLE.
_ELEMENT = "element"
_VALUE = "value"


def edited_type(kind: pa.DataType, path: tuple[str, ...], edit: Edit) -> pa.DataType:
    """The type with the STRUCT at the end of the path edited; raises NotFound, BadRequest."""
    if not path:
        if not pa.types.is_struct(kind):
            raise BadRequest(f"{kind} is no STRUCT, it has no fields")
        return pa.struct(edit([kind.field(i) for i in range(kind.num_fields)]))
    head, rest = path[0], path[1:]
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        index = field_index(fields, head)
        fields[index] = fields[index].with_type(edited_type(fields[index].type, rest, edit))
        return pa.struct(fields)
    if is_list(kind) and fold(head) == _ELEMENT:
        inner = kind.value_field
        return _list_of(kind, inner.with_type(edited_type(inner.type, rest, edit)))
    if pa.types.is_map(kind) and fold(head) == _VALUE:
        item = kind.item_field
        return pa.map_(kind.key_field, item.with_type(edited_type(item.type, rest, edit)))
    raise NotFound("field", head)


def is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _list_of(kind: Any, inner: pa.Field) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inner, kind.list_size)
    return pa.large_list(inner) if pa.types.is_large_list(kind) else pa.list_(inner)


def field_index(fields: Fields, name: str) -> int:
    for index, field in enumerate(fields):
        if fold(field.name) == fold(name):
            return index
    raise NotFound("field", name)


def edited_array(array: Any, wanted: Any, path: tuple[str, ...], columns: Columns) -> pa.Array:
    """The array for the edited type: `columns` gives the children of the STRUCT at the end."""
    nulls = array.is_null() if array.null_count else None
    if not path:
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        return pa.StructArray.from_arrays(columns(array, fields), fields=fields, mask=nulls)
    rest = path[1:]
    if pa.types.is_struct(wanted):
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        children = [array.field(i) for i in range(len(fields))]
        index = field_index(fields, path[0])
        children[index] = edited_array(children[index], fields[index].type, rest, columns)
        return pa.StructArray.from_arrays(children, fields=fields, mask=nulls)
    edited = _edited_map if pa.types.is_map(wanted) else _edited_list
    return edited(array, wanted, rest, columns, nulls)


def _edited_list(
    array: Any, wanted: Any, path: tuple[str, ...], columns: Columns, nulls: pa.Array | None
) -> pa.Array:
    if pa.types.is_fixed_size_list(wanted):
        size = wanted.list_size
        inner = array.values.slice(array.offset * size, len(array) * size)
        values = edited_array(inner, wanted.value_type, path, columns)
        return pa.FixedSizeListArray.from_arrays(values, type=wanted, mask=nulls)
    if array.offset:
        array = pa.concat_arrays([array, array.slice(0, 0)])
    values = edited_array(array.values, wanted.value_type, path, columns)
    kind = pa.LargeListArray if pa.types.is_large_list(wanted) else pa.ListArray
    return kind.from_arrays(array.offsets, values, type=wanted, mask=nulls)


def _edited_map(
    array: Any, wanted: Any, path: tuple[str, ...], columns: Columns, nulls: pa.Array | None
) -> pa.Array:
    if array.offset:
        array = pa.concat_arrays([array, array.slice(0, 0)])
    items = edited_array(array.items, wanted.item_type, path, columns)
    return pa.MapArray.from_arrays(array.offsets, array.keys, items, type=wanted, mask=nulls)


def adding(field: pa.Field) -> tuple[Edit, Columns]:
    def edit(fields: Fields) -> Fields:
        if any(fold(f.name) == fold(field.name) for f in fields):
            raise AlreadyExists("field", field.name)
        return [*fields, field]

    def columns(array: pa.StructArray, fields: Fields) -> list[pa.Array]:
        text = default_of(field)
        values = (
            pa.nulls(len(array), field.type)
            if text is None
            else duckdb_engine.default_values(text, field, len(array))
        )
        return [*(array.field(i) for i in range(len(fields) - 1)), values]

    return edit, columns


def removing(name: str) -> tuple[Edit, Columns]:
    def edit(fields: Fields) -> Fields:
        index = field_index(fields, name)
        if len(fields) == 1:
            raise FailedPrecondition(f"{name!r} is the last field of its STRUCT")
        return fields[:index] + fields[index + 1 :]

    def columns(array: pa.StructArray, fields: Fields) -> list[pa.Array]:
        kept = {field.name for field in fields}
        return [array.field(i) for i, f in enumerate(array.type) if f.name in kept]

    return edit, columns


def renaming(name: str, new_name: str) -> tuple[Edit, Columns]:
    def edit(fields: Fields) -> Fields:
        index = field_index(fields, name)
        others = fields[:index] + fields[index + 1 :]
        if any(fold(f.name) == fold(new_name) for f in others):
            raise AlreadyExists("field", new_name)
        return [f.with_name(new_name) if i == index else f for i, f in enumerate(fields)]

    def columns(array: pa.StructArray, fields: Fields) -> list[pa.Array]:
        return [array.field(i) for i in range(len(fields))]

    return edit, columns
