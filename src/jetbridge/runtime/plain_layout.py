"""Writes Arrow arrays out in their plain layout: without dictionaries, runs and views.

DuckDB 1.5.5 reads outside of its buffers, or wrong values, for many of the other layouts: list
views that overlap or leave gaps, dictionaries in lists, runs in arrays. Only what `is_plain`
accepts may reach it.

Every layout is read by positions: the rows that are needed of an array become the rows that are
needed of its children. So nothing is copied that no row refers to.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.runtime.nested_types import dictionary_types, with_inner_types

# Positions in an array; -1 stands for NULL.
Rows = npt.NDArray[np.int64]
_Test = Callable[[Any], bool]
_NULL = -1
_VIEW_BYTES = 16

_FLAT: tuple[_Test, ...] = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_temporal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)
_NESTED: tuple[_Test, ...] = (
    pa.types.is_struct,
    pa.types.is_map,
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_union,
)


@lru_cache(maxsize=1024)
def is_plain(data_type: pa.DataType) -> bool:
    """Return whether the type is known to have the plain layout, with all types inside of it."""
    if _is_extension(data_type):
        return is_plain(data_type.storage_type)
    if any(test(data_type) for test in _NESTED):
        return all(is_plain(data_type.field(i).type) for i in range(data_type.num_fields))
    return any(test(data_type) for test in _FLAT)


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type that `write_plain` gives to arrays of a type."""
    if is_plain(data_type):
        return data_type
    if _is_extension(data_type):
        return _plain_extension(data_type)
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    for matches, rebuild in _STORED_AS:
        if matches(data_type):
            return rebuild(data_type)
    return with_inner_types(data_type, plain_type)


_STORED_AS: tuple[tuple[_Test, Callable[[Any], pa.DataType]], ...] = (
    (pa.types.is_string_view, lambda t: pa.string()),
    (pa.types.is_binary_view, lambda t: pa.binary()),
    (pa.types.is_list_view, lambda t: plain_type(pa.list_(t.value_field))),
    (pa.types.is_large_list_view, lambda t: plain_type(pa.large_list(t.value_field))),
)


def _plain_extension(data_type: Any) -> pa.DataType:
    storage = plain_type(data_type.storage_type)
    if isinstance(data_type, pa.JsonType):
        return pa.json_(storage)
    if isinstance(data_type, pa.OpaqueType):
        return pa.opaque(storage, data_type.type_name, data_type.vendor_name)
    return storage


def with_plain_dictionaries(data_type: pa.DataType) -> pa.DataType:
    """Return the type with plain values in its dictionaries."""
    if pa.types.is_dictionary(data_type):
        values = plain_type(data_type.value_type)
        return pa.dictionary(data_type.index_type, values, data_type.ordered)
    if next(dictionary_types(data_type), None) is None or _is_extension(data_type):
        return data_type
    return with_inner_types(data_type, with_plain_dictionaries)


def _is_extension(data_type: pa.DataType) -> bool:
    return isinstance(data_type, pa.BaseExtensionType)


def is_plain_schema(schema: pa.Schema) -> bool:
    """Return whether all types of a schema are plain."""
    return all(map(is_plain, schema.types))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the plain types. A plain schema is returned as it is."""
    if is_plain_schema(schema):
        return schema
    return pa.schema([f.with_type(plain_type(f.type)) for f in schema], schema.metadata)


def write_plain(array: pa.Array) -> pa.Array:
    """Return the same values in the plain layout; a plain array as it is.

    The array must be valid, and `plain_bytes` of it within the limits.
    """
    if is_plain(array.type):
        return array
    return _take(array, np.arange(len(array), dtype=np.int64))


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the same rows in the plain layout; `schema` is the plain schema of the batch."""
    if is_plain_schema(batch.schema):
        return batch
    columns = [write_plain(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_rows(data: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """Return the same rows as DuckDB reads them: in the plain layout, without nested slices.

    Of a slice of a nested array, DuckDB 1.5.5 reads wrong rows of the children.
    """
    types = data.schema.types
    if all(map(is_plain, types)) and not any(map(_is_nested, types)):
        return data
    schema = plain_schema(data.schema)
    if isinstance(data, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(schema, (_whole(b, schema) for b in data))
    columns = [
        pa.chunked_array(map(_whole_array, column.chunks), field.type)
        for column, field in zip(data.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _whole(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(map(_whole_array, batch.columns)), schema=schema)


def _whole_array(array: pa.Array) -> pa.Array:
    if not is_plain(array.type):
        return write_plain(array)
    return pa.concat_arrays([array, array.slice(0, 0)]) if _is_nested(array.type) else array


def _is_nested(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_nested(data_type))


def _take(array: Any, rows: Rows) -> pa.Array:
    """Return the rows of an array in the plain layout."""
    data_type = array.type
    if is_plain(data_type):
        missing = rows == _NULL
        return array.take(pa.array(rows, mask=missing if missing.any() else None))
    if isinstance(array, pa.ExtensionArray):
        return _take_extension(array, rows)
    for matches, take in _TAKES:
        if matches(data_type):
            return take(array, rows)
    raise pa.ArrowNotImplementedError(f"type {data_type} is not supported")


def _take_extension(array: Any, rows: Rows) -> pa.Array:
    storage, data_type = _take(array.storage, rows), plain_type(array.type)
    return data_type.wrap_array(storage) if _is_extension(data_type) else storage


def _take_views(array: Any, rows: Rows) -> pa.Array:
    """Take texts and bytes by copying their views: Arrow has no `take` for them."""
    valid = _is_valid(array, rows)
    views = np.zeros((len(rows), _VIEW_BYTES), dtype=np.uint8)
    if valid.any():
        whole = np.frombuffer(array.buffers()[1], dtype=np.uint8)
        whole = whole[: len(whole) // _VIEW_BYTES * _VIEW_BYTES].reshape(-1, _VIEW_BYTES)
        views[valid] = whole[rows[valid] + array.offset]
    buffers = [pa.array(valid).buffers()[1], pa.py_buffer(views), *array.buffers()[2:]]
    return pa.Array.from_buffers(array.type, len(rows), buffers).cast(plain_type(array.type))


def _take_dictionary(array: Any, rows: Rows) -> pa.Array:
    indices = array.indices.fill_null(0).cast(pa.int64()).to_numpy()
    return _take(array.dictionary, _where_valid(array, rows, indices))


def _take_runs(array: Any, rows: Rows) -> pa.Array:
    ends = array.run_ends.to_numpy()
    runs = np.searchsorted(ends, rows + array.offset, side="right")
    return _take(array.values, np.where(rows == _NULL, _NULL, runs))


def _take_struct(array: Any, rows: Rows) -> pa.Array:
    children = [_take(array.field(i), rows) for i in range(array.type.num_fields)]
    return _rebuilt(array, rows, [], children)


def _take_array(array: Any, rows: Rows) -> pa.Array:
    size = int(array.type.list_size)
    starts = (np.where(rows == _NULL, 0, rows) + array.offset) * size
    elements = _ranges(starts, np.full(len(rows), size, dtype=np.int64))
    elements[np.repeat(rows == _NULL, size)] = _NULL
    return _rebuilt(array, rows, [], [_take(array.values, elements)])


def _take_lists(array: Any, rows: Rows) -> pa.Array:
    """Take lists, maps and list views. What is in a NULL is passed over."""
    starts, lengths = _extents(array)
    lengths = np.where(_is_valid(array, rows), _pick(lengths, rows), 0)
    large = pa.types.is_large_list(plain_type(array.type))
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if not large and offsets[-1] >= 2**31:
        raise pa.ArrowInvalid("a batch has lists of more than 2147483647 elements")
    offsets = offsets if large else offsets.astype(np.int32)
    elements = _take(array.values, _ranges(_pick(starts, rows), lengths))
    return _rebuilt(array, rows, [pa.py_buffer(offsets)], [elements])


def _extents(array: Any) -> tuple[Rows, Rows]:
    """Return where the elements of each row begin, and how many there are."""
    data_type, first, count = array.type, array.offset, len(array)
    large = pa.types.is_large_list(data_type) or pa.types.is_large_list_view(data_type)
    number = np.int64 if large else np.int32
    buffers = array.buffers()
    starts = _numbers(buffers[1], number)
    if pa.types.is_list_view(data_type) or pa.types.is_large_list_view(data_type):
        sizes = _numbers(buffers[2], number)
        return starts[first : first + count], sizes[first : first + count]
    return starts[first : first + count], np.diff(starts[first : first + count + 1])


def _numbers(buffer: pa.Buffer | None, number: Any) -> Any:
    if buffer is None:
        return np.zeros(0, dtype=np.int64)
    whole = buffer.size // np.dtype(number).itemsize
    return np.frombuffer(buffer, dtype=number, count=whole).astype(np.int64)


def _take_union(array: Any, rows: Rows) -> pa.Array:
    """Take a union. A member has NULL in the rows of the other members if it has a row for each."""
    data_type, buffers = array.type, array.buffers()
    part = slice(array.offset, array.offset + len(array))
    codes = _pick(_numbers(buffers[1], np.int8)[part], rows, data_type.type_codes[0])
    dense = data_type.mode == "dense"
    positions = _pick(_numbers(buffers[2], np.int32)[part], rows, _NULL) if dense else rows
    offsets = np.zeros(len(rows), dtype=np.int32)
    children = []
    for index, code in enumerate(data_type.type_codes):
        is_member = codes == code
        if dense:
            needed = positions[is_member]
            offsets[is_member] = np.arange(len(needed), dtype=np.int32)
        else:
            needed = np.where(is_member, rows, _NULL)
        children.append(_take(array.field(index), needed))
    own = [codes.astype(np.int8), offsets] if dense else [codes.astype(np.int8)]
    return pa.Array.from_buffers(
        plain_type(data_type), len(rows), [None, *map(pa.py_buffer, own)], children=children
    )


def _rebuilt(
    array: Any, rows: Rows, buffers: Iterable[pa.Buffer], children: list[pa.Array]
) -> pa.Array:
    """Return a nested array of the plain type; it is NULL where a row is NULL."""
    valid = _is_valid(array, rows)
    bits = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(
        plain_type(array.type), len(rows), [bits, *buffers], children=children
    )


def _is_valid(array: Any, rows: Rows) -> npt.NDArray[np.bool_]:
    if not array.null_count:
        valid: npt.NDArray[np.bool_] = rows != _NULL
        return valid
    whole = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return np.asarray(_pick(whole, rows, False))


def _where_valid(array: Any, rows: Rows, positions: Rows) -> Rows:
    taken: Rows = np.where(_is_valid(array.indices, rows), _pick(positions, rows), _NULL)
    return taken


def _pick(values: Any, rows: Rows, otherwise: Any = 0) -> Any:
    """Return the values at the rows, and `otherwise` for NULL."""
    if not len(values):
        return np.full(len(rows), otherwise, dtype=values.dtype)
    return np.where(rows == _NULL, otherwise, values[rows])


def _ranges(starts: Rows, lengths: Rows) -> Rows:
    """Return the numbers from each start on, as many as its length, all in one array."""
    before = np.cumsum(lengths) - lengths
    ranges: Rows = np.repeat(starts - before, lengths)
    ranges += np.arange(len(ranges), dtype=np.int64)
    return ranges


_TAKES: tuple[tuple[_Test, Callable[[Any, Rows], pa.Array]], ...] = (
    (pa.types.is_dictionary, _take_dictionary),
    (pa.types.is_run_end_encoded, _take_runs),
    (pa.types.is_string_view, _take_views),
    (pa.types.is_binary_view, _take_views),
    (pa.types.is_struct, _take_struct),
    (pa.types.is_fixed_size_list, _take_array),
    (pa.types.is_union, _take_union),
    (pa.types.is_nested, _take_lists),
)
