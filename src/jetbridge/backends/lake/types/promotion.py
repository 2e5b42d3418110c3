"""Changes of a column's type for which its files stay as they are."""

import re

import pyarrow as pa

from jetbridge.backends.lake.types.nested_types import children, shape_of, stored_names
from jetbridge.backends.lake.types.storage_types import kept
from jetbridge.duckdb_syntax.types import kind_of

# Each type, and those that hold all its values, in a storage type that is the same or that
# Iceberg widens: int to long, float to double. Digits of decimals are below.
_WIDER: dict[str, frozenset[str]] = {
    "TINYINT": frozenset({"SMALLINT", "INTEGER", "BIGINT"}),
    "SMALLINT": frozenset({"INTEGER", "BIGINT"}),
    "INTEGER": frozenset({"BIGINT"}),
    "UTINYINT": frozenset({"USMALLINT", "UINTEGER", "SMALLINT", "INTEGER", "BIGINT"}),
    "USMALLINT": frozenset({"UINTEGER", "INTEGER", "BIGINT"}),
    "UINTEGER": frozenset({"BIGINT"}),
    "FLOAT": frozenset({"DOUBLE"}),
    # The text of other types is not always what CAST makes of them: Spark may have written it.
    "JSON": frozenset({"VARCHAR"}),
    "TIMESTAMP_S": frozenset({"TIMESTAMP_MS", "TIMESTAMP"}),
    "TIMESTAMP_MS": frozenset({"TIMESTAMP"}),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def promotes(old: pa.Field, new: pa.Field) -> bool:
    """Whether old files, read as the new type, give what DuckDB's CAST makes of their values.

    Structs are compared by the names of their fields; new ones are NULL in old files.
    """
    shape = shape_of(old.type)
    if shape != shape_of(new.type):
        return False
    if not shape:
        return _widens(old, new)
    if shape == "struct":
        return _struct(old, new)
    if shape == "union":
        return bool(old.type == new.type)
    if shape == "map":
        return _map(old, new)
    return _list(old, new)


def _widens(old: pa.Field, new: pa.Field) -> bool:
    (before, _), (after, _) = kept(old), kept(new)
    if before == after or after in _WIDER.get(kind_of(before), ()):
        return True
    one, other = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if one is None or other is None:
        return False
    return int(one[1]) <= int(other[1]) and one[2] == other[2]


def _struct(old: pa.Field, new: pa.Field) -> bool:
    before, after = (_by_stored_name(field) for field in (old, new))
    both = [name for name in after if name in before]
    return bool(both) and all(promotes(before[name], after[name]) for name in both)


def _by_stored_name(field: pa.Field) -> dict[str, pa.Field]:
    inner = children(field.type)
    return dict(zip(stored_names([each.name for each in inner]), inner, strict=True))


def _map(old: pa.Field, new: pa.Field) -> bool:
    (key, value), (new_key, new_value) = children(old.type), children(new.type)
    # Iceberg lets nobody change a key.
    same = shape_of(key.type) == "" and shape_of(new_key.type) == "" and kept(key) == kept(new_key)
    return (same or key.type == new_key.type) and promotes(value, new_value)


def _list(old: pa.Field, new: pa.Field) -> bool:
    """An ARRAY becomes a LIST, but a LIST no ARRAY: its lengths may be any."""
    if pa.types.is_fixed_size_list(new.type) and not (
        pa.types.is_fixed_size_list(old.type) and old.type.list_size == new.type.list_size
    ):
        return False
    (inner,), (wanted,) = children(old.type), children(new.type)
    return promotes(inner, wanted)
