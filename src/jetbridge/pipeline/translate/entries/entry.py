"""What one verified translation is."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# The text of a literal's value in Spark SQL, or None where that value cannot be translated.
Constant = Callable[[Any], str | None]
Kinds = frozenset[str]


@dataclass(frozen=True, eq=False)
class Entry:
    """One verified translation: a pattern in DuckDB SQL, and the same in Spark SQL.

    Both hold {0}, {1}, ... for arguments; `takes` says for each which DuckDB kinds it may have.
    The type DECIMAL in a pattern (`CAST({0} AS DECIMAL)`) stands for decimals of any digits.
    `spark` may hold {type}: what Spark calls the type that DuckDB plans for the result. It puts
    brackets around arguments only where a function does: they come in brackets.
    `constants`: arguments that must be literals in the query, each with a function that gives the
    Spark SQL text for the literal's Python value, or None if that value cannot be translated.
    `examples`: for those arguments, the values the tests use (at least two).
    `fits`: a further condition on the DuckDB types of the arguments and of the result.
    `remark`: what a reader has to know; "last digit" where a double may differ in that.
    `plain_only`: an aggregate that stands alone: no DISTINCT, FILTER or OVER around it.
    Several entries may have one pattern; the first whose types and constants fit is taken.
    """

    duckdb: str
    spark: str
    takes: tuple[Kinds, ...] = ()
    constants: Mapping[int, Constant] = field(default_factory=dict)
    examples: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    fits: Callable[[tuple[str, ...], str], bool] | None = None
    kind: Literal["scalar", "aggregate", "window"] = "scalar"
    remark: str = ""
    plain_only: bool = False


# All aggregate and window functions that templates use.
CALLS = frozenset(
    [
        "any_value",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bool_and",
        "bool_or",
        "collect_list",
        "corr",
        "count",
        "count_if",
        "covar_pop",
        "covar_samp",
        "cume_dist",
        "dense_rank",
        "first_value",
        "kurtosis",
        "lag",
        "last_value",
        "lead",
        "listagg",
        "max",
        "max_by",
        "median",
        "min",
        "min_by",
        "mode",
        "nth_value",
        "ntile",
        "percent_rank",
        "percentile",
        "percentile_cont",
        "percentile_disc",
        "rank",
        "row_number",
        "skewness",
        "stddev_pop",
        "stddev_samp",
        "sum",
        "try_sum",
        "var_pop",
        "var_samp",
    ]
)
_NAME = re.compile(r"\b([a-z_]+)\(")


def around(template: str, *, distinct: bool = False, behind: str = "") -> str:
    """A template with DISTINCT in, and FILTER, IGNORE NULLS or OVER behind its aggregate calls.

    To be used before the arguments are put in, for these may hold aggregates of their own.
    """
    text, start = "", 0
    for found in _NAME.finditer(template):
        if found[1] in CALLS and found.start() >= start:
            end = _closing(template, found.end())
            word = "DISTINCT " if distinct else ""
            text += template[start : found.end()] + word + template[found.end() : end] + ")"
            text, start = text + behind, end + 1
    return text + template[start:]


def _closing(text: str, at: int) -> int:
    """Where the bracket closes that opened just before `at`; templates quote no brackets."""
    depth = 1
    while True:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1
