"""Operators on numbers.

DuckDB raises for an integer that overflows, and so does Spark in its ANSI mode. Division by zero
never raises in DuckDB: `/` is IEEE division of doubles, the others answer NULL.
"""

from collections.abc import Callable, Iterator, Sequence

from jetbridge.pipeline.translate.entries.doubles import (
    FLOAT_OF,
    as_double,
    divided,
    plain,
    split,
    split_double,
)
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    DECIMAL,
    DOUBLE,
    EXACT,
    FLOAT,
    FLOATS,
    HUGEINT,
    INTEGERS,
    KEPT_SCALE,
    MOST_DIGITS,
    WHOLE,
    Kinds,
    digits,
    is_exact,
)


def _sum_fits(types: tuple[str, ...], result: str) -> bool:
    """DuckDB makes a decimal of a HUGEINT, and fails for a large one beside NULL as well."""
    if not is_exact(result):
        return False
    precision, scale = digits(result)
    if "HUGEINT" in types and scale:
        return False
    return precision < MOST_DIGITS or scale <= KEPT_SCALE


def _product_fits(types: tuple[str, ...], result: str) -> bool:
    pairs = [digits(each) for each in types]
    precision, scale = (sum(each) for each in zip(*pairs, strict=True))
    return is_exact(result) and (precision < MOST_DIGITS or scale <= KEPT_SCALE)


INTEGER_PAIRS: tuple[tuple[Kinds, Kinds], ...] = ((INTEGERS, INTEGERS),)
DECIMAL_PAIRS = ((DECIMAL, EXACT), (WHOLE, DECIMAL), (HUGEINT, WHOLE), (INTEGERS, HUGEINT))
FLOAT_PAIRS = ((FLOATS, FLOATS), (FLOATS, INTEGERS), (INTEGERS, FLOATS))
# Doubles, with what DuckDB makes doubles of beside them.
MIXED_PAIRS = ((DOUBLE, DECIMAL | HUGEINT), (DECIMAL | HUGEINT, DOUBLE))
DOUBLE_PAIRS = ((EXACT, EXACT), (DOUBLE, EXACT), (EXACT, DOUBLE), (DOUBLE, FLOATS), (FLOAT, DOUBLE))

_A, _B = "CAST({0} AS {type})", "CAST({1} AS {type})"


def _of_doubles(pattern: str, spark: str, pairs: Sequence[tuple[Kinds, Kinds]]) -> Iterator[Entry]:
    """`spark` has {a} and {b} for the arguments as doubles."""
    for pair in pairs:
        mere = spark.replace("{a}", as_double("{0}")).replace("{b}", as_double("{1}"))
        yield Entry(pattern, mere, pair, fits=plain)
        if any(DECIMAL & each for each in pair):
            first, second = (
                split_double(mark) if DECIMAL & kinds else as_double(mark)
                for mark, kinds in zip(("{0}", "{1}"), pair, strict=True)
            )
            yield Entry(
                pattern, spark.replace("{a}", first).replace("{b}", second), pair, fits=split
            )


def _operators(
    sign: str, exact: str, fits: Callable[[tuple[str, ...], str], bool]
) -> Sequence[Entry]:
    pattern, same = f"{{0}} {sign} {{1}}", f"{_A} {sign} {_B}"
    return (
        *(Entry(pattern, same, pair) for pair in (*INTEGER_PAIRS, *FLOAT_PAIRS)),
        *(Entry(pattern, exact, pair, fits=fits) for pair in DECIMAL_PAIRS),
        *_of_doubles(pattern, f"{{a}} {sign} {{b}}", MIXED_PAIRS),
    )


def _divisions() -> tuple[Entry, ...]:
    floats = (FLOAT, FLOAT), (FLOAT, INTEGERS), (INTEGERS, FLOAT)
    narrow = f"CAST({divided(FLOAT_OF.format('{0}'), FLOAT_OF.format('{1}'))} AS FLOAT)"
    whole = f"CAST({_A} DIV nullif({_B}, 0) AS {{type}})"
    fractions = (*DOUBLE_PAIRS[1:], (DECIMAL, EXACT), (INTEGERS, DECIMAL))
    return (
        *_of_doubles("{0} / {1}", divided("{a}", "{b}"), DOUBLE_PAIRS),
        *(Entry("{0} / {1}", narrow, pair) for pair in floats),
        Entry("{0} // {1}", whole, (INTEGERS, INTEGERS)),
        # In DuckDB 1.5 a quotient that is not rounded, but NULL for a divisor of zero.
        *_of_doubles("{0} // {1}", "{a} / nullif({b}, 0)", fractions),
    )


def _remainders() -> tuple[Entry, ...]:
    # DuckDB raises for the least integer and -1, as for their quotient.
    whole = f"CASE WHEN {{1}} = -1 THEN CAST(0 * -{_A} AS {{type}}) ELSE {_A} % nullif({_B}, 0) END"
    exact = f"CAST({_A} % nullif({_B}, 0) AS {{type}})"
    nan = "CAST('NaN' AS {type})"
    floats = f"CASE WHEN {{1}} = 0 THEN {_A} * {nan} ELSE {_A} % {_B} END"
    pairs = (DECIMAL, INTEGERS | DECIMAL), (INTEGERS, DECIMAL)
    return tuple(
        entry
        for pattern in ("{0} % {1}", "mod({0}, {1})")
        for entry in (
            Entry(pattern, whole, (INTEGERS, INTEGERS)),
            *(Entry(pattern, exact, pair, fits=_sum_fits) for pair in pairs),
            *(Entry(pattern, floats, pair) for pair in FLOAT_PAIRS),
        )
    )


def _bits() -> tuple[Entry, ...]:
    return (
        *(Entry(f"{{0}} {sign} {{1}}", f"{_A} {sign} {_B}", (INTEGERS, INTEGERS)) for sign in "&|"),
        Entry("xor({0}, {1})", f"{_A} ^ {_B}", (INTEGERS, INTEGERS)),
        Entry("~{0}", "~{0}", (INTEGERS,)),
    )


ENTRIES: tuple[Entry, ...] = (
    *_operators("+", f"CAST({_A} + {_B} AS {{type}})", _sum_fits),
    *_operators("-", f"CAST({_A} - {_B} AS {{type}})", _sum_fits),
    *_operators("*", "CAST({0} * {1} AS {type})", _product_fits),
    *_divisions(),
    *_remainders(),
    Entry("-{0}", "-{0}", (INTEGERS | FLOATS,)),
    # Spark's minus rounds a decimal to 34 digits.
    Entry("-{0}", "CAST(CAST(0 AS {type}) - {0} AS {type})", (DECIMAL,), fits=_sum_fits),
    Entry("+{0}", "+{0}", (INTEGERS | FLOATS | DECIMAL,)),
    *_bits(),
)
