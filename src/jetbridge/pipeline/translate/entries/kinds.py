"""The kinds of DuckDB types that entries take, and what a type says about its digits."""

import re

Kinds = frozenset[str]

INTEGERS: Kinds = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
HUGEINT: Kinds = frozenset({"HUGEINT"})
WHOLE: Kinds = INTEGERS | HUGEINT
DECIMAL: Kinds = frozenset({"DECIMAL"})
FLOAT: Kinds = frozenset({"FLOAT"})
DOUBLE: Kinds = frozenset({"DOUBLE"})
FLOATS: Kinds = FLOAT | DOUBLE
EXACT: Kinds = WHOLE | DECIMAL
NUMBERS: Kinds = EXACT | FLOATS
BOOLEAN: Kinds = frozenset({"BOOLEAN"})
TEXT: Kinds = frozenset({"VARCHAR"})
BLOB: Kinds = frozenset({"BLOB"})
DATE: Kinds = frozenset({"DATE"})
TIMESTAMP: Kinds = frozenset({"TIMESTAMP"})
MOMENT: Kinds = frozenset({"TIMESTAMP WITH TIME ZONE"})
TIMES: Kinds = DATE | TIMESTAMP | MOMENT
FLAT: Kinds = NUMBERS | BOOLEAN | TEXT | BLOB | TIMES
LIST: Kinds = frozenset({"LIST"})
STRUCT: Kinds = frozenset({"STRUCT"})
ANY: Kinds = FLAT | LIST | STRUCT

# Spark holds no more digits; a HUGEINT may have 39.
MOST_DIGITS = 38
# So many digits behind the point Spark keeps in every sum and product.
KEPT_SCALE = 6
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 20, "HUGEINT": MOST_DIGITS}


def digits(duckdb_type: str) -> tuple[int, int]:
    """Precision and scale of an exact number, integers as Spark counts them."""
    found = _DECIMAL.fullmatch(duckdb_type)
    if found:
        return int(found[1]), int(found[2])
    return _DIGITS[duckdb_type], 0


def is_exact(duckdb_type: str) -> bool:
    return duckdb_type in _DIGITS or _DECIMAL.fullmatch(duckdb_type) is not None
