"""Defaults of new columns for rows that are there: Iceberg's `initial-default`."""

import math
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.catalog.values import default_of

# Types whose constants every engine reads alike.
_SIMPLE = ("boolean", "int", "long", "double", "string")


class NoConstantError(Exception):
    """The default is not the same for every row, or of a type that must be written out."""


def constant(column: pa.Field, kind: Any) -> Any:
    """The value as JSON, None for NULL."""
    text = default_of(column)
    if text is None:
        return None
    if kind not in _SIMPLE or not _is_constant(text):
        raise NoConstantError
    value = duckdb_engine.default_values(text, column, 1)[0].as_py()
    if isinstance(value, float) and not math.isfinite(value):
        raise NoConstantError
    return value


def _is_constant(text: str) -> bool:
    """No function, so nothing that may differ by row or moment."""
    return duckdb_engine.parse(text).classes <= {"", "CONSTANT"}
