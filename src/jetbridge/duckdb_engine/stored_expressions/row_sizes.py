"""How many bytes each value of an Arrow array has, where a limit asks for single rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.duckdb_engine.types import is_text
from jetbridge.runtime.array_sizes import array_bytes

Sizes = npt.NDArray[np.float64]

_OFFSETS = 8


def value_sizes(array: Any) -> Sizes:
    """Return for each value about its bytes, or more."""
    kind = array.type
    if isinstance(array, pa.ChunkedArray):
        return np.concatenate([np.zeros(0), *map(value_sizes, array.chunks)])
    if isinstance(array, pa.ExtensionArray):
        return value_sizes(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return np.full(len(array), value_sizes(array.dictionary).max(initial=_OFFSETS))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return value_sizes(array.cast(pa.large_binary()))
    if is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return np.asarray(pc.fill_null(pc.binary_length(array), 0)).astype(np.float64)
    return _nested(array) if pa.types.is_nested(kind) else _flat(array)


def _flat(array: pa.Array) -> Sizes:
    try:
        size = max(1.0, array.type.bit_width / 8)
    except ValueError:  # of no fixed size
        size = float(array_bytes(array))
    return np.full(len(array), size)


def _nested(array: Any) -> Sizes:
    kind = array.type
    if isinstance(array, pa.MapArray):
        return _ranges(array, value_sizes(array.keys) + value_sizes(array.items))
    if isinstance(array, pa.ListArray | pa.LargeListArray):
        return _ranges(array, value_sizes(array.values))
    if isinstance(array, pa.FixedSizeListArray):
        width = kind.list_size
        inner = value_sizes(array.values.slice(array.offset * width, len(array) * width))
        return np.asarray(inner.reshape(len(array), width).sum(axis=1))
    if pa.types.is_struct(kind) or (pa.types.is_union(kind) and kind.mode == "sparse"):
        fields = [value_sizes(array.field(index)) for index in range(kind.num_fields)]
        return np.asarray(sum(fields, np.zeros(len(array))))
    return np.full(len(array), float(array_bytes(array)))


def _ranges(array: Any, inner: Sizes) -> Sizes:
    before = np.concatenate([np.zeros(1), np.cumsum(inner)])
    ends = before[np.asarray(array.offsets)]
    return np.asarray(np.diff(ends)) + _OFFSETS
