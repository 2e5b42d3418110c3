"""Names DuckDB's types in SQL, from their parts or from a serialised LogicalType.

The JSON is `{"id": "DECIMAL", "type_info": {"type": "DECIMAL_TYPE_INFO", "width": 12, …}}`, with
`type_info` null for a plain type. A user-defined alias is in `type_info.alias`.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Node = dict[str, Any]
T = TypeVar("T")

# How deep types, constants and expressions together may nest; Python's own stack is the limit.
MAX_DEPTH = 100
MAX_DECIMAL_WIDTH = 38

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_TIMES = ("DATE", "TIME", "TIME_NS", "TIME WITH TIME ZONE", "INTERVAL")
_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
_OTHERS = ("BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "UUID", "BIT", "BIGNUM", "NULL")
PLAIN = frozenset(
    {*_INTEGERS, *(f"U{name}" for name in _INTEGERS), *_TIMES, *_TIMESTAMPS, *_OTHERS}
    | {"TIMESTAMP WITH TIME ZONE"}
)

# (id, alias): JSON is stored as VARCHAR, but casts to and from it parse and print.
ALIASES = {("VARCHAR", "JSON"): "JSON"}


def _quote(text: str, mark: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark


def list_of(element: str) -> str:
    return f"{element}[]"


def array_of(element: str, size: int) -> str:
    return f"{element}[{size}]"


def map_of(key: str, value: str) -> str:
    return f"MAP({key}, {value})"


def struct_of(fields: Iterable[tuple[str, str]]) -> str:
    columns = (f"{_quote(name, chr(34))} {field_type}" for name, field_type in fields)
    return "STRUCT(" + ", ".join(columns) + ")"


def enum_of(labels: Iterable[str]) -> str:
    return "ENUM(" + ", ".join(_quote(label, "'") for label in labels) + ")"


def kind_of(type_name: str) -> str:
    """Return the family of a type: `DECIMAL` of `DECIMAL(12,2)`, `LIST` of lists and arrays."""
    return "LIST" if type_name.endswith("]") else type_name.partition("(")[0]


class UnsupportedFilter(Exception):  # noqa: N818 - never reaches a caller of the server
    """Report a part of a filter without an equal in `expr`; the filter around it must widen."""


def member(node: Node, key: str, expected: type[T]) -> T:
    """Return a member of a JSON object; raise UnsupportedFilter if it has another type."""
    value = node.get(key)
    if type(value) is not expected:  # isinstance would take True for an integer
        raise UnsupportedFilter(key)
    return value


def members(node: Node, key: str) -> list[Node]:
    """Return a member that is a list of JSON objects; raise UnsupportedFilter otherwise."""
    values = member(node, key, list)
    if not all(type(value) is dict for value in values):
        raise UnsupportedFilter(key)
    return values


def text(value: object) -> str:
    """Return a string that can be a name in SQL; JSON escapes can hold what SQL text cannot."""
    if type(value) is not str or "\0" in value or not encodable(value):
        raise UnsupportedFilter("text")
    return value


def encodable(value: str) -> bool:
    """Return whether a string is valid Unicode; `json` accepts a lone surrogate."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def type_name(node: Node, depth: int = 0) -> str:
    """Return the SQL name of a LogicalType; raise UnsupportedFilter for a type without one."""
    if depth > MAX_DEPTH:
        raise UnsupportedFilter("depth")
    name, info = member(node, "id", str), node.get("type_info") or {}
    if type(info) is not dict:
        raise UnsupportedFilter("type_info")
    if info.get("alias"):
        alias = ALIASES.get((name, str(info["alias"])))
        if not alias:
            raise UnsupportedFilter("alias")
        return alias
    if name in NESTED:
        return NESTED[name](info, depth + 1)
    # A collation in `type_info` is not needed: the binder has turned it into functions.
    if name not in PLAIN:
        raise UnsupportedFilter(name)
    return name


def _decimal(info: Node, _depth: int) -> str:
    width, scale = member(info, "width", int), member(info, "scale", int)
    if not 0 <= scale <= width <= MAX_DECIMAL_WIDTH:
        raise UnsupportedFilter("DECIMAL")
    return f"DECIMAL({width},{scale})"


def _list(info: Node, depth: int) -> str:
    return list_of(type_name(member(info, "child_type", dict), depth))


def _array(info: Node, depth: int) -> str:
    return array_of(type_name(member(info, "child_type", dict), depth), member(info, "size", int))


def fields_of(info: Node, depth: int) -> list[tuple[str, str]]:
    """Return the names and types of a STRUCT's fields; row(…) has no names, and no SQL name."""
    fields = [
        (text(field.get("first")), type_name(member(field, "second", dict), depth))
        for field in members(info, "child_types")
    ]
    if not fields or not all(name for name, _ in fields):
        raise UnsupportedFilter("unnamed fields")
    return fields


def _struct(info: Node, depth: int) -> str:
    return struct_of(fields_of(info, depth))


def _map(info: Node, depth: int) -> str:
    # In DuckDB, a MAP is a list of STRUCT(key, value).
    pair = member(member(info, "child_type", dict), "type_info", dict)
    fields = fields_of(pair, depth)
    if [name for name, _ in fields] != ["key", "value"]:
        raise UnsupportedFilter("MAP")
    return map_of(fields[0][1], fields[1][1])


def _enum(info: Node, _depth: int) -> str:
    return enum_of([text(label) for label in member(info, "values", list)])


NESTED: dict[str, Callable[[Node, int], str]] = {
    "DECIMAL": _decimal,
    "LIST": _list,
    "ARRAY": _array,
    "STRUCT": _struct,
    "MAP": _map,
    "ENUM": _enum,
}
