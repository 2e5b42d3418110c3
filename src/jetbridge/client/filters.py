"""Encodes predicates as the filter JSON of DuckDB: bound expressions, columns by position."""

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from jetbridge.catalog import fold
from jetbridge.errors import NotSupported
from jetbridge.expr import (
    And,
    Between,
    Column,
    Comparison,
    Constant,
    Expr,
    In,
    IsNull,
    Not,
    Or,
)

_NO_LOCATION = 2**64 - 1  # the query location of an expression that is in no query text
_WIDE = frozenset({"HUGEINT", "UHUGEINT", "UUID"})
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_EXACT = Context(prec=100)
_NARROW_DECIMAL = 18  # digits that DuckDB keeps in 64 bits
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)", re.IGNORECASE)
_BOOLEAN = {"id": "BOOLEAN", "type_info": None}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = {"TIMESTAMP_S": 10**6, "TIMESTAMP_MS": 10**3}

COMPARISONS = {
    "=": "COMPARE_EQUAL",
    "<>": "COMPARE_NOTEQUAL",
    "<": "COMPARE_LESSTHAN",
    "<=": "COMPARE_LESSTHANOREQUALTO",
    ">": "COMPARE_GREATERTHAN",
    ">=": "COMPARE_GREATERTHANOREQUALTO",
    "IS DISTINCT FROM": "COMPARE_DISTINCT_FROM",
    "IS NOT DISTINCT FROM": "COMPARE_NOT_DISTINCT_FROM",
}

# The types of columns whose node has none.
DUCKDB_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.string_view(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time64("us"): "TIME",
    pa.time64("ns"): "TIME_NS",
    pa.timestamp("s"): "TIMESTAMP_S",
    pa.timestamp("ms"): "TIMESTAMP_MS",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("ns"): "TIMESTAMP_NS",
    pa.month_day_nano_interval(): "INTERVAL",
}

EXTENSION_TYPES = {"arrow.uuid": "UUID", "arrow.json": "JSON", "arrow.bool8": "BOOLEAN"}


def encode_filter(node: Expr, columns: Sequence[str], types: Mapping[str, pa.DataType]) -> str:
    """Encode a predicate for a scan of these columns; raise NotSupported for other nodes."""
    encoder = _Encoder([fold(name) for name in columns], types)
    conditions = node.children if isinstance(node, And) else (node,)
    filters = [encoder.encode(condition) for condition in conditions]
    return json.dumps(
        {"filters": filters, "column_binding_names_by_index": list(columns)},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def duckdb_type(data_type: pa.DataType) -> str:
    """Return DuckDB's name of an Arrow type; UNKNOWN if it has none."""
    if isinstance(data_type, pa.BaseExtensionType):
        return EXTENSION_TYPES.get(data_type.extension_name, "UNKNOWN")
    if pa.types.is_decimal(data_type):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if pa.types.is_timestamp(data_type) and data_type.tz:
        return "TIMESTAMP WITH TIME ZONE"
    return DUCKDB_TYPES.get(data_type, "UNKNOWN")


class _Encoder:
    def __init__(self, columns: Sequence[str], types: Mapping[str, pa.DataType]) -> None:
        self._columns, self._types = columns, types
        self._encoders: dict[type, Callable[[Any], dict[str, Any]]] = {
            Column: self._column,
            Constant: self._constant,
            Comparison: self._comparison,
            And: lambda node: self._conjunction("CONJUNCTION_AND", node.children),
            Or: lambda node: self._conjunction("CONJUNCTION_OR", node.children),
            Not: lambda node: self._operator("OPERATOR_NOT", node.child),
            IsNull: self._is_null,
            In: self._in,
            Between: self._between,
        }

    def encode(self, node: Expr) -> dict[str, Any]:
        encode = self._encoders.get(type(node))
        if encode is None:
            raise NotSupported(
                f"the client cannot encode a {type(node).__name__}; pass the filter JSON"
            )
        return encode(node)

    def _column(self, node: Column) -> dict[str, Any]:
        name = fold(node.name)
        index = self._columns.index(name)
        return _node(
            "BOUND_COLUMN_REF",
            "BOUND_COLUMN_REF",
            alias=node.name,
            return_type=_type(node.type or duckdb_type(self._types[name])),
            binding={"table_index": 0, "column_index": index},
            depth=0,
        )

    def _constant(self, node: Constant) -> dict[str, Any]:
        value: dict[str, Any] = {"type": _type(node.type), "is_null": node.value is None}
        if node.value is not None:
            value["value"] = _serialize(node.type.upper(), node.value)
        return _node("BOUND_CONSTANT", "VALUE_CONSTANT", value=value)

    def _comparison(self, node: Comparison) -> dict[str, Any]:
        left, right = self.encode(node.left), self.encode(node.right)
        return _node("BOUND_COMPARISON", COMPARISONS[node.op], left=left, right=right)

    def _conjunction(self, node_type: str, children: Sequence[Expr]) -> dict[str, Any]:
        return _node("BOUND_CONJUNCTION", node_type, children=[self.encode(c) for c in children])

    def _operator(self, node_type: str, *children: Expr) -> dict[str, Any]:
        encoded = [self.encode(child) for child in children]
        return _node("BOUND_OPERATOR", node_type, return_type=_BOOLEAN, children=encoded)

    def _is_null(self, node: IsNull) -> dict[str, Any]:
        node_type = "OPERATOR_IS_NOT_NULL" if node.negated else "OPERATOR_IS_NULL"
        return self._operator(node_type, node.child)

    def _in(self, node: In) -> dict[str, Any]:
        node_type = "COMPARE_NOT_IN" if node.negated else "COMPARE_IN"
        return self._operator(node_type, node.child, *node.items)

    def _between(self, node: Between) -> dict[str, Any]:
        return _node(
            "BOUND_BETWEEN",
            "COMPARE_BETWEEN",
            input=self.encode(node.child),
            lower=self.encode(node.lower),
            upper=self.encode(node.upper),
            lower_inclusive=node.lower_inclusive,
            upper_inclusive=node.upper_inclusive,
        )


def _node(expression_class: str, node_type: str, alias: str = "", **rest: Any) -> dict[str, Any]:
    return {
        "expression_class": expression_class,
        "type": node_type,
        "alias": alias,
        "query_location": _NO_LOCATION,
        **rest,
    }


def _type(text: str) -> dict[str, Any]:
    decimal = _DECIMAL.fullmatch(text)
    if decimal is None:
        return {"id": text.upper(), "type_info": None}
    info = {"type": "DECIMAL_TYPE_INFO", "alias": "", "extension_info": None}
    sizes = {"width": int(decimal[1]), "scale": int(decimal[2])}
    return {"id": "DECIMAL", "type_info": {**info, **sizes}}


def _serialize(type_name: str, value: Any) -> Any:
    """Convert a Python value to the form in which DuckDB serialises it."""
    for python_type, convert in _FROM_PYTHON:
        if isinstance(value, python_type):
            value = convert(type_name, value)
            break
    if isinstance(value, int) and _is_wide(type_name):
        return {"upper": value >> 64, "lower": value & (2**64 - 1)}
    return value


def _is_wide(type_name: str) -> bool:
    decimal = _DECIMAL.fullmatch(type_name)
    return type_name in _WIDE or (decimal is not None and int(decimal[1]) > _NARROW_DECIMAL)


def _from_datetime(type_name: str, value: datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    microseconds = (aware - _EPOCH) // timedelta(microseconds=1)
    return (
        microseconds * 1000
        if type_name == "TIMESTAMP_NS"
        else microseconds // _TICK.get(type_name, 1)
    )


def _from_time(type_name: str, value: time) -> int:
    minutes = value.hour * 60 + value.minute
    microseconds = (minutes * 60 + value.second) * 10**6 + value.microsecond
    return microseconds * 1000 if type_name == "TIME_NS" else microseconds


def _from_decimal(type_name: str, value: Decimal) -> int:
    decimal = _DECIMAL.fullmatch(type_name)
    scaled = _EXACT.scaleb(value, int(decimal[2]) if decimal else 0)
    if scaled != int(scaled):
        raise ValueError(f"{value} does not fit {type_name}")
    return int(scaled)


def _from_text(type_name: str, value: str) -> str | int:
    return _from_uuid(type_name, uuid.UUID(value)) if type_name == "UUID" else value


def _from_uuid(_type_name: str, value: uuid.UUID) -> int:
    """Convert a UUID to DuckDB's integer: with the top bit flipped, integers sort like texts."""
    return value.int - 2**127


def _from_interval(_type_name: str, value: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("months", "days", "micros"), value, strict=True))


def _from_integer(type_name: str, value: int) -> int | float:
    return float(value) if type_name in _FLOATS else value


# The first match counts: a datetime is also a date, and a bool is also an int.
_FROM_PYTHON: tuple[tuple[type, Callable[[str, Any], Any]], ...] = (
    (datetime, _from_datetime),
    (date, lambda _, value: (value - date(1970, 1, 1)).days),
    (time, _from_time),
    (Decimal, _from_decimal),
    (uuid.UUID, _from_uuid),
    (str, _from_text),
    (tuple, _from_interval),
    (bool, lambda _, value: value),
    (int, _from_integer),
    (bytes, lambda _, value: "".join(f"\\x{byte:02X}" for byte in value)),
)
