"""Values of a column and constants of a filter in one form that Python can compare.

Integers, dates (days) and timestamps (their unit) become int, decimals Decimal, texts str. Types
that are ordered otherwise in DuckDB than in Python have no such form.
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
# Ticks per second of the integers DuckDB serialises for its timestamp types.
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
    """An ordinal column as the integers underneath, without a copy."""
    if pa.types.is_integer(column.type):
        return column
    return column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())


def bounds_of(column: pa.Array) -> Bounds:
    """Smallest and largest value, or `NO_BOUNDS` where they say nothing."""
    kind = column.type
    if is_ordinal(kind):
        column = ordinals(column)
    elif pa.types.is_floating(kind):
        # DuckDB puts NaN above all numbers, min_max passes over it.
        if pc.any(pc.is_nan(column)).as_py():
            return NO_BOUNDS
    elif not (is_text(kind) or pa.types.is_decimal(kind)):
        return NO_BOUNDS
    both = pc.min_max(column)
    try:
        return both["min"].as_py(), both["max"].as_py()
    except UnicodeDecodeError:  # nobody proves the texts of a batch to be UTF-8
        return NO_BOUNDS


def comparable(constant: Constant, kind: pa.DataType) -> Any:
    """The constant in the form of a column's values, or None if it has none."""
    if constant.value is None:
        return None
    for test, convert in _CONVERSIONS:
        if test(kind):
            return convert(constant, kind)
    return None


def _integer(constant: Constant, _: pa.DataType) -> int | None:
    good = constant.type.upper() in _INTEGERS and type(constant.value) is int
    return constant.value if good else None


def _date(constant: Constant, _: pa.DataType) -> int | None:
    good = constant.type.upper() == "DATE" and type(constant.value) is int
    return constant.value if good else None


def _timestamp(constant: Constant, kind: Any) -> int | None:
    ticks, wanted = _TICKS.get(constant.type.upper()), _PER_SECOND[kind.unit]
    if kind.tz is not None and kind.unit == "ns":
        return None  # DuckDB reads it as microseconds, so values that differ here are equal there
    if ticks is None or type(constant.value) is not int:
        return None
    number, rest = divmod(constant.value * wanted, ticks)
    # An infinity is the largest integer in every unit, so it must not be converted.
    infinite = ticks != wanted and abs(constant.value) >= _INFINITE
    return None if rest or infinite else number


def _float(constant: Constant, kind: pa.DataType) -> float | None:
    # Of two widths DuckDB would compare the wider one.
    wanted = "DOUBLE" if pa.types.is_float64(kind) else "FLOAT"
    if constant.type.upper() != wanted or type(constant.value) is not float:
        return None
    value: float = pa.scalar(constant.value, kind).as_py()  # a FLOAT as the column holds it
    outside = math.isinf(value) and not math.isinf(constant.value)
    return None if math.isnan(value) or outside else value


def _text(constant: Constant, _: pa.DataType) -> str | None:
    good = constant.type.upper() == "VARCHAR" and type(constant.value) is str
    return constant.value if good and _is_unicode(constant.value) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decimal(constant: Constant, kind: Any) -> Decimal | None:
    # The bound type of both sides is one, so the scale of the column is that of the constant.
    wanted = f"DECIMAL({kind.precision},{kind.scale})"
    if constant.type.replace(" ", "").upper() != wanted or type(constant.value) is not int:
        return None
    # By its digits: arithmetic would round to the 28 digits of Python's context.
    sign, digits, _ = Decimal(constant.value).as_tuple()
    return Decimal((sign, digits, -kind.scale))


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Constant, Any], Any]], ...] = (
    (pa.types.is_integer, _integer),
    (pa.types.is_date32, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_floating, _float),
    (is_text, _text),
    (pa.types.is_decimal, _decimal),
)
