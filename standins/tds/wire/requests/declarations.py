"""Declarations of parameters, as sp_executesql and its like get them: `@P1 int,@P2 bit`."""

import re
from typing import NamedTuple

from standins.tds.values import SqlError, SqlType

_ONE = re.compile(
    r"""\s*(?P<name>@[\w@$\#]+)\s+(?:AS\s+)?
        (?:\[?sys\]?\s*\.\s*)?\[?(?P<type>\w+)\]?
        (?:\s*\(\s*(?P<first>max|\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?
        (?P<output>\s+OUT(?:PUT)?)?\s*(?:,|$)""",
    re.IGNORECASE | re.VERBOSE,
)
_DECIMALS = ("decimal", "numeric")
_TIMES = ("time", "datetime2", "datetimeoffset")
_STRINGS = ("char", "varchar", "nchar", "nvarchar", "binary", "varbinary")
_OTHER_NAMES = {
    "integer": "int",
    "dec": "decimal",
    "sysname": "nvarchar",
    "ntext": "nvarchar",
    "text": "varchar",
    "image": "varbinary",
}
_LARGEST_REAL = 24


class Declared(NamedTuple):
    name: str
    type: SqlType
    output: bool


def parse(text: str) -> tuple[Declared, ...]:
    found: list[Declared] = []
    at = 0
    while text[at:].strip():
        match = _ONE.match(text, at)
        if match is None:
            raise SqlError(102, f"Incorrect syntax near '{text[at:].strip()[:20]}'.", 15)
        kind = _type(match["type"].lower(), match["first"], match["second"])
        found.append(Declared(match["name"], kind, bool(match["output"])))
        at = match.end()
    return tuple(found)


def _type(name: str, first: str | None, second: str | None) -> SqlType:
    if name == "sysname":
        return SqlType("nvarchar", 128)
    name = _OTHER_NAMES.get(name, name)
    if name in _DECIMALS:
        return SqlType(name, None, int(first or 18), int(second or 0))
    if name in _TIMES:
        return SqlType(name, None, None, int(first or 7))
    if name in _STRINGS:
        return SqlType(name, None if (first or "1").lower() == "max" else int(first or 1))
    if name == "float" and first is not None and int(first) <= _LARGEST_REAL:
        return SqlType("real")
    return SqlType(name)
