"""Converts HUGEINT and UHUGEINT to decimals, for readers in Python.

DuckDB sends both as an opaque type of 16 bytes, which Python shows as bytes. A decimal128 has the
same layout, so the conversion copies no values: it checks them and changes their type.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.errors import BadRequest

DECIMAL = pa.decimal128(38, 0)
_MOST = 10**38 - 1
_HALF = 2**64
_VENDOR = "DuckDB"
_SIGNED = "hugeint"
_NAMES = (_SIGNED, "uhugeint")
_STORAGE = pa.binary(16)


def is_wide_integer(data_type: pa.DataType) -> bool:
    """Return whether DuckDB sends HUGEINT or UHUGEINT as this type."""
    return (
        isinstance(data_type, pa.OpaqueType)
        and data_type.vendor_name == _VENDOR
        and data_type.type_name in _NAMES
        and data_type.storage_type == _STORAGE
    )


def decimal_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with decimal128(38, 0) for HUGEINT and UHUGEINT, also in nested types."""
    return pa.schema([_decimal_field(field) for field in schema], schema.metadata)


def decimal_batch(batch: pa.RecordBatch, schema: pa.Schema, note: str = "") -> pa.RecordBatch:
    """Return the rows with the types of `decimal_schema`.

    Raises BadRequest for a value of more than 38 digits; `note` ends its message.
    """
    if batch.schema.types == schema.types:
        return batch
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for values in _wide_integers(column):
            _check(field.name, values, note)
    return pa.record_batch(_Retyped(batch, schema))


def decimal_table(table: pa.Table) -> pa.Table:
    """Return a table with the types of `decimal_schema`. Raises the errors of `decimal_batch`."""
    schema = decimal_schema(table.schema)
    batches = [decimal_batch(batch, schema) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema) if batches else schema.empty_table()


class _Retyped:
    """Give Arrow data a type of the same layout, by the Arrow C data interface."""

    def __init__(self, data: Any, data_type: Any) -> None:
        self._data, self._type = data, data_type

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        _, array = self._data.__arrow_c_array__()
        return self._type.__arrow_c_schema__(), array


def _decimal_field(field: pa.Field) -> pa.Field:
    return field.with_type(_decimal_type(field.type))


def _decimal_type(data_type: pa.DataType) -> pa.DataType:
    if is_wide_integer(data_type):
        return DECIMAL
    for matches, rebuild in _NESTED:
        if matches(data_type):
            return rebuild(data_type)
    return data_type


def _decimal_map(data_type: pa.MapType) -> pa.DataType:
    key, item = _decimal_field(data_type.key_field), _decimal_field(data_type.item_field)
    return pa.map_(key, item, keys_sorted=data_type.keys_sorted)


def _decimal_union(data_type: pa.UnionType) -> pa.DataType:
    return pa.union(_decimal_fields(data_type), data_type.mode, data_type.type_codes)


def _decimal_fields(data_type: pa.DataType) -> list[pa.Field]:
    return [_decimal_field(data_type.field(i)) for i in range(data_type.num_fields)]


_NESTED: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]], ...] = (
    (pa.types.is_struct, lambda t: pa.struct(_decimal_fields(t))),
    (pa.types.is_map, _decimal_map),
    (pa.types.is_list, lambda t: pa.list_(_decimal_field(t.value_field))),
    (pa.types.is_large_list, lambda t: pa.large_list(_decimal_field(t.value_field))),
    (
        pa.types.is_fixed_size_list,
        lambda t: pa.list_(_decimal_field(t.value_field), t.list_size),
    ),
    (pa.types.is_union, _decimal_union),
)


def _wide_integers(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of HUGEINT and UHUGEINT within an array, without values of NULL parents."""
    data_type = array.type
    if is_wide_integer(data_type):
        yield array
    elif data_type != _decimal_type(data_type):
        for child in _children(array):
            yield from _wide_integers(child)


def _children(array: pa.Array) -> list[pa.Array]:
    data_type = array.type
    if pa.types.is_union(data_type):
        return [_member(array, index) for index in range(data_type.num_fields)]
    if pa.types.is_struct(data_type):
        return list(array.flatten())
    if pa.types.is_map(data_type):
        # pyarrow flattens no MAP; a list of structs has the same layout.
        entries = pa.struct([data_type.key_field, data_type.item_field])
        array = pa.array(_Retyped(array, pa.list_(pa.field("entries", entries, nullable=False))))
    return [array.flatten()]


def _member(array: pa.UnionArray, index: int) -> pa.Array:
    """Return the values of one member of a union, without unused values of a sparse union."""
    child = array.field(index)
    if array.type.mode == "dense":
        return child
    return child.filter(pc.equal(array.type_codes, pa.scalar(array.type.type_codes[index])))


def _check(column: str, array: pa.Array, note: str) -> None:
    """Raise BadRequest for a value that does not fit decimal128(38, 0)."""
    signed = array.type.type_name == _SIGNED
    storage = array.storage
    data = storage.buffers()[1] if storage.null_count < len(storage) else None
    if data is None:
        return
    parts = np.frombuffer(data, "<u8", 2 * len(storage), 16 * storage.offset).reshape(-1, 2)
    outside = _beyond(parts[:, 0], parts[:, 1].view("<i8") if signed else parts[:, 1], signed)
    outside &= storage.is_valid().to_numpy(zero_copy_only=False)
    if outside.any():
        content = storage[int(outside.argmax())].as_py()
        value = int.from_bytes(content, "little", signed=signed)
        raise BadRequest(
            f"column {column!r} has the {array.type.type_name.upper()} {value}, which does not fit "
            "decimal128(38, 0): read it with exact_hugeint=True, or cast it to VARCHAR in a query"
            f"{note}"
        )


def _beyond(low: Any, high: Any, signed: bool) -> Any:
    """Return which numbers have more than 38 digits, judged by their halves."""
    most_high, most_low = divmod(_MOST, _HALF)
    beyond = (high > most_high) | ((high == most_high) & (low > most_low))
    if signed:
        least_high, least_low = divmod(-_MOST, _HALF)
        beyond |= (high < least_high) | ((high == least_high) & (low < least_low))
    return beyond
