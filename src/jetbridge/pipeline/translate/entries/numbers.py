"""Functions of numbers."""

from typing import Any

from jetbridge.pipeline.translate.entries.doubles import as_double, plain
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    DECIMAL,
    DOUBLE,
    EXACT,
    FLOATS,
    INTEGERS,
    Kinds,
    digits,
)

LAST_DIGIT = "last digit: Java's and C's functions round differently"
_FEW_DIGITS = 15
_REAL: Kinds = FLOATS | INTEGERS | DECIMAL


def refused(condition: str, otherwise: str) -> str:
    """Raises, as DuckDB does, where the condition is true."""
    return f"CASE WHEN {condition} THEN raise_error('out of range') ELSE {otherwise} END"


def floor_of(number: str) -> str:
    """Spark's floor of a double is a BIGINT; this one keeps large values and the sign of zero."""
    return f"(CASE WHEN rint({number}) > {number} THEN rint({number}) - 1 ELSE rint({number}) END)"


def ceil_of(number: str) -> str:
    return f"-{floor_of(f'(-{number})')}"


def rounded(number: str) -> str:
    """Half away from zero; Spark's rint rounds half to even."""
    up = f"rint(abs({number})) + if(abs({number}) - rint(abs({number})) = 0.5D, 1, 0)"
    return f"(CASE WHEN {number} = 0 THEN {number} WHEN {number} < 0 THEN -({up}) ELSE {up} END)"


def power_of_ten(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _FEW_DIGITS:
        return f"1e{value}D"
    return None


def digits_behind(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _FEW_DIGITS:
        return str(value)
    return None


def _keeps_scale(types: tuple[str, ...], result: str) -> bool:
    """DuckDB rounds a decimal to its own digits at most."""
    return result.startswith("DECIMAL") and digits(result)[1] <= digits(types[0])[1]


def _rounding() -> tuple[Entry, ...]:
    whole = "CAST({} AS {{type}})"
    scaled = rounded("(CAST({0} AS DOUBLE) * {1})")
    examples = {1: (0, 1, 2, 5)}
    cut = f"CASE WHEN {{0}} < 0 THEN {ceil_of('{0}')} ELSE {floor_of('{0}')} END"
    cut_exact = "CASE WHEN {0} < 0 THEN ceil({0}) ELSE floor({0}) END"
    return (
        *(Entry(f"{name}({{0}})", whole.format(ceil_of("{0}")), (FLOATS,)) for name in _CEIL),
        *(Entry(f"{name}({{0}})", "CAST(ceil({0}) AS {type})", (DECIMAL,)) for name in _CEIL),
        Entry("floor({0})", whole.format(floor_of("{0}")), (FLOATS,)),
        Entry("floor({0})", "CAST(floor({0}) AS {type})", (DECIMAL,)),
        Entry("round({0})", whole.format(rounded("{0}")), (FLOATS,)),
        Entry("round({0})", "CAST(round({0}, 0) AS {type})", (DECIMAL,)),
        Entry(
            "round({0}, {1})",
            f"CASE WHEN abs({scaled} / {{1}}) < CAST('inf' AS DOUBLE) "
            f"THEN {scaled} / {{1}} ELSE {{0}} END",
            (DOUBLE, INTEGERS),
            {1: power_of_ten},
            examples,
        ),
        Entry(
            "round({0}, {1})",
            "CAST(round({0}, {1}) AS {type})",
            (DECIMAL, INTEGERS),
            {1: digits_behind},
            examples,
            fits=_keeps_scale,
        ),
        Entry("trunc({0})", whole.format(cut), (FLOATS,)),
        Entry("trunc({0})", f"CAST({cut_exact} AS {{type}})", (DECIMAL,)),
        *(
            Entry(f"{name}({{0}})", "CAST({0} AS {type})", (INTEGERS,))
            for name in (*_CEIL, "floor", "round", "trunc")
        ),
    )


# Java has NaN for 1 ** NaN and for (-1) ** infinity, C has 1.
_POWER = (
    "CASE WHEN CAST({0} AS DOUBLE) = 1 AND {1} IS NOT NULL THEN 1D "
    "WHEN CAST({0} AS DOUBLE) = -1 AND abs(CAST({1} AS DOUBLE)) = CAST('inf' AS DOUBLE) THEN 1D "
    "ELSE power(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE)) END"
)
_CEIL = ("ceil", "ceiling")


def _of_double(pattern: str, spark: str, remark: str = LAST_DIGIT) -> tuple[Entry, ...]:
    """`spark` has {x} for the argument as a double; decimals of many digits are not taken."""
    text = spark.replace("{x}", as_double("{0}"))
    return (Entry(f"{pattern}({{0}})", text, (_REAL,), fits=plain, remark=remark),)


def _functions() -> tuple[Entry, ...]:
    small = "{x} <= 0"
    infinite = "abs({x}) = CAST('inf' AS DOUBLE)"
    outside = "abs({x}) > 1 AND NOT isnan({x})"
    return (
        *_of_double("sqrt", refused("{x} < 0", "sqrt({x})"), remark=""),
        *_of_double("cbrt", "cbrt({x})"),
        *_of_double("exp", "exp({x})"),
        *(e for n in ("ln",) for e in _of_double(n, refused(small, "ln({x})"))),
        *(e for n in ("log", "log10") for e in _of_double(n, refused(small, "log10({x})"))),
        *_of_double("log2", refused(small, "log2({x})")),
        *(
            e
            for n in ("sin", "cos", "tan")
            for e in _of_double(n, refused(infinite, f"{n}({{x}})"))
        ),
        *(e for n in ("asin", "acos") for e in _of_double(n, refused(outside, f"{n}({{x}})"))),
        *_of_double("atan", "atan({x})"),
        *(e for n in ("degrees", "radians") for e in _of_double(n, f"{n}({{x}})")),
        *(
            Entry(pattern, _POWER, (_REAL, _REAL), fits=plain, remark=LAST_DIGIT)
            for pattern in _POWERS
        ),
    )


_SIGN = "CAST(CASE WHEN {0} > 0 THEN 1 WHEN {0} < 0 THEN -1 WHEN {0} = 0 THEN 0 END AS {type})"
_POWERS = ("{0} ** {1}", "{0} ^ {1}", "power({0}, {1})", "pow({0}, {1})")

ENTRIES: tuple[Entry, ...] = (
    Entry("abs({0})", "abs({0})", (INTEGERS | FLOATS,)),
    # Spark's abs rounds a decimal to 34 digits.
    Entry(
        "abs({0})",
        "CASE WHEN {0} < 0 THEN CAST(CAST(0 AS {type}) - {0} AS {type}) ELSE {0} END",
        (DECIMAL,),
    ),
    *_rounding(),
    Entry("sign({0})", _SIGN, (EXACT,)),
    Entry("sign({0})", _SIGN.replace("CASE", "CASE WHEN isnan({0}) THEN 0"), (FLOATS,)),
    *_functions(),
    Entry("pi()", "pi()"),
    Entry("isnan({0})", "CASE WHEN {0} IS NOT NULL THEN isnan({0}) END", (FLOATS,)),
    Entry("isinf({0})", "abs({0}) = CAST('inf' AS DOUBLE)", (FLOATS,)),
    Entry("isfinite({0})", "abs({0}) < CAST('inf' AS DOUBLE)", (FLOATS,)),
)
