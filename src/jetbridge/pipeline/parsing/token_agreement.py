"""Whether DuckDB sees the same words in a text as we do; where it does not, the text is refused.

What we cut out of a statement and put into another one is only then what it was. Comments do not
get that far: they become spaces.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from jetbridge.duckdb_engine.statements import token_starts
from jetbridge.errors import BadRequest

# Two tokenizers may part a run of these as they like: none of them opens a quote or a comment.
_NAME = re.compile(r"[\w$.]")
_OPERATOR = frozenset("~!@#^&|`?+-*/%<>=:")
_COMMENT = re.compile(r"--[^\n\r]*|/\*")
_MARK = re.compile(r"/\*|\*/")
# DuckDB's own, and those that it reads as spaces.
_SPACE = re.compile("[ \t\n\r\f\u00a0\u2000-\u200a\u202f\u205f\u3000]+")
_NO_NEWLINE = re.compile(r"[^\n]")
_SHOWN = 30


def without_comments(text: str, words: Sequence[tuple[int, int]]) -> str:
    """The text, just as long, with nothing but spaces between these words.

    `words` are their starts and ends. Raises BadRequest where DuckDB sees others.
    """
    gaps = list(_gaps(text, words))
    for place, rest in ((start, _not_blank(text[start:end])) for start, end in gaps):
        if rest:
            raise _refusal(text, place)
    spaced = _replaced(text, gaps, _SPACE)
    plain = _replaced(text, gaps, _NO_NEWLINE)
    ours = [start for start, _ in words]
    for each in (spaced, plain):
        _compare(each, ours)
    return plain


def _gaps(text: str, words: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    at = 0
    for start, end in words:
        yield at, start
        at = end
    yield at, len(text)


def _not_blank(gap: str) -> str:
    """What is left of it after spaces and comments; these may be nested."""
    while gap:
        found = _SPACE.match(gap) or _COMMENT.match(gap)
        if found is None:
            return gap
        end = _end_of_comment(gap) if found.group() == "/*" else found.end()
        if not end:
            return gap
        gap = gap[end:]
    return ""


def _end_of_comment(gap: str) -> int:
    depth = 0
    for mark in _MARK.finditer(gap):
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return mark.end()
    return 0


def _replaced(text: str, gaps: Iterable[tuple[int, int]], what: re.Pattern[str]) -> str:
    pieces, at = [], 0
    for start, end in gaps:
        pieces += [text[at:start], what.sub(_spaces, text[start:end])]
        at = end
    return "".join(pieces)


def _spaces(found: re.Match[str]) -> str:
    return "".join("\n" if each == "\n" else " " for each in found.group())


def _compare(text: str, ours: Sequence[int]) -> None:
    """The end of the last word is that of all only if a word after it begins there."""
    whole = f"{text}\n;"
    wanted = set(_firsts(whole, [*ours, len(text) + 1]))
    found = set(_firsts(whole, _characters(whole, token_starts(whole))))
    if wanted != found:
        raise _refusal(text, min(wanted ^ found))


def _characters(text: str, starts: Sequence[int]) -> Sequence[int]:
    """Places in bytes as places in characters."""
    if text.isascii():
        return starts
    encoded, found, at, byte = text.encode(), [], 0, 0
    for start in starts:
        at += len(encoded[byte:start].decode())
        byte = start
        found.append(at)
    return found


def _firsts(text: str, starts: Iterable[int]) -> Iterator[int]:
    """The first one of each run."""
    for start in starts:
        here, before = text[start], text[start - 1] if start else " "
        names = _NAME.match(here) and _NAME.match(before)
        if not names and not (here in _OPERATOR and before in _OPERATOR):
            yield start


def _refusal(text: str, place: int) -> BadRequest:
    return BadRequest(
        f"the statement can be read in two ways from {text[place : place + _SHOWN]!r} on; "
        "write that part in another way"
    )
