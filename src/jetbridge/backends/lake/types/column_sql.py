"""Renders one column as SQL over `iceberg_scan`."""

from functools import cached_property

import pyarrow as pa

from jetbridge.backends.lake.types.nested_types import (
    bare,
    children,
    names_fit,
    shape_of,
    speakable,
    with_lists,
)
from jetbridge.backends.lake.types.storage_types import CAST, CAST_BY_TEXT, kept, type_name
from jetbridge.dialects.quoting import identifier, literal


class ColumnSql:
    """Render a column: `logical` as clients have it, `stored` as a data file holds it."""

    def __init__(self, logical: pa.Field, stored: pa.Field) -> None:
        self._logical, self._stored = logical, stored

    @cached_property
    def select(self) -> str:
        """Return the value for an answer."""
        return self._expression(guarded=False)

    @cached_property
    def condition(self) -> str:
        """Return the value for filters and joins."""
        return self._expression(guarded=True)

    @cached_property
    def exact(self) -> bool:
        """Return whether `condition` has the type that clients see."""
        return speakable(self._logical.type) and self._delivered(guarded=True) is self._logical

    def _expression(self, *, guarded: bool) -> str:
        logical = self._delivered(guarded=guarded)
        return _value(identifier(self._stored.name), logical, self._stored, guarded=guarded)

    def _delivered(self, *, guarded: bool) -> pa.Field:
        """Return the column that DuckDB can deliver: it has no CASE for arrays inside a value."""
        if _is_cast(self._logical, self._stored, guarded=guarded):
            return self._logical
        inner = children(self._logical.type)
        if any(with_lists(child) is not child for child in inner):
            return with_lists(self._logical)
        return self._logical


def _value(sql: str, logical: pa.Field, stored: pa.Field, *, guarded: bool, depth: int = 0) -> str:
    """Return the value that a client sees; `sql` itself if that is what is stored."""
    shape = shape_of(logical.type)
    if not shape:
        return _leaf(sql, logical, stored, guarded=guarded)
    if _is_cast(logical, stored, guarded=guarded):
        return f"CAST({sql} AS {type_name(logical)})" if _changes(logical, stored) else sql
    if shape == "union":
        return _union(sql, logical, stored, guarded=guarded, depth=depth)
    if shape == "struct":
        return _struct(sql, logical, stored, guarded=guarded, depth=depth)
    # Files are not skipped by what is inside a list or a map.
    return (
        _list(sql, logical, stored, depth) if shape == "list" else _map(sql, logical, stored, depth)
    )


def _leaf(sql: str, logical: pa.Field, stored: pa.Field, *, guarded: bool) -> str:
    name, row = kept(logical, stored.type)
    if guarded and name in {"FLOAT", "DOUBLE"}:
        return f"if(isnan({sql}), CAST('nan' AS {name}), {sql})"
    return row.read.format(x=sql, type=name) if row.read else sql


def _struct(sql: str, logical: pa.Field, stored: pa.Field, *, guarded: bool, depth: int) -> str:
    inner, others = children(logical.type), children(stored.type)
    values = [
        _value(f"struct_extract_at({sql}, {i})", one, other, guarded=guarded, depth=depth)
        for i, (one, other) in enumerate(zip(inner, others, strict=True), 1)
    ]
    names = [field.name for field in (inner if names_fit(logical.type) else others)]
    packed = ", ".join(f"{identifier(n)} := {v}" for n, v in zip(names, values, strict=True))
    return f"CASE WHEN {sql} IS NULL THEN NULL ELSE struct_pack({packed}) END"


def _list(sql: str, logical: pa.Field, stored: pa.Field, depth: int) -> str:
    (inner,), (others,) = children(logical.type), children(stored.type)
    name = f"e{depth}"
    value = _value(name, inner, others, guarded=False, depth=depth + 1)
    text = sql if value == name else f"list_transform({sql}, lambda {name}: {value})"
    if pa.types.is_fixed_size_list(bare(logical.type)) and speakable(logical.type):
        return f"CAST({text} AS {type_name(logical)})"
    return text


def _map(sql: str, logical: pa.Field, stored: pa.Field, depth: int) -> str:
    name = f"e{depth}"
    key, value = (
        _value(f"{name}.{part}", one, other, guarded=False, depth=depth + 1)
        for part, one, other in zip(
            ("key", "value"), children(logical.type), children(stored.type), strict=True
        )
    )
    if (key, value) == (f"{name}.key", f"{name}.value"):
        return sql
    pack = f"lambda {name}: struct_pack(key := {key}, value := {value})"
    return f"map_from_entries(list_transform(map_entries({sql}), {pack}))"


def _union(sql: str, logical: pa.Field, stored: pa.Field, *, guarded: bool, depth: int) -> str:
    inner, (_, *others) = children(logical.type), children(stored.type)
    kind = type_name(logical)
    whens = []
    for i, (one, other) in enumerate(zip(inner, others, strict=True), 2):
        value = _value(f"struct_extract_at({sql}, {i})", one, other, guarded=guarded, depth=depth)
        member = f"CAST(union_value({identifier(one.name)} := {value}) AS {kind})"
        whens.append(f"WHEN {literal(one.name)} THEN {member}")
    return f"CASE struct_extract_at({sql}, 1) {' '.join(whens)} END"


def _is_cast(logical: pa.Field, stored: pa.Field, *, guarded: bool) -> bool:
    return _castable(logical, stored) and not (guarded and _has_floats(logical))


def _castable(logical: pa.Field, stored: pa.Field) -> bool:
    """Return whether one CAST, or nothing, makes the value."""
    shape = shape_of(logical.type)
    if not shape:
        return kept(logical, stored.type)[1].read in {"", CAST, CAST_BY_TEXT}
    inner, others = children(logical.type), children(stored.type)
    if shape == "union" or len(inner) != len(others):
        return False
    if shape == "struct" and [f.name for f in inner] != [f.name for f in others]:
        return False
    return all(_castable(one, other) for one, other in zip(inner, others, strict=True))


def _changes(logical: pa.Field, stored: pa.Field) -> bool:
    """Return whether DuckDB's type differs from that of the storage."""
    if pa.types.is_fixed_size_list(bare(logical.type)):
        return True
    inner, others = children(logical.type), children(stored.type)
    if not inner:
        return bool(kept(logical, stored.type)[1].read)
    return any(_changes(one, other) for one, other in zip(inner, others, strict=True))


def _has_floats(logical: pa.Field) -> bool:
    """Return whether the field, or a struct in it, has floats."""
    if shape_of(logical.type) in {"struct", "union"}:
        return any(_has_floats(child) for child in children(logical.type))
    return not shape_of(logical.type) and kept(logical)[0] in {"FLOAT", "DOUBLE"}
