"""Names the storage type of each flat type of DuckDB, and the types it promotes to."""

import re
from typing import NamedTuple

import pyarrow as pa

from jetbridge.backends.lake.types.nested_types import children, plain, shape_of, stored_names
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_syntax.types import kind_of
from jetbridge.errors import BadRequest


class StorageType(NamedTuple):
    """Describe how a type of DuckDB is stored.

    `write` makes the stored value in DuckDB SQL; it is empty if Arrow's own cast does. `read`
    restores the value from the stored one; it is empty if they are the same.
    """

    iceberg: str
    write: str = ""
    read: str = ""
    remark: str = ""


# DuckDB does it at any depth: a CAST of a list is one of its elements.
CAST = "CAST({x} AS {type})"
# The same value in a fifth of the time: DuckDB divides a decimal of more than 18 digits by one.
CAST_BY_TEXT = "CAST(CAST({x} AS VARCHAR) AS {type})"


def _cast(iceberg: str, remark: str = "", *, text: bool = False) -> StorageType:
    return StorageType(iceberg, "CAST({x} AS VARCHAR)" if text else "", CAST, remark)


# DuckDB drops the hours of an offset below an hour that has seconds: 00:00:00+00:00:01 is printed
# as 00:00:00+00:01. So the offset is spelled out.
_OFFSET = "date_part('timezone', {x})"
_TIMETZ = (
    f"CAST(CAST({{x}} AS TIME) AS VARCHAR) || CASE WHEN {_OFFSET} < 0 THEN '-' ELSE '+' END || "
    f"printf('%02d:%02d:%02d', abs({_OFFSET}) // 3600, abs({_OFFSET}) // 60 % 60, "
    f"abs({_OFFSET}) % 60)"
)
# In units that Spark reads, too.
_INTERVAL = (
    "(date_part('year', {x}) * 12 + date_part('month', {x})) || ' months ' || "
    "date_part('day', {x}) || ' days ' || (date_part('hour', {x}) * 3600000000 + "
    "date_part('minute', {x}) * 60000000 + date_part('microsecond', {x})) || ' microseconds'"
)
DURATION = "INTERVAL (Arrow duration)"

# One row for each type of DuckDB that is no list, struct, map or union.
KEPT: dict[str, StorageType] = {
    "BOOLEAN": StorageType("boolean"),
    "TINYINT": _cast("int"),
    "SMALLINT": _cast("int"),
    "INTEGER": StorageType("int", remark="also a column of Arrow's null type"),
    "BIGINT": StorageType("long"),
    "UTINYINT": _cast("int"),
    "USMALLINT": _cast("int"),
    "UINTEGER": _cast("long"),
    "UBIGINT": StorageType("decimal(20,0)", read=CAST_BY_TEXT),
    "HUGEINT": _cast("string", "its digits", text=True),
    "UHUGEINT": _cast("string", "its digits", text=True),
    "BIGNUM": _cast("string", "its digits", text=True),
    "FLOAT": StorageType("float"),
    "DOUBLE": StorageType("double"),
    "DECIMAL": StorageType(
        "decimal({digits})", remark="a value with more digits than its type is refused"
    ),
    "VARCHAR": StorageType("string", remark="also ENUM, which is VARCHAR to a client"),
    "JSON": _cast("string", "as it was written; what is no JSON is refused", text=True),
    "BLOB": StorageType("binary"),
    "BIT": _cast("string", "`0` and `1`", text=True),
    "UUID": StorageType("uuid"),
    "DATE": StorageType("date", remark="`infinity` and `-infinity` are the last and first day"),
    "TIME": _cast("string", "`12:34:56.789012`; Spark has no Iceberg time", text=True),
    "TIME_NS": _cast("string", "`12:34:56.789012345`", text=True),
    "TIME WITH TIME ZONE": StorageType("string", _TIMETZ, CAST, "`12:34:56+02:30:00`"),
    "TIMESTAMP": StorageType("timestamp", remark="infinities are the last and first microsecond"),
    "TIMESTAMP_S": StorageType(
        "timestamp",
        "CAST({x} AS TIMESTAMP)",
        CAST,
        "from the year 290309 BC to 294247, others are refused",
    ),
    "TIMESTAMP_MS": StorageType(
        "timestamp",
        "CAST({x} AS TIMESTAMP)",
        CAST,
        "from the year 290309 BC to 294247, others are refused",
    ),
    "TIMESTAMP_NS": _cast(
        "string", "`2020-01-01 01:02:03.456789012`, from 1677-09-22 on", text=True
    ),
    "TIMESTAMP WITH TIME ZONE": StorageType(
        "timestamptz", remark="a fraction of a microsecond (Arrow) is refused"
    ),
    "INTERVAL": StorageType(
        "string",
        _INTERVAL,
        CAST,
        "`14 months 3 days 5 microseconds`; a fraction of a microsecond (Arrow) is refused",
    ),
    DURATION: StorageType(
        "long", "", "to_microseconds({x})", "microseconds; at most 292 years, others are refused"
    ),
    "GEOMETRY": StorageType(
        "binary",
        "ST_AsWKB({x})",
        "CAST(ST_GeomFromWKB({x}) AS {type})",
        "WKB, little-endian; other bytes are refused",
    ),
}


def type_name(field: pa.Field) -> str:
    """Return DuckDB's name of the type of a field; raises BadRequest with the column if none."""
    # DuckDB takes the numbers of a dictionary for the values if it stands in an array.
    return duckdb_type(plain(field))


def kept(field: pa.Field, stored: pa.DataType | None = None) -> tuple[str, StorageType]:
    """Return DuckDB's type of a flat field, and its row; raises BadRequest if it has none.

    `stored` is the type in the table: that of another engine may have a time of Iceberg.
    """
    name = DURATION if pa.types.is_duration(field.type) else type_name(field)
    kind = kind_of(name) if name != DURATION else name
    row = KEPT.get(kind)
    if row is None:
        raise BadRequest(f"column {field.name!r}: type {name} cannot be stored in an Iceberg table")
    if kind == "DECIMAL":
        row = row._replace(iceberg=row.iceberg.format(digits=name[len("DECIMAL(") : -1]))
    if stored == field.type and pa.types.is_temporal(field.type):
        row = row._replace(write="", read="")
    return name, row


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
    """Return whether old files, read as the new type, give the values of DuckDB's CAST.

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
    return dict(zip(stored_names([child.name for child in inner]), inner, strict=True))


def _map(old: pa.Field, new: pa.Field) -> bool:
    (key, value), (new_key, new_value) = children(old.type), children(new.type)
    # Iceberg lets nobody change a key.
    same = shape_of(key.type) == "" and shape_of(new_key.type) == "" and kept(key) == kept(new_key)
    return (same or key.type == new_key.type) and promotes(value, new_value)


def _list(old: pa.Field, new: pa.Field) -> bool:
    """Promote an ARRAY to a LIST, but never a LIST to an ARRAY: its lengths may differ."""
    if pa.types.is_fixed_size_list(new.type) and not (
        pa.types.is_fixed_size_list(old.type) and old.type.list_size == new.type.list_size
    ):
        return False
    (before,), (after,) = children(old.type), children(new.type)
    return promotes(before, after)
