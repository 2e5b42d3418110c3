"""Aggregates over groups."""

from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    ANY,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    FLAT,
    INTEGERS,
    Kinds,
)

_NARROW = INTEGERS - {"BIGINT"}
_BIGINT: Kinds = frozenset({"BIGINT"})
_ORDER = "the order of additions, and with it the last digit, is not fixed in either engine"


def _aggregate(duckdb: str, spark: str, *takes: Kinds, remark: str = "") -> Entry:
    return Entry(duckdb, spark, takes, kind="aggregate", remark=remark)


ENTRIES: tuple[Entry, ...] = (
    _aggregate("count(*)", "count(*)"),
    _aggregate("count({0})", "count({0})", ANY),
    _aggregate("sum({0})", "CAST(sum({0}) AS {type})", _NARROW),
    _aggregate("sum({0})", "CAST(sum(CAST({0} AS DECIMAL(20,0))) AS {type})", _BIGINT),
    _aggregate("sum({0})", "CAST(sum({0}) AS {type})", DECIMAL),
    _aggregate("sum({0})", "sum({0})", DOUBLE, remark=_ORDER),
    _aggregate("avg({0})", "avg({0})", DOUBLE, remark=_ORDER),
    _aggregate("avg({0})", "CAST(sum({0}) AS DOUBLE) / nullif(count({0}), 0)", _NARROW),
    _aggregate(
        "avg({0})",
        "CAST(sum(CAST({0} AS DECIMAL(20,0))) AS DOUBLE) / nullif(count({0}), 0)",
        _BIGINT,
        remark="last digit",
    ),
    _aggregate(
        "avg({0})", "CAST(sum({0}) AS DOUBLE) / nullif(count({0}), 0)", DECIMAL, remark="last digit"
    ),
    _aggregate("min({0})", "min({0})", FLAT),
    _aggregate("max({0})", "max({0})", FLAT),
    _aggregate("bool_and({0})", "bool_and({0})", BOOLEAN),
    _aggregate("bool_or({0})", "bool_or({0})", BOOLEAN),
)
