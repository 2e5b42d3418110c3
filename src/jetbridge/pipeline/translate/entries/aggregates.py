"""Aggregates over groups."""

from typing import Any

from jetbridge.pipeline.translate.entries.doubles import plain
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    ANY,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    FLAT,
    FLOATS,
    HUGEINT,
    INTEGERS,
    MOST_DIGITS,
    TEXT,
    Kinds,
    digits,
)
from jetbridge.pipeline.translate.entries.text import quoted

_NARROW = INTEGERS - {"BIGINT"}
_BIGINT: Kinds = frozenset({"BIGINT"})
_ORDER = "the order of the additions is not fixed in either engine, and so is the last digit"
_MEAN = "last digit: DuckDB divides in 80 bits where the machine has them"
_TIES = "where several rows tie, either engine may choose another one"
_MOMENTS = "last digits: both add in an order of their own"
_HELD = "all values of a group are in memory at once"
_LIMIT = "a sum beyond 38 digits is an error, of some rows even if others would bring it back"
_WIDE_SUM = "sum(CAST({0} AS DECIMAL(20,0)))"


def _aggregate(duckdb: str, spark: str, *takes: Kinds, **more: Any) -> Entry:
    return Entry(duckdb, spark, takes, kind="aggregate", **more)


def _finite(call: str, name: str) -> str:
    """DuckDB raises for an infinite or undefined moment, but has 0 for that of one value."""
    single = "WHEN count({0}) = 1 THEN 0D " if name.endswith("_pop") else ""
    return (
        f"CASE {single}WHEN {call} IS NULL OR abs({call}) < CAST('inf' AS DOUBLE) THEN {call} "
        "ELSE raise_error('out of range') END"
    )


def _sums() -> tuple[Entry, ...]:
    return (
        _aggregate("sum({0})", "CAST(sum({0}) AS {type})", _NARROW),
        _aggregate("sum({0})", "CAST(sum({0}) AS {type})", DECIMAL | HUGEINT, remark=_LIMIT),
        _aggregate("sum({0})", f"CAST({_WIDE_SUM} AS {{type}})", _BIGINT),
        _aggregate("sum({0})", "sum({0})", FLOATS, remark=_ORDER),
    )


def _addable(types: tuple[str, ...], result: str) -> bool:
    """DuckDB adds in 38 digits, and overflows for some windows of decimals that have as many."""
    return digits(types[0])[0] < MOST_DIGITS


def _means() -> tuple[Entry, ...]:
    found = [
        _aggregate(f"{name}({{0}})", spark, kinds, remark=_MEAN)
        for name in ("avg", "mean")
        for spark, kinds in (
            ("CAST(sum({0}) AS DOUBLE) / nullif(count({0}), 0)", _NARROW),
            (f"CAST({_WIDE_SUM} AS DOUBLE) / nullif(count({{0}}), 0)", _BIGINT),
        )
    ]
    found += [
        _aggregate(
            f"{name}({{0}})",
            "CAST(sum({0}) AS DOUBLE) / nullif(count({0}), 0)",
            DECIMAL,
            fits=_addable,
            remark=_MEAN,
        )
        for name in ("avg", "mean")
    ]
    found += [
        _aggregate(f"{name}({{0}})", "sum({0}) / nullif(count({0}), 0)", FLOATS, remark=_ORDER)
        for name in ("avg", "mean")
    ]
    return tuple(found)


def _moments() -> tuple[Entry, ...]:
    names = {
        "stddev": "stddev_samp",
        "stddev_samp": "stddev_samp",
        "stddev_pop": "stddev_pop",
        "variance": "var_samp",
        "var_samp": "var_samp",
        "var_pop": "var_pop",
    }
    return tuple(
        _aggregate(
            f"{name}({{0}})",
            _finite(f"{spark}(CAST({{0}} AS DOUBLE))", spark),
            INTEGERS | FLOATS | DECIMAL,
            fits=plain,
            remark=_MOMENTS,
        )
        for name, spark in names.items()
    )


def _quantiles() -> tuple[Entry, ...]:
    """Spark's own `percentile` interpolates by another formula.

    Of doubles not DISTINCT: of 0.0 and -0.0 either engine keeps one of its choice.
    """
    constants = {"constants": {1: portion}, "examples": {1: (0.5, 0.25, 0.9, 0, 1)}}
    any_portion = _quantile("CAST({1} AS DOUBLE)")
    return tuple(
        entry
        for values, alone in ((INTEGERS, False), (DOUBLE, True))
        for entry in (
            _aggregate("median({0})", _quantile("0.5D"), values, remark=_HELD, plain_only=alone),
            _aggregate(
                "quantile_cont({0}, {1})",
                any_portion,
                *(values, DOUBLE),
                **constants,
                remark=_HELD,
                plain_only=alone,
            ),
        )
    )


def _quantile(share: str) -> str:
    """Between the two values around the place, as DuckDB weighs them."""
    ordered = "sort_array(collect_list(CAST({0} AS DOUBLE)))"
    place = f"struct(a AS a, (size(a) - 1) * {share} AS r)"
    low, high = "s.a[CAST(floor(s.r) AS INT)]", "s.a[CAST(ceil(s.r) AS INT)]"
    between = f"{low} * (1D - (s.r - floor(s.r))) + {high} * (s.r - floor(s.r))"
    value = (
        "CASE WHEN size(s.a) = 0 THEN CAST(NULL AS DOUBLE) "
        f"WHEN floor(s.r) = ceil(s.r) THEN {low} ELSE {between} END"
    )
    return f"element_at(transform(transform(array({ordered}), a -> {place}), s -> {value}), 1)"


def portion(value: Any) -> str | None:
    number = not isinstance(value, bool | str) and value is not None
    return str(value) if number and 0 <= value <= 1 else None


def _lists() -> tuple[Entry, ...]:
    """A struct sorts by its first field; ties may come in any order."""
    found = []
    rows = "collect_list(struct({1} IS %s AS a, {1} AS b, {0} AS c))"
    upward = f"sort_array({rows % 'NULL'})"
    downward = f"sort_array({rows % 'NOT NULL'}, false)"
    for order, spark in (("", upward), (" ASC", upward), (" DESC", downward)):
        for name in ("list", "array_agg"):
            found.append(
                _aggregate(
                    f"{name}({{0}} ORDER BY {{1}}{order})",
                    f"nullif(transform({spark}, each -> each.c), array())",
                    *(FLAT - HUGEINT, FLAT - HUGEINT),
                    remark=_TIES,
                )
            )
        ending = {"": "", " ASC": "", " DESC": " DESC"}[order]
        for name in ("string_agg", "group_concat", "listagg"):
            found.append(
                _aggregate(
                    f"{name}({{0}}, {{2}} ORDER BY {{1}}{order})",
                    f"listagg({{0}}, {{2}}) WITHIN GROUP (ORDER BY {{1}}{ending} NULLS LAST)",
                    *(TEXT, FLAT - HUGEINT, TEXT),
                    constants={2: quoted},
                    examples={2: (",", " é ")},
                    remark=_TIES,
                    plain_only=True,
                )
            )
    return tuple(found)


def _extremes() -> tuple[Entry, ...]:
    """DuckDB leaves out rows without a value, Spark those without a key only."""
    names = {"min_by": ("arg_min", "argmin", "min_by"), "max_by": ("arg_max", "argmax", "max_by")}
    key = "CASE WHEN {0} IS NOT NULL THEN {1} END"
    ordered = FLAT - HUGEINT
    values = ordered - FLOATS
    return tuple(
        _aggregate(f"{name}({{0}}, {{1}})", f"{spark}({{0}}, {key})", values, ordered, remark=_TIES)
        for spark, theirs in names.items()
        for name in theirs
    )


ENTRIES: tuple[Entry, ...] = (
    _aggregate("count(*)", "count(*)"),
    _aggregate("count()", "count(*)"),
    _aggregate("count({0})", "count({0})", ANY),
    *_sums(),
    *_means(),
    _aggregate("min({0})", "min({0})", FLAT),
    _aggregate("max({0})", "max({0})", FLAT),
    _aggregate("bool_and({0})", "bool_and({0})", BOOLEAN),
    _aggregate("bool_or({0})", "bool_or({0})", BOOLEAN),
    *(
        _aggregate(f"{name}({{0}})", "CAST(sum(CAST({0} AS INT)) AS {type})", BOOLEAN)
        for name in ("count_if", "countif")
    ),
    *(
        _aggregate(f"{name}({{0}})", f"{name}({{0}})", INTEGERS)
        for name in ("bit_and", "bit_or", "bit_xor")
    ),
    *_moments(),
    *_quantiles(),
    *_extremes(),
    *_lists(),
)
