"""Constants: DuckDB computes them, so that Spark need not."""

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from jetbridge.dialects.spark import literal
from jetbridge.pipeline.translate.bound import type_of
from jetbridge.pipeline.translate.types import NULL, kind, spark_type
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.work import Work

_COMPUTED = (
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Neg,
    exp.Paren,
    exp.Cast,
    exp.TryCast,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Interval,
)
_PARTS = (exp.DataType, exp.DataTypeParam, exp.Var, exp.Identifier)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
_FLOATS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def is_constant(node: exp.Expr) -> bool:
    """Whether DuckDB may compute it beforehand."""
    if isinstance(node, _PARTS):
        return True
    return isinstance(node, _COMPUTED) and all(map(is_constant, node.iter_expressions()))


def constant_text(work: Work, node: exp.Expr, duckdb_type: str) -> str:
    """Spark SQL for a constant that has this DuckDB type."""
    node = node.unnest()
    if isinstance(node, exp.Null) or duckdb_type == NULL:
        return "NULL" if duckdb_type == NULL else f"CAST(NULL AS {spark_type(duckdb_type)})"
    if isinstance(node, exp.Literal) and node.is_string and duckdb_type == "VARCHAR":
        return literal(node.this)
    if node.is_int and duckdb_type == type_of(node):
        return _integer(str(node.to_py()), duckdb_type)
    value = work.constant(node.sql("duckdb"), duckdb_type)
    if value is None:
        return f"CAST(NULL AS {spark_type(duckdb_type)})"
    writer = _WRITERS.get(kind(duckdb_type))
    if writer is None:
        raise Untranslatable(f"a constant of type {duckdb_type}")
    return writer(value, duckdb_type)


def _integer(value: str, duckdb_type: str) -> str:
    return value if duckdb_type == "INTEGER" else f"CAST({value} AS {spark_type(duckdb_type)})"


def _decimal(value: str, duckdb_type: str) -> str:
    return f"CAST({value}BD AS {spark_type(duckdb_type)})"


def _float(value: str, duckdb_type: str) -> str:
    return f"CAST({literal(_FLOATS.get(value, value))} AS {spark_type(duckdb_type)})"


def _text(value: str, duckdb_type: str) -> str:
    return literal(value)


def _boolean(value: str, duckdb_type: str) -> str:
    return "true" if value == "true" else "false"


def _date(value: str, duckdb_type: str) -> str:
    if not _DATE.fullmatch(value):
        raise Untranslatable(f"the date {value}")
    return f"DATE {literal(value)}"


def _timestamp(value: str, duckdb_type: str) -> str:
    if not _TIMESTAMP.fullmatch(value):
        raise Untranslatable(f"the timestamp {value}")
    return f"TIMESTAMP_NTZ {literal(value)}"


def _moment(value: str, duckdb_type: str) -> str:
    at = value.removesuffix("+00")
    if at == value or not _TIMESTAMP.fullmatch(at):
        raise Untranslatable(f"the moment {value}")
    return f"TIMESTAMP {literal(f'{at} UTC')}"


_WRITERS: dict[str, Callable[[str, str], str]] = {
    "TINYINT": _integer,
    "SMALLINT": _integer,
    "INTEGER": _integer,
    "BIGINT": _integer,
    "HUGEINT": _decimal,
    "DECIMAL": _decimal,
    "FLOAT": _float,
    "DOUBLE": _float,
    "VARCHAR": _text,
    "BOOLEAN": _boolean,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP WITH TIME ZONE": _moment,
}


class NoValue(Exception):
    """The expression is no literal."""


def python_value(node: exp.Expr) -> Any:
    """What a literal means in Python, for entries that look at it; raises NoValue."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        return -python_value(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if not isinstance(node, exp.Literal):
        raise NoValue
    if node.is_string:
        return node.this
    try:
        return int(node.this) if node.this.isdigit() else Decimal(node.this)
    except InvalidOperation:
        raise NoValue from None
