"""Comparison. Text is compared by its UTF-8 bytes in both; NaN equals itself and is greatest."""

from collections.abc import Callable, Iterator

from jetbridge.pipeline.translate.entries.doubles import as_double, plain, split, split_double
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    BLOB,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    EXACT,
    FLOAT,
    FLOATS,
    INTEGERS,
    LIST,
    MOMENT,
    MOST_DIGITS,
    STRUCT,
    TEXT,
    TIMESTAMP,
    Kinds,
    digits,
)

Fits = Callable[[tuple[str, ...], str], bool] | None
_PATTERNS = {
    "{0} = {1}": "{0} = {1}",
    "{0} <> {1}": "{0} <> {1}",
    "{0} < {1}": "{0} < {1}",
    "{0} <= {1}": "{0} <= {1}",
    "{0} > {1}": "{0} > {1}",
    "{0} >= {1}": "{0} >= {1}",
    "{0} IS NOT DISTINCT FROM {1}": "{0} <=> {1}",
    "{0} IS DISTINCT FROM {1}": "NOT ({0} <=> {1})",
}
_EQUALITY = ("{0} = {1}", "{0} <> {1}", "{0} IS NOT DISTINCT FROM {1}", "{0} IS DISTINCT FROM {1}")


def common(types: tuple[str, ...], result: str) -> bool:
    """Both have a common type of at most 38 digits; else either engine loses some, or raises."""
    pairs = [digits(each) for each in types]
    return max(p - s for p, s in pairs) + max(s for _, s in pairs) <= MOST_DIGITS


def _doubles(types: tuple[str, ...], result: str) -> bool:
    return plain(types, "DOUBLE")


def _split(types: tuple[str, ...], result: str) -> bool:
    return split(types, "DOUBLE")


def _equal(types: tuple[str, ...], result: str) -> bool:
    return types[0] == types[1]


def _compared(
    first: str, second: str, takes: tuple[Kinds, Kinds], fits: Fits = None
) -> Iterator[Entry]:
    for duckdb, spark in _PATTERNS.items():
        text = spark.replace("{0}", first).replace("{1}", second)
        yield Entry(duckdb, text, takes, fits=fits)


_SAME = (
    *((kinds, kinds) for kinds in (BOOLEAN, TEXT, BLOB, DATE, TIMESTAMP, MOMENT, FLOATS)),
    *((DATE, TIMESTAMP), (TIMESTAMP, DATE), (DATE, MOMENT), (MOMENT, DATE)),
    *((TIMESTAMP, MOMENT), (MOMENT, TIMESTAMP)),
    *((DOUBLE, INTEGERS), (INTEGERS, DOUBLE)),
)

_WIDE = EXACT - INTEGERS

ENTRIES: tuple[Entry, ...] = (
    *(entry for takes in _SAME for entry in _compared("{0}", "{1}", takes)),
    *_compared("{0}", "{1}", (EXACT, EXACT), common),
    *_compared("CAST({0} AS FLOAT)", "{1}", (INTEGERS, FLOAT)),
    *_compared("{0}", "CAST({1} AS FLOAT)", (FLOAT, INTEGERS)),
    *_compared(as_double("{0}"), "{1}", (_WIDE, DOUBLE), _doubles),
    *_compared("{0}", as_double("{1}"), (DOUBLE, _WIDE), _doubles),
    *_compared(split_double("{0}"), "{1}", (DECIMAL, DOUBLE), _split),
    *_compared("{0}", split_double("{1}"), (DOUBLE, DECIMAL), _split),
    *(
        Entry(each, _PATTERNS[each], (kind, kind), fits=_equal)
        for kind in (LIST, STRUCT)
        for each in _EQUALITY
    ),
)
