"""Refuses a text in which DuckDB sees other tokens than we do.

What we cut out of a statement and put into another one means the same only if both agree. Comments
do not get that far: they become spaces.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from jetbridge.duckdb_engine.statements import token_starts
from jetbridge.errors import BadRequest

# Two tokenizers may split a run of these in different ways: none of them opens a quote or a
# comment.
_NAME = re.compile(r"[\w$.]")
_OPERATOR = frozenset("~!@#^&|`?+-*/%<>=:")
_COMMENT = re.compile(r"--[^\n\r]*|/\*")
_MARK = re.compile(r"/\*|\*/")
# DuckDB's spaces, and the characters that it reads as spaces.
_SPACE = re.compile("[ \t\n\r\f\u00a0\u2000-\u200a\u202f\u205f\u3000]+")
_NO_NEWLINE = re.compile(r"[^\n]")
_QUOTED_CHARACTERS = 30


def without_comments(text: str, tokens: Sequence[tuple[int, int]]) -> str:
    """Return the text with only spaces between its tokens, in the same length.

    `tokens` are their starts and ends. Raises BadRequest if DuckDB sees other tokens.
    """
    gaps = list(_gaps(text, tokens))
    for start, rest in ((start, _after_spaces(text[start:end])) for start, end in gaps):
        if rest:
            raise _refusal(text, start)
    spaced = _replace_in_gaps(text, gaps, _SPACE)
    plain = _replace_in_gaps(text, gaps, _NO_NEWLINE)
    starts = [start for start, _ in tokens]
    _compare(spaced, starts)
    _compare(plain, starts)
    return plain


def _gaps(text: str, tokens: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    position = 0
    for start, end in tokens:
        yield position, start
        position = end
    yield position, len(text)


def _after_spaces(gap: str) -> str:
    """Return what follows the spaces and comments at the start; comments may be nested."""
    while gap:
        match = _SPACE.match(gap) or _COMMENT.match(gap)
        if match is None:
            return gap
        end = _end_of_comment(gap) if match.group() == "/*" else match.end()
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


def _replace_in_gaps(text: str, gaps: Iterable[tuple[int, int]], replaced: re.Pattern[str]) -> str:
    pieces, position = [], 0
    for start, end in gaps:
        pieces += [text[position:start], replaced.sub(_spaces, text[start:end])]
        position = end
    return "".join(pieces)


def _spaces(match: re.Match[str]) -> str:
    return "".join("\n" if character == "\n" else " " for character in match.group())


def _compare(text: str, starts: Sequence[int]) -> None:
    """Raise BadRequest unless DuckDB's tokens begin where ours do.

    A token is added at the end, which begins there only if the last token of the text ends as ours.
    """
    whole = f"{text}\n;"
    ours = set(_run_starts(whole, [*starts, len(text) + 1]))
    duckdbs = set(_run_starts(whole, _characters(whole, token_starts(whole))))
    if ours != duckdbs:
        raise _refusal(text, min(ours ^ duckdbs))


def _characters(text: str, byte_positions: Sequence[int]) -> Sequence[int]:
    """Return positions in characters for positions in bytes."""
    if text.isascii():
        return byte_positions
    encoded, positions, position, byte = text.encode(), [], 0, 0
    for byte_position in byte_positions:
        position += len(encoded[byte:byte_position].decode())
        byte = byte_position
        positions.append(position)
    return positions


def _run_starts(text: str, starts: Iterable[int]) -> Iterator[int]:
    """Yield the starts but those within a run of names or operators."""
    for start in starts:
        character, before = text[start], text[start - 1] if start else " "
        in_name = _NAME.match(character) and _NAME.match(before)
        if not in_name and not (character in _OPERATOR and before in _OPERATOR):
            yield start


def _refusal(text: str, position: int) -> BadRequest:
    quoted = text[position : position + _QUOTED_CHARACTERS]
    return BadRequest(
        f"the statement can be read in two ways from {quoted!r} on; write that part differently"
    )
