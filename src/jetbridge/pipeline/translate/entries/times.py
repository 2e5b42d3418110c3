"""Parts, steps and differences of dates and timestamps; years 1 to 9999, the zone is UTC."""

from collections.abc import Iterator
from typing import Any

from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    DATE,
    INTEGERS,
    MOMENT,
    TIMES,
    TIMESTAMP,
    Kinds,
)
from jetbridge.pipeline.translate.entries.text import number

_SMALL: Kinds = INTEGERS - {"BIGINT"}
_MOST = 1_000_000
# The year of a week: that of its Thursday.
_ISO_YEAR = "year(date_add(CAST({0} AS DATE), 3 - weekday(CAST({0} AS DATE))))"
_WEEK = "weekofyear({0})"
_MICROS = "unix_micros(CAST({0} AS TIMESTAMP))"
_MINUTE = "pmod(unix_micros(CAST({0} AS TIMESTAMP)), 60000000)"
# What DuckDB calls a part, the functions that give it, and Spark's expression for it.
_PARTS: dict[tuple[str, ...], str] = {
    ("year", "years"): "year({0})",
    ("month", "months"): "month({0})",
    ("day", "days", "dayofmonth"): "day({0})",
    ("quarter", "quarters"): "quarter({0})",
    ("week", "weeks", "weekofyear"): _WEEK,
    ("isoyear",): _ISO_YEAR,
    ("dow", "dayofweek", "weekday"): "dayofweek({0}) - 1",
    ("isodow",): "weekday({0}) + 1",
    ("doy", "dayofyear"): "dayofyear({0})",
    ("yearweek",): f"{_ISO_YEAR} * 100 + {_WEEK}",
    ("decade", "decades"): "year({0}) DIV 10",
    ("century", "centuries"): "(year({0}) - 1) DIV 100 + 1",
    ("millennium", "millennia"): "(year({0}) - 1) DIV 1000 + 1",
}
_CLOCK: dict[tuple[str, ...], str] = {
    ("hour", "hours"): "hour({0})",
    ("minute", "minutes"): "minute({0})",
    ("second", "seconds"): f"{_MINUTE} DIV 1000000",
    ("millisecond", "milliseconds"): f"{_MINUTE} DIV 1000",
    ("microsecond", "microseconds"): _MINUTE,
}
# Names of parts that are functions, too.
_FUNCTIONS = frozenset(
    [
        "year",
        "month",
        "day",
        "quarter",
        "week",
        "isoyear",
        "dayofweek",
        "weekday",
        "isodow",
        "dayofyear",
        "yearweek",
        "decade",
        "century",
        "millennium",
        "hour",
        "minute",
        "second",
        "millisecond",
        "microsecond",
        "weekofyear",
        "dayofmonth",
    ]
)


def _parts(parts: dict[tuple[str, ...], str], kinds: Kinds) -> Iterator[Entry]:
    for names, spark in parts.items():
        for name in names:
            patterns = [f"date_part('{name}', {{0}})", f"datepart('{name}', {{0}})"]
            patterns.append(f"extract({name} FROM {{0}})")
            if name in _FUNCTIONS:
                patterns.append(f"{name}({{0}})")
            for pattern in patterns:
                yield Entry(pattern, f"CAST({spark} AS BIGINT)", (kinds,))


_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_FRACTIONS = ("millisecond", "microsecond")


def _truncations() -> Iterator[Entry]:
    for name in ("date_trunc", "datetrunc"):
        for unit in (*_UNITS, *_FRACTIONS):
            kinds = TIMES if unit not in _FRACTIONS else TIMESTAMP | MOMENT
            spark = f"CAST(date_trunc('{unit.upper()}', {{0}}) AS {{type}})"
            yield Entry(f"{name}('{unit}', {{0}})", spark, (kinds,))


def _months(mark: str) -> str:
    return f"(year({mark}) * 12 + month({mark}))"


def _differences() -> Iterator[Entry]:
    """How many borders of the unit lie between the two."""
    by_date = {
        "year": "year({1}) - year({0})",
        "quarter": "(year({1}) * 4 + quarter({1})) - (year({0}) * 4 + quarter({0}))",
        "month": f"{_months('{1}')} - {_months('{0}')}",
        "week": "datediff(CAST({1} AS DATE), CAST({0} AS DATE)) DIV 7",
        "day": "datediff(CAST({1} AS DATE), CAST({0} AS DATE))",
        "decade": "year({1}) DIV 10 - year({0}) DIV 10",
    }
    micros = {
        "hour": 3_600_000_000,
        "minute": 60_000_000,
        "second": 1_000_000,
        "millisecond": 1_000,
    }
    pairs = ((DATE, DATE), (TIMESTAMP, TIMESTAMP), (MOMENT, MOMENT))
    mixed = ((DATE, TIMESTAMP), (TIMESTAMP, DATE))
    for name in ("date_diff", "datediff"):
        for unit, spark in by_date.items():
            for pair in (*pairs, *mixed):
                yield Entry(f"{name}('{unit}', {{0}}, {{1}})", f"CAST({spark} AS BIGINT)", pair)
        for unit, size in micros.items():
            spark = " - ".join(_steps(mark, size) for mark in ("{1}", "{0}"))
            for pair in (*pairs, *mixed):
                yield Entry(f"{name}('{unit}', {{0}}, {{1}})", f"CAST({spark} AS BIGINT)", pair)


def _steps(mark: str, size: int) -> str:
    micros = f"unix_micros(CAST({mark} AS TIMESTAMP))"
    return f"(({micros} - pmod({micros}, {size})) DIV {size})"


def count(value: Any) -> str | None:
    """How many of a unit, as the text of a whole number; people write it in either form."""
    text = str(value).strip()
    digits = text.removeprefix("-")
    fine = digits.isascii() and digits.isdigit() and int(digits) <= _MOST
    return str(int(text)) if fine else None


_STEPS = {
    "year": "make_ym_interval({1}, 0)",
    "month": "make_ym_interval(0, {1})",
    "quarter": "make_ym_interval(0, 3 * {1})",
    "week": "make_dt_interval(7 * {1})",
    "day": "make_dt_interval({1})",
    "hour": "make_dt_interval(0, {1})",
    "minute": "make_dt_interval(0, 0, {1})",
    "second": "make_dt_interval(0, 0, 0, {1})",
}


def _intervals() -> Iterator[Entry]:
    for unit, spark in _STEPS.items():
        for sign in "+-":
            for name in (unit, unit + "s"):
                yield Entry(
                    f"{{0}} {sign} INTERVAL {{1}} {name}",
                    f"CAST({{0}} AS {{type}}) {sign} {spark}",
                    (TIMES, INTEGERS),
                    {1: count},
                    {1: (1, 3, 25)},
                    remark="the result has to be in the years 1 to 9999",
                )


def _days() -> Iterator[Entry]:
    """Spark's dates begin again at their end: an INTEGER has to be a constant, and small."""
    narrow: Kinds = _SMALL - {"INTEGER"}
    for pattern, spark in (
        ("{0} + {1}", "date_add({0}, {1})"),
        ("{1} + {0}", "date_add({0}, {1})"),
        ("{0} - {1}", "date_sub({0}, {1})"),
    ):
        yield Entry(pattern, spark, (DATE, narrow))
        yield Entry(pattern, spark, (DATE, INTEGERS), {1: number}, {1: (1, 30, 400)})


ENTRIES: tuple[Entry, ...] = (
    *_parts(_PARTS, TIMES),
    *_parts(_CLOCK, TIMESTAMP | MOMENT),
    *_truncations(),
    *_differences(),
    *_intervals(),
    Entry("{0} - {1}", "CAST(datediff({0}, {1}) AS BIGINT)", (DATE, DATE)),
    *_days(),
    Entry("last_day({0})", "last_day({0})", (TIMES,)),
    Entry("dayname({0})", "date_format({0}, 'EEEE')", (TIMES,)),
    Entry("monthname({0})", "date_format({0}, 'MMMM')", (TIMES,)),
    Entry("make_date({0}, {1}, {2})", "make_date({0}, {1}, {2})", (_SMALL, _SMALL, _SMALL)),
    *(
        Entry(pattern, f"CAST({_MICROS} AS DOUBLE) / 1000000", (DATE | TIMESTAMP,))
        for pattern in ("epoch({0})", "date_part('epoch', {0})", "extract(epoch FROM {0})")
    ),
    Entry("epoch_ms({0})", f"{_MICROS} DIV 1000", (TIMES,)),
    Entry("epoch_us({0})", _MICROS, (TIMES,)),
    Entry("epoch_ms({0})", "CAST(timestamp_millis({0}) AS TIMESTAMP_NTZ)", (INTEGERS,)),
)
