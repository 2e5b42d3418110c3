"""Converts flat Arrow arrays to the types of the table, and from those that DuckDB answers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.lake.types.storage_types import DURATION, StorageType, kept
from jetbridge.duckdb_engine import computed
from jetbridge.duckdb_engine.casts import conform
from jetbridge.duckdb_syntax.types import kind_of
from jetbridge.errors import BadRequest

# month_day_nano_interval in memory.
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
# DuckDB hands an INTERVAL to Arrow in nanoseconds, and wraps around silently.
_MOST_MICROSECONDS = (2**63 - 1) // 1000
# A TIME may be 24:00:00.
_DAY = {"s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}
_OFFSET_BITS = 24


def stored_leaf(array: Any, source: pa.Field, target: pa.Field) -> pa.Array:
    """Return the values as the table stores them; raises `pa.ArrowInvalid` for one it cannot."""
    array = _decoded(array)
    if array.null_count == len(array):
        return pa.nulls(len(array), target.type)
    name, row = kept(source, target.type)
    _CHECKS.get(kind_of(name), _anything)(array)
    if name == DURATION:
        return _microseconds(array)
    if row.write:
        return _written_by_duckdb(array, source.with_type(array.type), target, name, row)
    values = _conformed(array, target.type)
    if pa.types.is_decimal(values.type):
        # DuckDB exports a HUGEINT of 39 digits as a DECIMAL(38,0), which Spark cannot read.
        values.validate(full=True)
    return values


def _written_by_duckdb(
    array: Any, source: pa.Field, target: pa.Field, name: str, row: StorageType
) -> pa.Array:
    """Convert values with DuckDB; raises `pa.ArrowInvalid` if one does not come back equal."""
    write = row.write.format(x="c")
    read = row.read.format(x=write, type=name)
    data = pa.table([array], schema=pa.schema([source.with_name("c")]))
    text = f"CASE WHEN TRY({read}) IS NOT DISTINCT FROM c THEN {write} END"
    try:
        values = computed(text, data, pa.field("c", target.type))
    except BadRequest as error:
        raise pa.ArrowInvalid(str(error).partition(": ")[2]) from None  # without our own prefix
    if values.null_count != array.null_count:
        raise pa.ArrowInvalid("DuckDB does not read back the same value")
    return values


def logical_leaf(array: Any, source: pa.Field, target: pa.Field) -> pa.Array:
    """Return values that DuckDB answered with the exact type of the column."""
    data_type = target.type
    if array.type == data_type:
        return array
    if pa.types.is_null(data_type) or array.null_count == len(array):
        return pa.nulls(len(array), data_type)
    if pa.types.is_duration(data_type):
        return _duration(array, data_type)
    if pa.types.is_dictionary(data_type):
        values = _conformed(array, data_type.value_type).dictionary_encode()
        return values.cast(data_type) if values.type != data_type else values
    if pa.types.is_run_end_encoded(data_type):
        values = _conformed(array, data_type.value_type)
        return pc.run_end_encode(values, run_end_type=data_type.run_end_type)
    return _conformed(array, data_type)


def text_leaf(array: Any, source: pa.Field, target: pa.Field) -> pa.Array:
    """Return UUIDs as strings where the target has strings; other values as they are."""
    if array.type == target.type:
        return array
    return computed("CAST(c AS VARCHAR)", pa.table({"c": array}), pa.field("c", pa.string()))


def _conformed(array: Any, data_type: pa.DataType) -> pa.Array:
    try:
        return conform(array, data_type)
    except pa.ArrowNotImplementedError:
        # Opaque types of other programs, and their bytes.
        if isinstance(array, pa.ExtensionArray):
            return conform(array.storage, data_type)
        if isinstance(data_type, pa.BaseExtensionType):
            return data_type.wrap_array(conform(array, data_type.storage_type))
        raise


def _decoded(array: Any) -> Any:
    """Return the array without dictionaries and runs."""
    if pa.types.is_dictionary(array.type):
        return _decoded(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return _decoded(pc.run_end_decode(array))
    return array


def _anything(array: Any) -> None:
    pass


def _check_time(array: Any) -> None:
    # One beyond the day ends not only DuckDB's cast but the whole instance.
    values = array.view(pa.int64() if pa.types.is_time64(array.type) else pa.int32())
    outside = pc.or_(pc.less(values, 0), pc.greater(values, _DAY[array.type.unit]))
    _refuse_any(outside, "it is no time of day")


def _check_time_with_zone(array: Any) -> None:
    numbers = np.frombuffer(array.storage.buffers()[1], dtype="<u8")
    numbers = numbers[array.offset : array.offset + len(array)]
    late = (numbers >> np.uint64(_OFFSET_BITS)) > _DAY["us"]
    _refuse_any(pa.array(late & np.asarray(array.is_valid())), "it is no time of day")


def _check_bits(array: Any) -> None:
    """Refuse a BIT that is not well-formed: DuckDB reads beyond its end, and may crash.

    The first byte counts the bits of the second that do not belong to the value.
    """
    lengths, first = pc.binary_length(array.storage), pc.binary_slice(array.storage, 0, 1)
    broken = pc.or_(pc.less(lengths, 2), pc.greater(first, pa.scalar(b"\x07", first.type)))
    _refuse_any(broken, "its bytes are no BIT of DuckDB")


def _check_interval(array: Any) -> None:
    if pa.types.is_interval(array.type):
        rest = _intervals(array)["nanoseconds"] % 1000
        broken = pa.array((rest != 0) & np.asarray(array.is_valid()))
        _refuse_any(broken, "it has a fraction of a microsecond")


def _refuse_any(broken: pa.Array, reason: str) -> None:
    if pc.any(broken).as_py():
        raise pa.ArrowInvalid(reason)


_CHECKS: dict[str, Callable[[Any], None]] = {
    "TIME": _check_time,
    "TIME_NS": _check_time,
    "TIME WITH TIME ZONE": _check_time_with_zone,
    "BIT": _check_bits,
    "INTERVAL": _check_interval,
}


def _intervals(array: Any) -> Any:
    values = np.frombuffer(array.buffers()[1], dtype=_INTERVAL)
    return values[array.offset : array.offset + len(array)]


def _microseconds(array: Any) -> pa.Array:
    values = array.cast(pa.duration("us")).cast(pa.int64())
    outside = pc.or_(pc.less(values, -_MOST_MICROSECONDS), pc.greater(values, _MOST_MICROSECONDS))
    _refuse_any(outside, "it is longer than 292 years")
    return values


def _duration(array: Any, data_type: pa.DataType) -> pa.Array:
    total = _intervals(array)["nanoseconds"] // 1000
    values = pa.array(total, pa.int64(), mask=np.asarray(array.is_null()))
    return values.cast(pa.duration("us")).cast(data_type)
