"""Refuses BOOLEANs that are neither true nor false.

With `arrow_lossless_conversion`, DuckDB sends a BOOLEAN as a byte (`arrow.bool8`). Of constants and
defaults it sends the first byte and then whatever memory holds, so nobody knows what was meant.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.errors import BadRequest


@lru_cache(maxsize=1024)
def has_boolean_bytes(data_type: pa.DataType) -> bool:
    """Return whether the type is, or contains, `arrow.bool8`."""
    if isinstance(data_type, pa.Bool8Type):
        return True
    if isinstance(data_type, pa.BaseExtensionType):
        return has_boolean_bytes(data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return has_boolean_bytes(data_type.value_type)
    return any(has_boolean_bytes(data_type.field(i).type) for i in range(data_type.num_fields))


def check_boolean_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch; raise BadRequest for a byte other than 0 and 1 that is not NULL."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for values in _boolean_bytes(column):
            largest = pc.max(values.view(pa.uint8())).as_py()
            if largest is not None and largest > 1:
                raise BadRequest(
                    f"column {name!r}: the client sent the byte {largest} for a BOOLEAN, as DuckDB "
                    "does for constants and defaults; run SET arrow_lossless_conversion = false, "
                    "then the statement again"
                )
    return batch


def _boolean_bytes(array: Any) -> Iterator[pa.Array]:
    """Yield the bytes of the array and of all arrays in it, without those in NULLs around them."""
    if not has_boolean_bytes(array.type):
        return
    if isinstance(array.type, pa.Bool8Type):
        yield array.storage
        return
    children = next((read for kind, read in _CHILDREN if isinstance(array, kind)), _elements)
    for child in children(array):
        yield from _boolean_bytes(child)


def _elements(array: Any) -> list[Any]:
    return [array.flatten()]


def _members(array: Any) -> list[Any]:
    members = [array.field(i) for i in range(array.type.num_fields)]
    if array.type.mode == "dense":
        return members
    chosen = array.type_codes
    codes = array.type.type_codes
    return [
        member.filter(pc.equal(chosen, pa.scalar(code, pa.int8())))
        for member, code in zip(members, codes, strict=True)
    ]


_CHILDREN: tuple[tuple[type, Callable[[Any], list[Any]]], ...] = (
    (pa.ExtensionArray, lambda array: [array.storage]),
    (pa.DictionaryArray, lambda array: [array.dictionary]),
    (pa.RunEndEncodedArray, lambda array: [array.values]),
    (pa.MapArray, lambda array: [array.keys, array.items]),
    (pa.StructArray, lambda array: list(array.flatten())),
    (pa.UnionArray, _members),
)
