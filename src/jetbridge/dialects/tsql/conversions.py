"""Which types ALTER COLUMN may change into which: where SQL Server converts as DuckDB casts.

Each row has a condition for values that SQL Server would convert otherwise, or not at all; a table
with such a value keeps its type.
"""

from collections.abc import Mapping

from jetbridge.dialects.tsql.types import Family, Kind, kind_of

_FRACTION = "{0} <> FLOOR({0})"
_NO_WHOLE = (
    "({0} LIKE N'%[^0-9]%' AND ({0} NOT LIKE N'-[0-9]%' OR "
    "SUBSTRING({0}, 2, 4000) LIKE N'%[^0-9]%')) OR {0} = N''"
)
_NO_DECIMAL = "{0} LIKE N'%[^-0-9.]%' OR {0} = N''"
_NO_FLOAT = "{0} LIKE N'%[^-+0-9.eE]%' OR {0} = N''"
_DATE = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_TIME = "[0-9][0-9]:[0-9][0-9]:[0-9][0-9]"
_NO_DATE = f"{{0}} NOT LIKE N'{_DATE}'"
_NO_MOMENT = (
    f"{{0}} NOT LIKE N'{_DATE}[ T]{_TIME}%' OR SUBSTRING({{0}}, 20, 4000) LIKE N'%[^.0-9]%'"
)

_CONDITIONS: Mapping[tuple[Family, Family], str] = {
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
    ("text", "moment"): _NO_MOMENT,
    ("date", "text"): "",
    ("date", "moment"): "",
    ("moment", "date"): "",
}
# They are written with two digits after the point.
_MONEY = ("money", "smallmoney")


def condition(old: str, new: str) -> str | None:
    """For values that forbid the change, `{0}` for the column; None if it is never possible."""
    one, other = kind_of(old), kind_of(new)
    if one.name in _MONEY and other.family == "text":
        return None
    if _alike(one, other):
        return ""
    return _CONDITIONS.get((one.family, other.family))


def _alike(one: Kind, other: Kind) -> bool:
    if one.family == "other":
        return one.name.partition("(")[0] == other.name.partition("(")[0]
    return one.family == other.family
