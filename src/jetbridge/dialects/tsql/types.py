"""Describes types of SQL Server, their constants and their conversions.

A family is a set of types whose values SQL Server and DuckDB compare in the same way.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Literal
from uuid import UUID

Family = Literal[
    "whole", "decimal", "float", "real", "bit", "text", "uuid", "date", "timestamp", "zoned",
    "time", "other",
]  # fmt: skip

MOST_DIGITS = 38
EQUALITY = frozenset({"=", "<>"})
ORDER = EQUALITY | {"<", "<=", ">", ">="}
_TYPE = re.compile(r"\s*(\w+)\s*(?:\(\s*(\w+)\s*(?:,\s*(\d+)\s*)?\))?\s*")
_WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_DECIMAL = {"money": (19, 4), "smallmoney": (10, 4)}
_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(_WHOLE, "whole"),
    **dict.fromkeys(("decimal", "numeric", *_DECIMAL), "decimal"),
    "float": "float",
    "real": "real",
    "bit": "bit",
    "nvarchar": "text",
    "varchar": "text",
    "uniqueidentifier": "uuid",
    "date": "date",
    "datetime2": "timestamp",
    "datetimeoffset": "zoned",
    "time": "time",
}
_TIMESTAMPS = ("timestamp", "zoned", "time")


@dataclass(frozen=True)
class Kind:
    """Describe a type. `digits` and `scale` are those of exact numbers.

    For times, `scale` is the number of digits after the second.
    """

    name: str
    family: Family
    digits: int = 0
    scale: int = 0


def kind_of(text: str) -> Kind:
    """Return the kind of a declared type such as `decimal(10,2)`."""
    match = _TYPE.fullmatch(text)
    if match is None:
        return Kind(text, "other")
    name = match[1].lower()
    family = _FAMILIES.get(name, "other")
    if name in _WHOLE:
        return Kind(name, family, _WHOLE[name])
    if family == "decimal":
        digits, scale = _DECIMAL.get(name, (int(match[2] or 18), int(match[3] or 0)))
        return Kind(name, family, digits, scale)
    if family in _TIMESTAMPS:
        return Kind(name, family, scale=int(match[2] or 7))
    return Kind(name, family)


# Pairs of families that compare by value in both systems. Other pairs are not tested.
_TOGETHER: Mapping[frozenset[Family], frozenset[str]] = {
    frozenset({"whole"}): ORDER,
    frozenset({"decimal"}): ORDER,
    frozenset({"whole", "decimal"}): ORDER,
    frozenset({"float"}): ORDER,
    frozenset({"float", "whole"}): ORDER,
    frozenset({"float", "real"}): ORDER,
    frozenset({"real"}): ORDER,
    frozenset({"bit"}): EQUALITY,
    frozenset({"text"}): EQUALITY,
    # SQL Server sorts UUIDs by their last bytes.
    frozenset({"uuid"}): EQUALITY,
    frozenset({"date"}): ORDER,
    frozenset({"timestamp"}): ORDER,
    frozenset({"date", "timestamp"}): ORDER,
    frozenset({"zoned"}): ORDER,
    frozenset({"time"}): ORDER,
}


def comparable(left: Kind, right: Kind, op: str) -> bool:
    if op not in _TOGETHER.get(frozenset({left.family, right.family}), ()):
        return False
    if {left.family, right.family} <= {"whole", "decimal"}:
        # If no type holds both values, DuckDB truncates digits.
        whole = max(left.digits - left.scale, right.digits - right.scale)
        return whole + max(left.scale, right.scale) <= MOST_DIGITS
    return True


_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"
_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)"


def _date(text: str) -> str:
    return date.fromisoformat(text).isoformat()


def _timestamp(text: str) -> str:
    return datetime.fromisoformat(text).isoformat()


def _time(text: str) -> str:
    return time.fromisoformat(text).isoformat()


def _uuid(text: str) -> str:
    return str(UUID(text))


_CANONICAL: Mapping[Family, tuple[re.Pattern[str], Callable[[str], str]]] = {
    "date": (re.compile(_DATE), _date),
    "timestamp": (re.compile(f"{_DATE}(?:[ T]{_TIME})?"), _timestamp),
    # Without a zone, the value would depend on the zone of the session.
    "zoned": (re.compile(f"{_DATE}[ T]{_TIME} ?{_ZONE}"), _timestamp),
    "time": (re.compile(_TIME), _time),
    "uuid": (re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"), _uuid),
}


def canonical_constant(text: str, family: Family) -> str | None:
    """Return a constant in the form that both servers read in any language, or None."""
    pattern, canonical = _CANONICAL.get(family, (None, None))
    if pattern is None or canonical is None or pattern.fullmatch(text) is None:
        return None
    try:
        return canonical(text.replace(" +", "+").replace(" -", "-") if family == "zoned" else text)
    except ValueError:
        return None


# Which types ALTER COLUMN may convert into which: those where SQL Server converts as DuckDB casts.
# A condition finds values that SQL Server would convert in another way or not at all.
_FRACTION = "{0} <> FLOOR({0})"
_NO_WHOLE = (
    "({0} LIKE N'%[^0-9]%' AND ({0} NOT LIKE N'-[0-9]%' OR "
    "SUBSTRING({0}, 2, 4000) LIKE N'%[^0-9]%')) OR {0} = N''"
)
_NO_DECIMAL = "{0} LIKE N'%[^-0-9.]%' OR {0} = N''"
_NO_FLOAT = "{0} LIKE N'%[^-+0-9.eE]%' OR {0} = N''"
_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_CLOCK = "[0-9][0-9]:[0-9][0-9]:[0-9][0-9]"
_NO_DATE = f"{{0}} NOT LIKE N'{_DAY}'"
_NO_TIMESTAMP = (
    f"{{0}} NOT LIKE N'{_DAY}[ T]{_CLOCK}%' OR SUBSTRING({{0}}, 20, 4000) LIKE N'%[^.0-9]%'"
)

_CHANGES: Mapping[tuple[Family, Family], str] = {
    ("whole", "decimal"): "",
    ("whole", "float"): "",
    ("whole", "real"): "",
    ("whole", "bit"): "",
    ("whole", "text"): "",
    ("bit", "whole"): "",
    ("decimal", "whole"): _FRACTION,
    ("decimal", "float"): "",
    ("decimal", "real"): "",
    ("decimal", "text"): "",
    ("float", "whole"): _FRACTION,
    ("real", "whole"): _FRACTION,
    ("real", "float"): "",
    ("float", "real"): "",
    ("text", "whole"): _NO_WHOLE,
    ("text", "decimal"): _NO_DECIMAL,
    ("text", "float"): _NO_FLOAT,
    ("text", "real"): _NO_FLOAT,
    ("text", "date"): _NO_DATE,
    ("text", "timestamp"): _NO_TIMESTAMP,
    ("date", "text"): "",
    ("date", "timestamp"): "",
    ("timestamp", "date"): "",
}
# SQL Server converts these to strings with two digits after the point.
_MONEY = ("money", "smallmoney")


def change_condition(old: str, new: str) -> str | None:
    """Return a condition for values that forbid the change of type, or None if it is impossible.

    The condition has {0} in place of the column.
    """
    one, other = kind_of(old), kind_of(new)
    if one.name in _MONEY and other.family == "text":
        return None
    if _alike(one, other):
        return ""
    return _CHANGES.get((one.family, other.family))


def _alike(one: Kind, other: Kind) -> bool:
    if one.family == "other":
        return one.name.partition("(")[0] == other.name.partition("(")[0]
    return one.family == other.family
