"""strftime and strptime with a constant format."""

import re
from typing import Any

from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import TEXT, TIMES
from jetbridge.sqltext.spark import literal

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

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "strftime({0}, {1})",
        "date_format({0}, {1})",
        (TIMES, TEXT),
        {1: java_format},
        {1: _FORMATS},
    ),
)
