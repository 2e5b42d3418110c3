"""Reads DuckDB's serialised Value as a `Constant`.

The JSON is `{"type": LogicalType, "is_null": false, "value": …}`. DuckDB 1.5 writes as `value`:

- `{"upper": …, "lower": …}` for 128-bit integers, wide DECIMALs and UUIDs, with the top bit of a
  UUID flipped so that it sorts like a signed integer;
- the text that DuckDB prints for a BLOB, with `\\xAA` for all but plain ASCII;
- NaN and Infinity without quotes, which no JSON standard allows;
- `{"children": [Value, …]}` for nested values, and the position of its label for an ENUM;
- raw bytes for BIT and BIGNUM, which are rarely UTF-8, so that DuckDB fails to write them.
"""

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from jetbridge.duckdb_syntax.types import (
    MAX_DEPTH,
    Node,
    UnsupportedFilter,
    encodable,
    fields_of,
    kind_of,
    member,
    members,
    type_name,
)
from jetbridge.expr import Constant

_INT32, _INT64 = 2**31 - 1, 2**63 - 1

# The smallest and the largest value; DuckDB cannot read the text of others.
RANGES: dict[str, tuple[int, int]] = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), _INT32),
    "BIGINT": (-(2**63), _INT64),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UHUGEINT": (0, 2**128 - 1),
    "DATE": (-_INT32, _INT32),
    "TIME": (0, 86_400 * 10**6),
    "TIME_NS": (0, 86_400 * 10**9),
    # 290309-12-22 (BC), the first day that is whole in 64 bits of microseconds.
    "TIMESTAMP_S": (-9_223_372_022_400, 9_223_372_036_854),
    "TIMESTAMP_MS": (-9_223_372_022_400_000, 9_223_372_036_854_775),
    "TIMESTAMP": (-9_223_372_022_400_000_000, _INT64),
    "TIMESTAMP WITH TIME ZONE": (-9_223_372_022_400_000_000, _INT64),
    # 1677-09-22: the day before is not whole in 64 bits, and its text cannot be cast.
    "TIMESTAMP_NS": (-9_223_286_400_000_000_000, _INT64),
}
INFINITIES = frozenset({_INT64, -_INT64})
TIMESTAMPS = frozenset(name for name in RANGES if name.startswith("TIMESTAMP"))

MAX_TIMETZ_OFFSET = 2 * 57599
PRINTED_BLOB = re.compile(r"(?:[ -\[\]-~]|\\x[0-9A-Fa-f]{2})*")


def constant(node: Node, depth: int = 0) -> Constant:
    """Return a Value as a Constant; raise UnsupportedFilter if `Constant` has no form for it."""
    if depth > MAX_DEPTH:
        raise UnsupportedFilter("depth")
    type_node = member(node, "type", dict)
    data_type = type_name(type_node, depth)
    if member(node, "is_null", bool):
        return Constant(data_type, None)
    read = READERS.get(kind_of(data_type))
    if not read:
        raise UnsupportedFilter(data_type)
    return Constant(data_type, read(node, data_type, depth + 1))


def _integer(node: Node, data_type: str, _depth: int) -> int:
    value = _whole(node)
    low, high = RANGES[data_type]
    if not low <= value <= high and not (data_type in TIMESTAMPS and value in INFINITIES):
        raise UnsupportedFilter(data_type)
    return value


def _whole(node: Node) -> int:
    value = node.get("value")
    if type(value) is dict:
        return (member(value, "upper", int) << 64) + member(value, "lower", int)
    return member(node, "value", int)


def _boolean(node: Node, _type_name: str, _depth: int) -> bool:
    return member(node, "value", bool)


def _float(node: Node, _type_name: str, _depth: int) -> float:
    return member(node, "value", float)


def _string(node: Node, _type_name: str, _depth: int) -> str:
    value = member(node, "value", str)
    if not encodable(value):
        raise UnsupportedFilter("text")
    return value


def _decimal(node: Node, data_type: str, _depth: int) -> int:
    value, width = _whole(node), int(data_type[len("DECIMAL(") :].partition(",")[0])
    if abs(value) >= 10**width:
        raise UnsupportedFilter(data_type)
    return value


def _blob(node: Node, _type_name: str, _depth: int) -> bytes:
    printed = member(node, "value", str)
    if not PRINTED_BLOB.fullmatch(printed):
        raise UnsupportedFilter("BLOB")
    return printed.encode().decode("unicode_escape").encode("latin-1")


def _uuid(node: Node, _type_name: str, _depth: int) -> str:
    value = _whole(node) + 2**127
    if not 0 <= value < 2**128:
        raise UnsupportedFilter("UUID")
    return str(UUID(int=value))


def _interval(node: Node, _type_name: str, _depth: int) -> tuple[int, int, int]:
    value = member(node, "value", dict)
    months, days = member(value, "months", int), member(value, "days", int)
    micros = member(value, "micros", int)
    # DuckDB cannot read the text of the lowest values.
    if not (abs(months) <= _INT32 and abs(days) <= _INT32 and abs(micros) <= _INT64):
        raise UnsupportedFilter("INTERVAL")
    return months, days, micros


def _timetz(node: Node, _type_name: str, _depth: int) -> int:
    value = _whole(node)
    if not (0 <= value >> 24 <= RANGES["TIME"][1] and value & 0xFFFFFF <= MAX_TIMETZ_OFFSET):
        raise UnsupportedFilter("TIME WITH TIME ZONE")
    return value


def _enum(node: Node, _type_name: str, _depth: int) -> str:
    labels: list[str] = node["type"]["type_info"]["values"]
    position = member(node, "value", int)
    if not 0 <= position < len(labels):
        raise UnsupportedFilter("ENUM")
    return labels[position]


def _children(node: Node, depth: int) -> list[Constant]:
    return [constant(child, depth) for child in members(member(node, "value", dict), "children")]


def _list(node: Node, _type_name: str, depth: int) -> tuple[Constant, ...]:
    return tuple(_children(node, depth))


def _struct(node: Node, _type_name: str, depth: int) -> tuple[tuple[str, Constant], ...]:
    names = [name for name, _ in fields_of(node["type"]["type_info"], depth)]
    children = _children(node, depth)
    if len(names) != len(children):
        raise UnsupportedFilter("STRUCT")
    return tuple(zip(names, children, strict=True))


def _map(node: Node, _type_name: str, depth: int) -> tuple[tuple[Constant, Constant], ...]:
    pairs = [child.value for child in _children(node, depth)]
    if not all(type(pair) is tuple and len(pair) == len(("key", "value")) for pair in pairs):
        raise UnsupportedFilter("MAP")
    return tuple((key[1], value[1]) for key, value in pairs)


READERS: dict[str, Callable[[Node, str, int], Any]] = {
    **dict.fromkeys(RANGES, _integer),
    "BOOLEAN": _boolean,
    "FLOAT": _float,
    "DOUBLE": _float,
    "VARCHAR": _string,
    "JSON": _string,
    "DECIMAL": _decimal,
    "BLOB": _blob,
    "UUID": _uuid,
    "INTERVAL": _interval,
    "TIME WITH TIME ZONE": _timetz,
    "ENUM": _enum,
    "LIST": _list,
    "STRUCT": _struct,
    "MAP": _map,
}
