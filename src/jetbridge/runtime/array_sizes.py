"""Computes how many bytes an array takes in its plain form, before any of them is written.

A dictionary, a view or a run stores a value once and uses it many times, and a NULL of Arrow's null
type takes no memory at all.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.runtime.plain_layout import is_plain

# The bytes of each row: one number for all rows, or one per row. A list may hold 300 million NULLs
# in no memory, so they are never written out.
Sizes = int | npt.NDArray[np.int64]

_OFFSET = _POSITION = 8


def array_bytes(data: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table) -> int:
    """Return the bytes of values as Arrow counts them.

    Arrow crashes when it counts an empty union that came over IPC. Of unions, this counts whole
    buffers.
    """
    types = data.schema.types if isinstance(data, pa.RecordBatch | pa.Table) else [data.type]
    is_safe = not any(map(has_union, types))
    return int(data.nbytes if is_safe else data.get_total_buffer_size())


def slice_bytes(data: pa.Table) -> int:
    """Return the bytes of the rows of a table that may be a part of a larger one."""
    if any(map(has_union, data.schema.types)):
        data = data.take(pa.array(range(data.num_rows), pa.int64()))
    return array_bytes(data)


@lru_cache(maxsize=1024)
def has_union(data_type: pa.DataType) -> bool:
    """Return whether a type is a union, or has one at any depth."""
    if isinstance(data_type, pa.BaseExtensionType):
        return has_union(data_type.storage_type)
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return has_union(data_type.value_type)
    fields = (data_type.field(i).type for i in range(data_type.num_fields))
    return bool(pa.types.is_union(data_type)) or any(map(has_union, fields))


@lru_cache(maxsize=1024)
def expands(data_type: pa.DataType) -> bool:
    """Return whether the plain form of a type may be far larger than what is sent."""
    if isinstance(data_type, pa.BaseExtensionType):
        return expands(data_type.storage_type)
    tests = (
        pa.types.is_null,
        pa.types.is_dictionary,
        pa.types.is_run_end_encoded,
        pa.types.is_string_view,
        pa.types.is_binary_view,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    if any(test(data_type) for test in tests) or _is_dense(data_type):
        return True
    return any(expands(data_type.field(i).type) for i in range(data_type.num_fields))


def _is_dense(data_type: pa.DataType) -> bool:
    """Return whether a type is a dense union, which may use one value of a member many times."""
    return bool(pa.types.is_union(data_type)) and data_type.mode == "dense"


@lru_cache(maxsize=1024)
def null_bytes(data_type: pa.DataType) -> int:
    """Return the bytes of a NULL of the type."""
    if isinstance(data_type, pa.BaseExtensionType):
        return null_bytes(data_type.storage_type)
    if pa.types.is_fixed_size_list(data_type):
        return 1 + int(data_type.list_size) * null_bytes(data_type.value_type)
    if pa.types.is_struct(data_type) or pa.types.is_union(data_type):
        return 1 + sum(null_bytes(data_type.field(i).type) for i in range(data_type.num_fields))
    return 1 + _width(data_type)


def _width(data_type: pa.DataType) -> int:
    try:
        return int(data_type.bit_width + 7) // 8
    except ValueError:  # strings, lists and maps have an offset
        return _OFFSET


def plain_bytes(array: pa.Array, target: pa.DataType) -> int:
    """Return an upper bound of the bytes of the array once it has the target type."""
    sizes = _sizes(array, target)
    return sizes * len(array) if isinstance(sizes, int) else int(sizes.sum())


def _sizes(array: Any, target: pa.DataType) -> Sizes:
    if isinstance(target, pa.BaseExtensionType):
        target = target.storage_type
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    data_type = array.type
    if pa.types.is_dictionary(data_type):
        return _of_dictionary(array, target)
    if pa.types.is_run_end_encoded(data_type):
        return _of_runs(array, target)
    if pa.types.is_struct(data_type):
        return _of_struct(array, target)
    if pa.types.is_union(data_type):
        return _of_union(array, target)
    if pa.types.is_nested(data_type):
        return _of_lists(array, target)
    return _of_flat(array, target)


def _of_flat(array: Any, target: pa.DataType) -> Sizes:
    least = max(null_bytes(target), null_bytes(array.type))
    if pa.types.is_null(array.type) or len(array) == 0:
        return least
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        return least + _view_lengths(array)
    try:
        lengths = pc.binary_length(array).fill_null(0)
    except pa.ArrowNotImplementedError:  # neither text nor bytes
        return least
    rows: npt.NDArray[np.int64] = lengths.cast(pa.int64()).to_numpy()
    return least + rows


def _view_lengths(array: Any) -> npt.NDArray[np.int64]:
    """Return the first of the four integers of each view; pyarrow has no function for it."""
    views = np.frombuffer(array.buffers()[1], dtype=np.int32).reshape(-1, 4)
    lengths = views[array.offset : array.offset + len(array), 0].astype(np.int64)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths


def _of_dictionary(array: Any, target: pa.DataType) -> Sizes:
    values, rows = array.dictionary, array.indices.fill_null(0).cast(pa.int64()).to_numpy()
    if len(rows) < len(values) and is_plain(values.type):  # read no more of it than is used
        used, rows = np.unique(rows, return_inverse=True)
        values = values.take(pa.array(used))
    sizes = _sizes(values, target)
    if isinstance(sizes, int) or len(sizes) == 0:
        return max(null_bytes(target), sizes if isinstance(sizes, int) else 0)
    taken: npt.NDArray[np.int64] = sizes[rows]
    return taken


def _of_runs(array: Any, target: pa.DataType) -> Sizes:
    sizes = _sizes(array.values, target)
    if isinstance(sizes, int):
        return sizes
    ends = array.run_ends.to_numpy().astype(np.int64) - array.offset
    return np.repeat(sizes, np.diff(np.clip(ends, 0, len(array)), prepend=0))


def _of_struct(array: Any, target: pa.DataType) -> Sizes:
    same = pa.types.is_struct(target) and target.num_fields == array.type.num_fields
    total: Sizes = 1
    for index in range(array.type.num_fields):
        child = array.field(index)
        total = total + _sizes(child, target.field(index).type if same else child.type)
    return total


def _of_union(array: Any, target: pa.DataType) -> Sizes:
    """Add up the size of each row's value in the member that the row names."""
    if len(array) == 0:
        return null_bytes(target)
    total = np.full(len(array), null_bytes(target), dtype=np.int64)
    # In pyarrow 26, `type_codes` and `offsets` of a slice are those of the whole array.
    part = slice(array.offset, array.offset + len(array))
    buffers = array.buffers()
    members = np.frombuffer(buffers[1], dtype=np.int8)[part]
    offsets = np.frombuffer(buffers[2], dtype=np.int32)[part] if _is_dense(array.type) else None
    for index, code in enumerate(array.type.type_codes):
        child = array.field(index)
        sizes = _sizes(child, child.type)
        rows = np.flatnonzero(members == code)
        if not isinstance(sizes, int):
            sizes = sizes[rows if offsets is None else offsets[rows]]
        total[rows] += sizes
    return total


def _of_lists(array: Any, target: pa.DataType) -> Sizes:
    """Add up the sizes of the elements of each row: of lists, arrays, views and maps."""
    least = null_bytes(target)
    if len(array) == 0:
        return least
    lengths = _lengths(array)
    child = array.values
    inner = target.field(0).type if pa.types.is_nested(target) else child.type
    sizes = _sizes(child, inner)
    if not is_plain(array.type):  # while it is written out, each element has a position
        sizes = sizes + _POSITION
    if isinstance(sizes, int):
        return least + lengths * sizes
    before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    starts = _starts(array, lengths)
    added: npt.NDArray[np.int64] = least + before[starts + lengths] - before[starts]
    return added


def _lengths(array: Any) -> npt.NDArray[np.int64]:
    if pa.types.is_map(array.type):
        offsets: npt.NDArray[np.int64] = array.offsets.to_numpy().astype(np.int64)
        return np.diff(offsets)
    if pa.types.is_fixed_size_list(array.type):
        return np.full(len(array), array.type.list_size, dtype=np.int64)
    lengths: npt.NDArray[np.int64] = (
        pc.list_value_length(array).fill_null(0).cast(pa.int64()).to_numpy()
    )
    return lengths


def _starts(array: Any, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if pa.types.is_fixed_size_list(array.type):
        rows = np.arange(array.offset, array.offset + len(array), dtype=np.int64)
        return rows * int(array.type.list_size)
    starts: npt.NDArray[np.int64] = array.offsets.to_numpy()[: len(array)].astype(np.int64)
    return np.where(lengths > 0, starts, 0)
