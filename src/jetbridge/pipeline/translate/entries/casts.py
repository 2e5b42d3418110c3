"""Casts between flat types. Both engines raise for a value that the type does not hold."""

from collections.abc import Callable, Iterator

from jetbridge.pipeline.translate.entries.doubles import (
    FLOAT_OF,
    as_double,
    plain,
    split,
    split_double,
)
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
    MOMENT,
    NUMBERS,
    TEXT,
    TIMES,
    TIMESTAMP,
    WHOLE,
    digits,
)
from jetbridge.pipeline.translate.entries.numbers import refused, rounded

_WHOLE_BITS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
_CUT = "the greatest INTEGER and a half is an error; DuckDB makes the least INTEGER of it"
# So many digits a BIGINT holds.
_BIGINT_DIGITS = 18


def _to_whole() -> Iterator[Entry]:
    """DuckDB rounds a decimal half away from zero, a double half to even; Spark cuts both."""
    for name, bits in _WHOLE_BITS.items():
        cast, attempt = f"CAST({{0}} AS {name})", f"TRY_CAST({{0}} AS {name})"
        for pattern, word in ((cast, "CAST"), (attempt, "try_cast")):
            yield Entry(pattern, f"{word}({{0}} AS {{type}})", (WHOLE | BOOLEAN,))
            yield Entry(pattern, f"{word}(round({{0}}, 0) AS {{type}})", (DECIMAL,))
        # DuckDB looks at the range before it rounds.
        within = f"{{0}} >= {-float(2**bits)!r}D AND {{0}} < {float(2**bits)!r}D"
        number = "CAST(rint({0}) AS {type})"
        yield Entry(cast, refused(f"NOT ({within})", number), (FLOATS,), remark=_CUT)
        yield Entry(attempt, f"CASE WHEN {within} THEN {number} END", (FLOATS,), remark=_CUT)


def _few_digits(scale: int) -> Callable[[tuple[str, ...], str], bool]:
    def fits(types: tuple[str, ...], result: str) -> bool:
        precision, behind = digits(result)
        return precision <= _BIGINT_DIGITS and behind == scale

    return fits


def _to_decimal() -> Iterator[Entry]:
    yield Entry("CAST({0} AS DECIMAL)", "CAST({0} AS {type})", (EXACT | BOOLEAN,))
    yield Entry("TRY_CAST({0} AS DECIMAL)", "try_cast({0} AS {type})", (EXACT | BOOLEAN,))
    for scale in range(5):
        whole = f"CAST(CAST({rounded(f'({{0}} * 1e{scale}D)')} AS BIGINT) AS DECIMAL(19,0))"
        unit = "1BD" if scale == 0 else f"0.{'1'.zfill(scale)}BD"
        spark = f"CAST({whole} * {unit} AS {{type}})"
        yield Entry("CAST({0} AS DECIMAL)", spark, (DOUBLE,), fits=_few_digits(scale))


def _to_others() -> Iterator[Entry]:
    yield Entry("CAST({0} AS DOUBLE)", as_double("{0}"), (EXACT | FLOATS | BOOLEAN,), fits=plain)
    yield Entry("CAST({0} AS DOUBLE)", split_double("{0}"), (DECIMAL,), fits=split)
    yield Entry("CAST({0} AS FLOAT)", FLOAT_OF.format("{0}"), (INTEGERS,))
    infinite = "CAST('inf' AS DOUBLE)"
    overflow = f"abs({{0}}) < {infinite} AND abs(CAST({{0}} AS FLOAT)) = {infinite}"
    yield Entry("CAST({0} AS FLOAT)", refused(overflow, "CAST({0} AS FLOAT)"), (DOUBLE,))
    yield Entry("CAST({0} AS FLOAT)", "{0}", (FLOAT,))
    yield Entry("CAST({0} AS BOOLEAN)", "{0} <> 0", (NUMBERS,))
    yield Entry("CAST({0} AS BOOLEAN)", "{0}", (BOOLEAN,))
    for word in ("CAST", "TRY_CAST"):
        yield Entry(f"{word}({{0}} AS DATE)", "CAST({0} AS DATE)", (TIMES,))
        yield Entry(f"{word}({{0}} AS TIMESTAMP)", "CAST({0} AS TIMESTAMP_NTZ)", (TIMES,))
        yield Entry(
            f"{word}({{0}} AS TIMESTAMP WITH TIME ZONE)", "CAST({0} AS TIMESTAMP)", (TIMES,)
        )
    yield Entry("CAST({0} AS BLOB)", "{0}", (BLOB,))


def _has_whole_part(types: tuple[str, ...], result: str) -> bool:
    """DuckDB writes .5 where the type has no digit before the point."""
    precision, scale = digits(types[0])
    return precision > scale


def _to_text() -> Iterator[Entry]:
    for word in ("CAST", "TRY_CAST"):
        pattern = f"{word}({{0}} AS VARCHAR)"
        yield Entry(pattern, "CAST({0} AS STRING)", (WHOLE | BOOLEAN | DATE | TIMESTAMP,))
        yield Entry(pattern, "CAST({0} AS STRING)", (DECIMAL,), fits=_has_whole_part)
        yield Entry(pattern, "concat(CAST({0} AS STRING), '+00')", (MOMENT,))
        yield Entry(pattern, "{0}", (TEXT,))


ENTRIES: tuple[Entry, ...] = (*_to_whole(), *_to_decimal(), *_to_others(), *_to_text())
