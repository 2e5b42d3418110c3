"""The DuckDB inside: it judges and runs SQL expressions over Arrow data, and nothing else."""

from jetbridge.duckdb_engine.casts import cast, explicit_cast, format_value
from jetbridge.duckdb_engine.duplicate_keys import find_duplicate_key, find_existing_key
from jetbridge.duckdb_engine.stored_expressions.check import (
    Expression,
    check_expression,
    check_filter,
    default_expression,
    may_be_stored,
    parse,
    renamed,
    row_expression,
)
from jetbridge.duckdb_engine.stored_expressions.evaluation import (
    computed,
    default_values,
    evaluate,
    first_violation,
    mask,
    microseconds,
)
from jetbridge.duckdb_engine.types import duckdb_type, is_ordinal, is_text
from jetbridge.runtime.array_sizes import expands, null_bytes, plain_bytes

__all__ = [
    "Expression",
    "cast",
    "check_expression",
    "check_filter",
    "computed",
    "default_expression",
    "default_values",
    "duckdb_type",
    "evaluate",
    "expands",
    "explicit_cast",
    "find_existing_key",
    "find_duplicate_key",
    "first_violation",
    "is_ordinal",
    "is_text",
    "mask",
    "may_be_stored",
    "microseconds",
    "null_bytes",
    "parse",
    "plain_bytes",
    "renamed",
    "row_expression",
    "format_value",
]
