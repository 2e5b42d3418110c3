"""How many bytes an array takes once it is plain, before any of them is written.

A dictionary, a view or a run stores a value once and means it a thousand times, and a NULL of
Arrow's null type takes no room at all.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Bytes of every row alike, or row by row: a list may hold 300 million NULLs in no room at all.
Sizes = int | npt.NDArray[np.int64]

_OFFSET = 8


@lru_cache(maxsize=1024)
def expands(kind: pa.DataType) -> bool:
    """Whether the plain form may be far larger than what is sent."""
    if isinstance(kind, pa.BaseExtensionType):
        return expands(kind.storage_type)
    tests = (
        pa.types.is_null,
        pa.types.is_dictionary,
        pa.types.is_run_end_encoded,
        pa.types.is_string_view,
        pa.types.is_binary_view,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    if any(test(kind) for test in tests) or _is_dense(kind):
        return True
    return any(expands(kind.field(i).type) for i in range(kind.num_fields))


def _is_dense(kind: pa.DataType) -> bool:
    """A dense union may name one value of a member many times."""
    return bool(pa.types.is_union(kind)) and kind.mode == "dense"


@lru_cache(maxsize=1024)
def null_bytes(kind: pa.DataType) -> int:
    """What a NULL of the type takes."""
    if isinstance(kind, pa.BaseExtensionType):
        return null_bytes(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return 1 + int(kind.list_size) * null_bytes(kind.value_type)
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return 1 + sum(null_bytes(kind.field(i).type) for i in range(kind.num_fields))
    return 1 + _width(kind)


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width + 7) // 8
    except ValueError:  # strings, lists and maps: their offset
        return _OFFSET


def plain_bytes(array: pa.Array, wanted: pa.DataType) -> int:
    """An upper bound of the bytes of the array as the wanted type."""
    sizes = _sizes(array, wanted)
    return sizes * len(array) if isinstance(sizes, int) else int(sizes.sum())


def _sizes(array: Any, wanted: pa.DataType) -> Sizes:
    if isinstance(wanted, pa.BaseExtensionType):
        wanted = wanted.storage_type
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _of_dictionary(array, wanted)
    if pa.types.is_run_end_encoded(kind):
        return _of_runs(array, wanted)
    if pa.types.is_struct(kind):
        return _of_struct(array, wanted)
    if pa.types.is_union(kind):
        return _of_union(array, wanted)
    if pa.types.is_nested(kind):
        return _of_lists(array, wanted)
    return _of_flat(array, wanted)


def _of_flat(array: Any, wanted: pa.DataType) -> Sizes:
    least = max(null_bytes(wanted), null_bytes(array.type))
    if pa.types.is_null(array.type) or len(array) == 0:
        return least
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        return least + _view_lengths(array)
    try:
        lengths = pc.binary_length(array).fill_null(0)
    except pa.ArrowNotImplementedError:  # neither texts nor bytes
        return least
    rows: npt.NDArray[np.int64] = lengths.cast(pa.int64()).to_numpy()
    return least + rows


def _view_lengths(array: Any) -> npt.NDArray[np.int64]:
    """The first of the four integers of each view; `binary_length` knows no views."""
    views = np.frombuffer(array.buffers()[1], dtype=np.int32).reshape(-1, 4)
    lengths = views[array.offset : array.offset + len(array), 0].astype(np.int64)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths


def _of_dictionary(array: Any, wanted: pa.DataType) -> Sizes:
    sizes = _sizes(array.dictionary, wanted)
    if isinstance(sizes, int) or len(sizes) == 0:
        return max(null_bytes(wanted), sizes if isinstance(sizes, int) else 0)
    taken: npt.NDArray[np.int64] = sizes[array.indices.fill_null(0).cast(pa.int64()).to_numpy()]
    return taken


def _of_runs(array: Any, wanted: pa.DataType) -> Sizes:
    sizes = _sizes(array.values, wanted)
    if isinstance(sizes, int):
        return sizes
    ends = array.run_ends.to_numpy().astype(np.int64) - array.offset
    return np.repeat(sizes, np.diff(np.clip(ends, 0, len(array)), prepend=0))


def _of_struct(array: Any, wanted: pa.DataType) -> Sizes:
    same = pa.types.is_struct(wanted) and wanted.num_fields == array.type.num_fields
    total: Sizes = 1
    for index in range(array.type.num_fields):
        child = array.field(index)
        total = total + _sizes(child, wanted.field(index).type if same else child.type)
    return total


def _of_union(array: Any, wanted: pa.DataType) -> Sizes:
    """The value of each row, in the member that the row names."""
    if len(array) == 0:
        return null_bytes(wanted)
    total = np.full(len(array), null_bytes(wanted), dtype=np.int64)
    # `type_codes` and `offsets` of pyarrow 26 are those of the array that was sliced.
    part = slice(array.offset, array.offset + len(array))
    buffers = array.buffers()
    members = np.frombuffer(buffers[1], dtype=np.int8)[part]
    places = np.frombuffer(buffers[2], dtype=np.int32)[part] if _is_dense(array.type) else None
    for index, code in enumerate(array.type.type_codes):
        child = array.field(index)
        sizes = _sizes(child, child.type)
        rows = np.flatnonzero(members == code)
        if not isinstance(sizes, int):
            sizes = sizes[rows if places is None else places[rows]]
        total[rows] += sizes
    return total


def _of_lists(array: Any, wanted: pa.DataType) -> Sizes:
    """Lists, arrays, views and maps: the sizes of their elements, added up row by row."""
    least = null_bytes(wanted)
    if len(array) == 0:
        return least
    lengths = _lengths(array)
    child = array.values
    inner = wanted.field(0).type if pa.types.is_nested(wanted) else child.type
    sizes = _sizes(child, inner)
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
