"""Converts values of columns and constants of filters to one form, in which Python compares them.

Integers, dates (days) and timestamps (ticks of their unit) become int, decimals become Decimal,
texts become str. Types that DuckDB orders otherwise than Python have no such form.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.duckdb_engine import is_ordinal, is_text
from jetbridge.expr import Constant

Bounds = tuple[Any, Any]
NO_BOUNDS: Bounds = (None, None)

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# Ticks per second of the integers by which DuckDB serialises its timestamp types.
_TICKS = {
    "TIMESTAMP": 1_000_000,
    "TIMESTAMP WITH TIME ZONE": 1_000_000,
    "TIMESTAMPTZ": 1_000_000,
    "TIMESTAMP_S": 1,
    "TIMESTAMP_MS": 1_000,
    "TIMESTAMP_NS": 1_000_000_000,
}
_INFINITE = 2**63 - 1
_INTEGERS = frozenset(
    f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
)


def ordinals(column: pa.Array) -> pa.Array:
    """Return the integers of an ordinal column, without a copy."""
    if pa.types.is_integer(column.type):
        return column
    return column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())


def bounds_of(column: pa.Array) -> Bounds:
    """Return the smallest and largest value, or `NO_BOUNDS` if Python cannot order the values."""
    data_type = column.type
    if is_ordinal(data_type):
        column = ordinals(column)
    elif pa.types.is_floating(data_type):
        # DuckDB orders NaN above all numbers, min_max ignores it.
        if pc.any(pc.is_nan(column)).as_py():
            return NO_BOUNDS
    elif not (is_text(data_type) or pa.types.is_decimal(data_type)):
        return NO_BOUNDS
    bounds = pc.min_max(column)
    try:
        return bounds["min"].as_py(), bounds["max"].as_py()
    except UnicodeDecodeError:  # a batch may hold strings that are not UTF-8
        return NO_BOUNDS


def comparable(constant: Constant, data_type: pa.DataType) -> Any:
    """Return the constant in the form of a column's values, or None if it has no such form."""
    if constant.value is None:
        return None
    for test, convert in _CONVERSIONS:
        if test(data_type):
            return convert(constant, data_type)
    return None


def _to_integer(constant: Constant, _: pa.DataType) -> int | None:
    matches = constant.type.upper() in _INTEGERS and type(constant.value) is int
    return constant.value if matches else None


def _to_date(constant: Constant, _: pa.DataType) -> int | None:
    matches = constant.type.upper() == "DATE" and type(constant.value) is int
    return constant.value if matches else None


def _to_timestamp(constant: Constant, data_type: Any) -> int | None:
    ticks, column_ticks = _TICKS.get(constant.type.upper()), _PER_SECOND[data_type.unit]
    if data_type.tz is not None and data_type.unit == "ns":
        return None  # DuckDB reads it as microseconds, so values that differ here are equal there
    if ticks is None or type(constant.value) is not int:
        return None
    number, rest = divmod(constant.value * column_ticks, ticks)
    # Infinity is the largest integer in every unit, so it must not be converted.
    infinite = ticks != column_ticks and abs(constant.value) >= _INFINITE
    return None if rest or infinite else number


def _to_float(constant: Constant, data_type: pa.DataType) -> float | None:
    # DuckDB casts the narrower of two types to the wider one before it compares.
    type_name = "DOUBLE" if pa.types.is_float64(data_type) else "FLOAT"
    if constant.type.upper() != type_name or type(constant.value) is not float:
        return None
    value: float = pa.scalar(constant.value, data_type).as_py()  # a FLOAT as the column holds it
    overflows = math.isinf(value) and not math.isinf(constant.value)
    return None if math.isnan(value) or overflows else value


def _to_text(constant: Constant, _: pa.DataType) -> str | None:
    matches = constant.type.upper() == "VARCHAR" and type(constant.value) is str
    return constant.value if matches and _is_unicode(constant.value) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _to_decimal(constant: Constant, data_type: Any) -> Decimal | None:
    # DuckDB binds both sides to one type, so the constant has the scale of the column.
    type_name = f"DECIMAL({data_type.precision},{data_type.scale})"
    if constant.type.replace(" ", "").upper() != type_name or type(constant.value) is not int:
        return None
    # By its digits: arithmetic would round to the 28 digits of Python's context.
    sign, digits, _ = Decimal(constant.value).as_tuple()
    return Decimal((sign, digits, -data_type.scale))


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Constant, Any], Any]], ...] = (
    (pa.types.is_integer, _to_integer),
    (pa.types.is_date32, _to_date),
    (pa.types.is_timestamp, _to_timestamp),
    (pa.types.is_floating, _to_float),
    (is_text, _to_text),
    (pa.types.is_decimal, _to_decimal),
)
