"""Text read as a number, a date or a truth value.

DuckDB reads more forms than Spark, and some that Spark reads otherwise. A form that both read
alike is recognised first; everything else is an error: one that is not a value at all as in DuckDB,
and the rest, such as 1_000 and 0x10, because an error is better than another answer.
"""

from collections.abc import Iterator

from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import TEXT

# Conditions, and what they give.
Forms = tuple[tuple[str, str], ...]

BLANK = r"[ \\t\\n\\x0B\\f\\r]"
_REMARK = "a form that only DuckDB reads is an error"
_UNREAD = "raise_error('the text has a form that is not read on Spark')"
_WRONG = "raise_error('the text is not a value of the type')"


def with_blanks(form: str) -> str:
    """A text that is this and blanks around it; Java's $ is also before some characters."""
    return rf"^{BLANK}*{form}{BLANK}*\\z"


def _like(form: str) -> str:
    return f"{{0}} RLIKE '{with_blanks(form)}' AND NOT {{0}} RLIKE '\\\\n$'"


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
_MAYBE_DATE = f"{{0}} RLIKE '^{BLANK}*({_STARTS})'"


def _cases(forms: Forms, otherwise: str) -> str:
    cases = " ".join(f"WHEN {form} THEN {value}" for form, value in forms)
    return f"CAST(CASE WHEN {{0}} IS NULL THEN NULL {cases} {otherwise} END AS {{type}})"


def _read(name: str, forms: Forms, odd: str) -> Entry:
    """Of CAST only: where this has to stop, TRY_CAST has an answer."""
    spark = _cases(forms, f"WHEN {odd} THEN {_UNREAD} ELSE {_WRONG}")
    return Entry(f"CAST({{0}} AS {name})", spark, (TEXT,), remark=_REMARK)


def _numbers() -> Iterator[Entry]:
    cast = "CAST({0} AS {type})"
    rounded = "CAST(round(try_cast({0} AS DECIMAL(38,18)), 0) AS {type})"
    for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"):
        yield _read(name, ((_INTEGER, cast), (_NUMBER, rounded)), _ODD)
    yield _read("DECIMAL", ((_INTEGER, cast), (_NUMBER, cast)), _ODD)
    word = "if({0} RLIKE '(?i)nan', CAST('NaN' AS DOUBLE), CAST(trim({0}) AS DOUBLE))"
    odd = "{0} RLIKE '[0-9]_[0-9]|\\\\n$'"
    yield _read("DOUBLE", ((_REAL, "CAST({0} AS DOUBLE)"), (_WORD, word)), odd)


_TRUTHS: Forms = (
    ("lower({0}) IN ('true', 't', '1', 'yes', 'y')", "true"),
    ("lower({0}) IN ('false', 'f', '0', 'no', 'n')", "false"),
)


def _truth() -> Iterator[Entry]:
    """Every form that DuckDB reads is known here."""
    yield Entry("CAST({0} AS BOOLEAN)", _cases(_TRUTHS, f"ELSE {_WRONG}"), (TEXT,))
    yield Entry("TRY_CAST({0} AS BOOLEAN)", _cases(_TRUTHS, "ELSE NULL"), (TEXT,))


ENTRIES: tuple[Entry, ...] = (
    *_numbers(),
    *_truth(),
    _read("DATE", ((_DATE, "CAST({0} AS DATE)"),), _MAYBE_DATE),
    _read("TIMESTAMP", ((_TIMESTAMP, "CAST({0} AS TIMESTAMP_NTZ)"),), _MAYBE_DATE),
)
