"""Converts nested Arrow arrays from one layout to another; the caller converts the flat ones.

Fields match by position, because their names may differ. Values beneath a NULL are dropped: Arrow
allows anything there.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.lake.types.nested_types import bare, children, shape_of

# Converts an array from the first field to the second; raises `pa.ArrowException`, BadRequest.
Leaf = Callable[[pa.Array, pa.Field, pa.Field], pa.Array]


def turned(array: Any, source: pa.Field, target: pa.Field, leaf: Leaf) -> pa.Array:
    """Return values with the type of `target`; raises what `leaf` raises, and `pa.ArrowInvalid`."""
    if bare(array.type) is not array.type:
        array = array.storage
    plain = bare(target.type)
    if plain is not target.type:
        return target.type.wrap_array(turned(array, source, target.with_type(plain), leaf))
    step = _STEPS.get((shape_of(array.type), shape_of(plain)))
    return leaf(array, source, target) if step is None else step(array, source, target, leaf)


def _list(array: Any, source: pa.Field, target: pa.Field, leaf: Leaf) -> pa.Array:
    (inner,), (after,) = children(source.type), children(target.type)
    lengths = pc.list_value_length(array).fill_null(0).cast(pa.int64()).to_numpy()
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    nulls, values = _nulls(array), _flattened(array)
    if pa.types.is_fixed_size_list(target.type):
        values = _padded(values, ends, target.type.list_size, nulls)
    return _as_list(target.type, ends, turned(values, inner, after, leaf), nulls)


def _as_list(kind: Any, ends: Any, values: pa.Array, nulls: pa.Array | None) -> pa.Array:
    """Return lists of any kind; `ends` begins with 0."""
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=nulls)
    large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    offsets = pa.array(ends, pa.int64() if large else pa.int32())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        build = pa.LargeListArray if large else pa.ListArray
        return build.from_arrays(offsets, values, type=kind, mask=nulls)
    build = pa.LargeListViewArray if large else pa.ListViewArray
    sizes = pa.array(np.diff(ends), offsets.type)
    return build.from_arrays(offsets[:-1], sizes, values, type=kind, mask=nulls)


def _padded(values: pa.Array, ends: Any, size: int, nulls: pa.Array | None) -> pa.Array:
    """Return the elements of lists of one size, with NULL for the elements of a NULL list."""
    missing = np.zeros(len(ends) - 1, dtype=bool) if nulls is None else np.asarray(nulls)
    if (np.diff(ends)[~missing] != size).any():
        raise pa.ArrowInvalid(f"a list does not have {size} elements")
    if nulls is None:
        return values
    positions, hidden = (ends[:-1, None] + np.arange(size)).ravel(), np.repeat(missing, size)
    return values.take(pa.array(np.where(hidden, 0, positions), mask=hidden))


def _struct(array: Any, source: pa.Field, target: pa.Field, leaf: Leaf) -> pa.Array:
    inner, after = children(source.type), children(target.type)
    if len(inner) != len(after):
        raise pa.ArrowInvalid(f"{array.type} does not have the fields of {target.type}")
    nulls = _nulls(array)
    arrays = [
        turned(values, one, other, leaf)
        for values, one, other in zip(inside(array), inner, after, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(target.type), mask=nulls)


def _map(array: Any, source: pa.Field, target: pa.Field, leaf: Leaf) -> pa.Array:
    lengths = pc.list_value_length(_entries(array)).fill_null(0).to_numpy()
    ends = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(lengths, dtype=np.int32)])
    keys, items = (
        turned(values, one, other, leaf)
        for values, one, other in zip(
            inside(array), children(source.type), children(target.type), strict=True
        )
    )
    offsets = pa.array(ends, pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, items, type=target.type, mask=_nulls(array))


def _entries(array: Any) -> Any:
    return array.cast(pa.list_(pa.struct(children(array.type))))


def _flattened(array: Any) -> Any:
    """Return the elements; if all lists are NULL, Arrow has no empty array of an extension type."""
    return array.values.slice(0, 0) if array.null_count == len(array) else array.flatten()


def inside(array: Any) -> list[pa.Array]:
    """Return the values in a list, a struct or a map, without those beneath a NULL."""
    shape = shape_of(array.type)
    if shape == "list":
        return [_flattened(array)]
    if shape == "map":
        entries = _flattened(_entries(array))
        return [entries.field(0), entries.field(1)]
    nulls = _nulls(array)
    return [_hidden(array.field(i), nulls) for i in range(array.type.num_fields)]


def _union(array: Any, source: pa.Field, target: pa.Field, leaf: Leaf) -> pa.Array:
    numbers, members = _members(array)
    arrays = [
        turned(member, one, other, leaf)
        for member, one, other in zip(
            members, children(source.type), children(target.type), strict=True
        )
    ]
    codes = np.asarray(target.type.type_codes, dtype=np.int8)[numbers]
    buffers = [None, pa.py_buffer(codes)]
    return pa.Array.from_buffers(target.type, len(array), buffers, children=arrays)


def _tagged(array: Any, source: pa.Field, target: pa.Field, leaf: Leaf) -> pa.Array:
    """Return a union as a struct: the name of the member, then each member."""
    numbers, members = _members(array)
    inner, (tag, *after) = children(source.type), children(target.type)
    arrays, missing = [], np.zeros(len(array), dtype=bool)
    for number, member in enumerate(members):
        own = numbers == number
        values = _hidden(member, pa.array(~own))
        missing |= own & np.asarray(values.is_null())
        arrays.append(turned(values, inner[number], after[number], leaf))
    names = pa.array([field.name for field in inner], tag.type)
    tags = names.take(pa.array(numbers, mask=missing))
    mask = pa.array(missing) if missing.any() else None
    return pa.StructArray.from_arrays([tags, *arrays], fields=list(target.type), mask=mask)


def _members(array: Any) -> tuple[Any, list[pa.Array]]:
    """Return the number of the member of each row, and the members in full length."""
    if array.offset:  # which `type_codes` would pass over
        array = pa.concat_arrays([array, array.slice(0, 0)])
    numbers = np.zeros(128, dtype=np.int64)
    numbers[list(array.type.type_codes)] = np.arange(array.type.num_fields)
    codes = array.type_codes.to_numpy(zero_copy_only=False)
    return numbers[codes], [array.field(i) for i in range(array.type.num_fields)]


def _hidden(array: Any, nulls: pa.Array | None) -> pa.Array:
    """Return the array with NULL in those rows."""
    if nulls is None:
        return array
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_union(array.type):  # pyarrow ends the process if one is to get a bitmap
        return array.take(pa.array(np.arange(len(array)), mask=np.asarray(nulls)))
    field = pa.field("", array.type)
    return pa.StructArray.from_arrays([array], fields=[field], mask=nulls).flatten()[0]


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


_STEPS: dict[tuple[str, str], Callable[[Any, pa.Field, pa.Field, Leaf], pa.Array]] = {
    ("list", "list"): _list,
    ("struct", "struct"): _struct,
    ("map", "map"): _map,
    ("union", "union"): _union,
    ("union", "struct"): _tagged,
}
