"""Text read as a number, a date or a truth value.

DuckDB reads more forms than Spark, and some that Spark reads otherwise. A form that both read
alike is recognised first; one that is not a value at all is an error, or NULL for TRY_CAST; for
the rest, such as 1_000 and 0x10, the query stops with an error rather than with another answer.
"""

from collections.abc import Iterator

from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import TEXT

_BLANKS = r"[ \\t\\n\\x0B\\f\\r]*"
_REMARK = "a form that only DuckDB reads is an error"
_UNREAD = "raise_error('the text has a form that is not read on Spark')"
_WRONG = "raise_error('the text is not a value of the type')"


def _like(form: str) -> str:
    return f"{{0}} RLIKE '^{_BLANKS}{form}{_BLANKS}$' AND NOT {{0}} RLIKE '\\\\n$'"


_INTEGER = _like("[+-]?[0-9]{1,30}")
_EXPONENT = "([eE][+-]?[0-9]{1,2})?"
_NUMBER = _like(rf"[+-]?([0-9]{{1,18}}(\\.[0-9]{{0,18}})?|\\.[0-9]{{1,18}}){_EXPONENT}")
_REAL = _like(r"[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]{1,5})?")
_WORD = _like("[+-]?(?i:inf|infinity|nan)")
# Numbers in groups, in other bases, or longer than the forms above.
_ODD = r"{0} RLIKE '[0-9]_[0-9]|0[xXbB]|[0-9]{19}|[eE][+-]?[0-9]{3}|\\n$'"
_DAY = "(?!0000)[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"([01]?[0-9]|2[0-3]):[0-9]{1,2}(:[0-9]{1,2}(\\.[0-9]{1,6})?)?"
_DATE = _like(_DAY + "([ T][0-9:.]*)?")
_TIMESTAMP = _like(rf"{_DAY}([ T]{_CLOCK})?")
# Nothing that may be a date begins otherwise.
_STARTS = "[+-]?[0-9]+[^0-9]+[0-9]+[^0-9]+[0-9]|(?i:epoch|[+-]?inf)"
_MAYBE_DATE = f"{{0}} RLIKE '^{_BLANKS}({_STARTS})'"


def _read(name: str, forms: tuple[tuple[str, str], ...], odd: str) -> Iterator[Entry]:
    """`forms`: conditions and what they give, with %s for the kind of cast."""
    for pattern, word, otherwise in (("CAST", "CAST", _WRONG), ("TRY_CAST", "try_cast", "NULL")):
        cases = " ".join(f"WHEN {form} THEN {value % word}" for form, value in forms)
        spark = (
            f"CASE WHEN {{0}} IS NULL THEN NULL {cases} WHEN {odd} THEN {_UNREAD} "
            f"ELSE {otherwise} END"
        )
        yield Entry(
            f"{pattern}({{0}} AS {name})", f"CAST({spark} AS {{type}})", (TEXT,), remark=_REMARK
        )


def _numbers() -> Iterator[Entry]:
    for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"):
        rounded = "CAST(round(try_cast({0} AS DECIMAL(38,18)), 0) AS {type})"
        forms = ((_INTEGER, "%s({0} AS {type})"), (_NUMBER, rounded.replace("CAST(", "%s(", 1)))
        yield from _read(name, forms, _ODD)
    decimal = "%s({0} AS {type})"
    yield from _read("DECIMAL", ((_INTEGER, decimal), (_NUMBER, decimal)), _ODD)
    word = "if({0} RLIKE '(?i)nan', CAST('NaN' AS DOUBLE), %s(trim({0}) AS DOUBLE))"
    yield from _read(
        "DOUBLE", ((_REAL, "%s({0} AS DOUBLE)"), (_WORD, word)), "{0} RLIKE '[0-9]_[0-9]|\\\\n$'"
    )


_TRUE = "lower({0}) IN ('true', 't', '1', 'yes', 'y')"
_FALSE = "lower({0}) IN ('false', 'f', '0', 'no', 'n')"


def _truth() -> Iterator[Entry]:
    yield from _read(
        "BOOLEAN", ((_TRUE, "%s(true AS BOOLEAN)"), (_FALSE, "%s(false AS BOOLEAN)")), "false"
    )


ENTRIES: tuple[Entry, ...] = (
    *_numbers(),
    *_truth(),
    *_read("DATE", ((_DATE, "%s({0} AS DATE)"),), _MAYBE_DATE),
    *_read("TIMESTAMP", ((_TIMESTAMP, "%s({0} AS TIMESTAMP_NTZ)"),), _MAYBE_DATE),
)
