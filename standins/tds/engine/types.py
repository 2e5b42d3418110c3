"""T-SQL types: how they are written, stored in DuckDB, ranked, and described in the catalog."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from standins.tds.engine.errors import error
from standins.tds.values import SqlType


@dataclass(frozen=True)
class Kind:
    """What is the same for all types of a name. `rank` is the precedence, the higher one wins."""

    family: str
    storage: str
    rank: int
    type_id: int
    size: int = 0
    precision: int = 0
    scale: int = 0


KINDS: dict[str, Kind] = {
    "sql_variant": Kind("variant", "VARCHAR", 40, 98, 8016),
    "datetimeoffset": Kind("offset", "TIMESTAMPTZ", 38, 43, 10, 34, 7),
    "datetime2": Kind("datetime", "TIMESTAMP", 37, 42, 8, 27, 7),
    "datetime": Kind("datetime", "TIMESTAMP", 36, 61, 8, 23, 3),
    "smalldatetime": Kind("datetime", "TIMESTAMP", 35, 58, 4, 16, 0),
    "date": Kind("date", "DATE", 34, 40, 3, 10, 0),
    "time": Kind("time", "TIME", 33, 41, 5, 16, 7),
    "float": Kind("float", "DOUBLE", 32, 62, 8, 53),
    "real": Kind("float", "FLOAT", 31, 59, 4, 24),
    "decimal": Kind("decimal", "DECIMAL", 30, 106, 17, 38, 38),
    "numeric": Kind("decimal", "DECIMAL", 30, 108, 17, 38, 38),
    "money": Kind("decimal", "DECIMAL(19,4)", 29, 60, 8, 19, 4),
    "smallmoney": Kind("decimal", "DECIMAL(10,4)", 28, 122, 4, 10, 4),
    "bigint": Kind("int", "BIGINT", 27, 127, 8, 19),
    "int": Kind("int", "INTEGER", 26, 56, 4, 10),
    "smallint": Kind("int", "SMALLINT", 25, 52, 2, 5),
    "tinyint": Kind("int", "UTINYINT", 24, 48, 1, 3),
    "bit": Kind("bit", "BOOLEAN", 23, 104, 1, 1),
    "ntext": Kind("string", "VARCHAR", 22, 99, 16),
    "text": Kind("string", "VARCHAR", 21, 35, 16),
    "image": Kind("binary", "BLOB", 20, 34, 16),
    "xml": Kind("string", "VARCHAR", 39, 241, -1),
    "rowversion": Kind("binary", "BLOB", 19, 189, 8),
    "uniqueidentifier": Kind("guid", "UUID", 18, 36, 16),
    "nvarchar": Kind("string", "VARCHAR", 17, 231, 8000),
    "nchar": Kind("string", "VARCHAR", 16, 239, 8000),
    "varchar": Kind("string", "VARCHAR", 15, 167, 8000),
    "char": Kind("string", "VARCHAR", 14, 175, 8000),
    "varbinary": Kind("binary", "BLOB", 13, 165, 8000),
    "binary": Kind("binary", "BLOB", 12, 173, 8000),
    "boolean": Kind("boolean", "BOOLEAN", 0, 0),  # a predicate, never a value
}
SYNONYMS = {
    "integer": "int", "dec": "decimal", "character": "char", "character varying": "varchar",
    "timestamp": "rowversion", "double precision": "float", "varying": "varchar",
}  # fmt: skip
UNICODE = {"nvarchar", "nchar", "ntext", "xml", "sysname"}
SIZED = {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}
FRACTIONAL = {"time", "datetime2", "datetimeoffset"}
INTEGER_RANGES = {
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
MAX_DIGITS = 38
BIT, INT, BIGINT, FLOAT = SqlType("bit"), SqlType("int"), SqlType("bigint"), SqlType("float")
DATETIME, DATE = SqlType("datetime"), SqlType("date")
BOOLEAN = SqlType("boolean")
SYSNAME = SqlType("nvarchar", 128)
GUID = SqlType("uniqueidentifier")
TEXT_TYPE = re.compile(
    r"""\s*\[?(?P<name>[a-z_][a-z_0-9\ ]*?)\]?\s*
        (?:\(\s*(?P<one>\d+|max)\s*(?:,\s*(?P<two>\d+)\s*)?\))?\s*$""",
    re.IGNORECASE | re.VERBOSE,
)


def kind(sql_type: SqlType) -> Kind:
    return KINDS[sql_type.name]


def family(sql_type: SqlType) -> str:
    return KINDS[sql_type.name].family


def is_unicode(sql_type: SqlType) -> bool:
    return sql_type.name in UNICODE


def storage(sql_type: SqlType) -> str:
    if sql_type.name in ("decimal", "numeric"):
        return f"DECIMAL({sql_type.precision},{sql_type.scale})"
    return kind(sql_type).storage


@lru_cache(maxsize=2000)
def parse_type(text: str, cast: bool = False, ordinal: int = 1) -> SqlType:
    """A type as it is written in DDL; in CAST a string without a length has 30 characters."""
    found = TEXT_TYPE.match(text)
    name = found["name"].lower().strip() if found else text.strip().lower()
    name = SYNONYMS.get(name.removeprefix("sys."), name.removeprefix("sys."))
    if name == "sysname":
        return SYSNAME
    if not found or name not in KINDS or name == "boolean":
        raise error(2715, ordinal, text.strip())
    return made(name, found["one"], found["two"], cast, ordinal)


def made(name: str, one: str | None, two: str | None, cast: bool, ordinal: int = 1) -> SqlType:
    if name in ("decimal", "numeric"):
        return _decimal(name, int(one or 18), int(two or 0), ordinal)
    if name in SIZED:
        if one is not None and one.lower() == "max":
            return SqlType(name)
        return SqlType(name, int(one or (30 if cast else 1)))
    if name in FRACTIONAL:
        return SqlType(name, scale=int(one) if one is not None else 7)
    if name == "float" and one is not None:
        return SqlType("real" if int(one) <= KINDS["real"].precision else "float")
    if one is not None:
        raise error(2716, ordinal, name)
    return SqlType(name)


def _decimal(name: str, digits: int, fraction: int, ordinal: int) -> SqlType:
    if digits > MAX_DIGITS:
        raise error(2750, ordinal, digits)
    if fraction > digits:
        raise error(2751, ordinal, fraction, digits)
    return SqlType(name, precision=digits, scale=fraction)


def shown(sql_type: SqlType) -> str:
    """As T-SQL writes it."""
    if sql_type.name in SIZED:
        length = "max" if sql_type.length is None else sql_type.length
        return f"{sql_type.name}({length})"
    if sql_type.name in ("decimal", "numeric"):
        return f"{sql_type.name}({sql_type.precision},{sql_type.scale})"
    if sql_type.name in FRACTIONAL:
        return f"{sql_type.name}({sql_type.scale})"
    return sql_type.name


def max_length(sql_type: SqlType) -> int:
    """Bytes, as sys.columns has them; -1 for max."""
    if sql_type.name in SIZED:
        if sql_type.length is None:
            return -1
        return sql_type.length * (2 if is_unicode(sql_type) else 1)
    if sql_type.name in ("decimal", "numeric"):
        digits = sql_type.precision or MAX_DIGITS
        return next(
            size for limit, size in ((9, 5), (19, 9), (28, 13), (38, 17)) if digits <= limit
        )
    if sql_type.name in FRACTIONAL:
        least = {"time": 3, "datetime2": 6, "datetimeoffset": 8}[sql_type.name]
        return least + (scale(sql_type) > 2) + (scale(sql_type) > 4)
    return kind(sql_type).size


def precision(sql_type: SqlType) -> int:
    if sql_type.precision is not None:
        return sql_type.precision
    if sql_type.name in FRACTIONAL:
        whole = {"time": 8, "datetime2": 19, "datetimeoffset": 26}[sql_type.name]
        return whole + (sql_type.scale + 1 if sql_type.scale else 0)
    return kind(sql_type).precision


def scale(sql_type: SqlType) -> int:
    return sql_type.scale if sql_type.scale is not None else kind(sql_type).scale


def as_decimal(sql_type: SqlType) -> SqlType:
    """A number's type with digits, for the rules of decimal arithmetic."""
    if sql_type.name in ("decimal", "numeric"):
        return sql_type
    if family(sql_type) == "bit":
        return SqlType("decimal", precision=1, scale=0)
    return SqlType("decimal", precision=kind(sql_type).precision, scale=kind(sql_type).scale)


def unified(one: SqlType, two: SqlType) -> SqlType:
    """The type of an expression that may be either: CASE, COALESCE, UNION."""
    high, low = (one, two) if kind(one).rank >= kind(two).rank else (two, one)
    if family(high) == "decimal" and family(low) in ("decimal", "int", "bit"):
        return _unified_decimal(high, as_decimal(low))
    if family(high) == family(low) and high.name in SIZED and low.name in SIZED:
        if high.length is None or low.length is None:
            return replace(
                high,
                name=high.name.replace("char", "varchar").replace("varvar", "var"),
                length=None,
            )
        return replace(high, length=max(high.length, low.length))
    if high.name == low.name and high.name in FRACTIONAL:
        return replace(high, scale=max(scale(high), scale(low)))
    return high


def _unified_decimal(high: SqlType, low: SqlType) -> SqlType:
    if high.name in ("money", "smallmoney"):
        return high
    digits = max(scale(high), scale(low))
    whole = max(precision(high) - scale(high), precision(low) - scale(low))
    return replace(high, precision=min(MAX_DIGITS, whole + digits), scale=digits)
