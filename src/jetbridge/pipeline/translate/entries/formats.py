"""strftime and strptime with a constant format."""

import re
from collections.abc import Iterator
from typing import Any

from jetbridge.dialects.spark import literal
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import TEXT, TIMES
from jetbridge.pipeline.translate.entries.readings import BLANK, with_blanks

# The codes that both write alike, in Java's letters.
_CODES = {
    "Y": "yyyy",
    "m": "MM",
    "d": "dd",
    "H": "HH",
    "M": "mm",
    "S": "ss",
    "f": "SSSSSS",
    "j": "DDD",
    "a": "EEE",
    "A": "EEEE",
    "b": "MMM",
    "B": "MMMM",
    "y": "yy",
    "I": "hh",
    "p": "a",
    "-d": "d",
    "-m": "M",
    "-H": "H",
}
_PIECE = re.compile(r"%(-?[A-Za-z])|(%%)|([^%]+)")


def java_format(value: Any) -> str | None:
    """None for a format with another code."""
    if not isinstance(value, str) or not value:
        return None
    text, plain, at = "", "", 0
    while at < len(value):
        found = _PIECE.match(value, at)
        if found is None or (found[1] and found[1] not in _CODES):
            return None
        if found[1]:
            text, plain = text + _quoted(plain) + _CODES[found[1]], ""
        else:
            plain += "%" if found[2] else found[3]
        at = found.end()
    text += _quoted(plain)
    return literal(text) if _parted(text) else None


def _quoted(plain: str) -> str:
    return "'" + plain.replace("'", "''") + "'" if plain else ""


def _parted(text: str) -> bool:
    """One code of Java's right behind the same would be another."""
    bare = re.sub(r"'[^']*'", " ", text)
    codes = set(_CODES.values())
    return all(run[0] in codes for run in re.finditer(r"([A-Za-z])\1*", bare))


_FORMATS = (
    "%Y-%m-%d",
    "%d/%m/%Y %H:%M:%S",
    "%Y%m%d%H%M%S",
    "%A, %d %B %Y",
    "%a %b %-d %j",
    "%H:%M:%S.%f %p",
    "at %I o'clock %y",
    "100%% %Y",
)

# What strptime reads for a code, without going back.
_READ = {"Y": "([0-9]{1,4}+)", "S": "([0-5]?[0-9])", "f": "([0-9]{1,6}+)"}
_TWO_DIGITS = "([0-9]{1,2}+)"
_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
_READINGS = (
    *(day + clock for day in (*_DAYS, "%m-%d-%Y") for clock in _CLOCKS),
    *("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M"),
    *("%Y%m%d", "%Y%m%d%H%M%S", "%Y%m%d %H:%M:%S"),
)
_WORDS = "(?i:-?infinity|epoch)"
_UNREADABLE = "raise_error('the text does not have the form of the format')"


def _readings() -> Iterator[Entry]:
    """Read by a regular expression: Java's formats take other texts than DuckDB's."""
    for given in _READINGS:
        form, made = _form(given), f"make_timestamp_ntz({_arguments(given)})"
        for name, made_of, otherwise in (
            ("strptime", made, _UNREADABLE),
            ("try_strptime", f"try_{made}", "NULL"),
        ):
            yield Entry(
                f"{name}({{0}}, '{given}')",
                f"CASE WHEN {{0}} IS NULL THEN NULL WHEN {{0}} RLIKE '{form}' THEN {made_of} "
                f"WHEN {{0}} RLIKE '{with_blanks(_WORDS)}' THEN {_UNREADABLE} ELSE {otherwise} END",
                (TEXT,),
                remark="infinity and epoch, which DuckDB takes for any format, are an error",
            )


def _form(given: str) -> str:
    text = ""
    for found in _PIECE.finditer(given):
        plain = "".join(f"{BLANK}+" if each == " " else f"[{each}]" for each in found[3] or "")
        text += _READ.get(found[1], _TWO_DIGITS) if found[1] else plain
    return with_blanks(text)


def _arguments(given: str) -> str:
    codes = [found[1] for found in _PIECE.finditer(given) if found[1]]
    form = _form(given)
    parts = {
        code: f"regexp_extract({{0}}, '{form}', {at})" for at, code in enumerate(codes, start=1)
    }
    numbers = [f"CAST({parts[code]} AS INT)" if code in parts else "0" for code in "YmdHM"]
    fraction = f"rpad({parts['f']}, 6, '0')" if "f" in parts else "'0'"
    seconds = f"concat({parts.get('S', repr('0'))}, '.', {fraction})"
    return f"{', '.join(numbers)}, CAST({seconds} AS DECIMAL(16,6))"


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "strftime({0}, {1})",
        "date_format({0}, {1})",
        (TIMES, TEXT),
        {1: java_format},
        {1: _FORMATS},
    ),
    *_readings(),
)
