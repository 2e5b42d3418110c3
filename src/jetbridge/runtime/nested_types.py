"""Rebuilds nested Arrow types and arrays with other types inside of them."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

Convert = Callable[[pa.DataType], pa.DataType]


def with_inner_types(data_type: pa.DataType, convert: Convert) -> pa.DataType:
    """Return a nested type with its inner types converted; names and metadata stay."""
    for matches, rebuild in _REBUILDS:
        if matches(data_type):
            return rebuild(data_type, convert)
    raise pa.ArrowNotImplementedError(f"type {data_type} is not supported")


def _fields(data_type: Any, convert: Convert) -> list[pa.Field]:
    return [_inner(data_type.field(i), convert) for i in range(data_type.num_fields)]


def _inner(field: pa.Field, convert: Convert) -> pa.Field:
    return field.with_type(convert(field.type))


def _map(data_type: Any, convert: Convert) -> pa.DataType:
    key, item = _inner(data_type.key_field, convert), _inner(data_type.item_field, convert)
    return pa.map_(key, item, keys_sorted=data_type.keys_sorted)


_REBUILDS: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[Any, Convert], pa.DataType]], ...
] = (
    (pa.types.is_struct, lambda t, convert: pa.struct(_fields(t, convert))),
    (pa.types.is_map, _map),
    (pa.types.is_list, lambda t, convert: pa.list_(_inner(t.value_field, convert))),
    (pa.types.is_large_list, lambda t, convert: pa.large_list(_inner(t.value_field, convert))),
    (pa.types.is_list_view, lambda t, convert: pa.list_view(_inner(t.value_field, convert))),
    (
        pa.types.is_large_list_view,
        lambda t, convert: pa.large_list_view(_inner(t.value_field, convert)),
    ),
    (
        pa.types.is_fixed_size_list,
        lambda t, convert: pa.list_(_inner(t.value_field, convert), t.list_size),
    ),
    (
        pa.types.is_union,
        lambda t, convert: pa.union(_fields(t, convert), t.mode, t.type_codes),
    ),
)


def dictionary_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the dictionaries in a type, in the order of its fields."""
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    if pa.types.is_dictionary(data_type):
        yield data_type
        return
    for index in range(data_type.num_fields):
        yield from dictionary_types(data_type.field(index).type)


def index_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type with the indexes of each dictionary in its place."""
    if next(dictionary_types(data_type), None) is None:
        return data_type
    if isinstance(data_type, pa.BaseExtensionType):
        return index_type(data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return data_type.index_type
    return with_inner_types(data_type, index_type)


def attach_dictionaries(array: Any, data_type: Any, dictionaries: Iterator[pa.Array]) -> pa.Array:
    """Return an array of `index_type` with its dictionaries, in the order of the fields.

    The array has no offset. Raises `pa.ArrowException` for an index outside of its dictionary.
    """
    if next(dictionary_types(data_type), None) is None:
        return array
    if isinstance(data_type, pa.BaseExtensionType):
        storage = attach_dictionaries(array, data_type.storage_type, dictionaries)
        return data_type.wrap_array(storage)
    if pa.types.is_dictionary(data_type):
        return pa.DictionaryArray.from_arrays(array, next(dictionaries), ordered=data_type.ordered)
    children = [
        attach_dictionaries(child, data_type.field(i).type, dictionaries)
        for i, child in enumerate(_children(array))
    ]
    own = array.buffers()[: _own_buffers(data_type)]
    return pa.Array.from_buffers(data_type, len(array), own, children=children)


def _children(array: Any) -> list[pa.Array]:
    if pa.types.is_struct(array.type) or pa.types.is_union(array.type):
        return [array.field(i) for i in range(array.type.num_fields)]
    return [array.values]


def _own_buffers(data_type: Any) -> int:
    """Return how many buffers the array itself has, before those of its children."""
    if pa.types.is_struct(data_type) or pa.types.is_fixed_size_list(data_type):
        return 1
    if pa.types.is_union(data_type):
        return 3 if data_type.mode == "dense" else 2
    views = pa.types.is_list_view(data_type) or pa.types.is_large_list_view(data_type)
    return 3 if views else 2
