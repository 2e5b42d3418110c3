"""LIKE, and regular expressions that mean the same in RE2 and in Java."""

import re
from functools import partial
from typing import Any

from jetbridge.dialects.spark import literal
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import TEXT
from jetbridge.pipeline.translate.entries.letters import LOWER

_SPECIAL = "\\%_"
_ESCAPES = "!#$^|~"


def escaped_like(escape: str, value: Any) -> str | None:
    """A pattern with its own escape, in one with Spark's backslash."""
    if not isinstance(value, str):
        return None
    text, letters = "", iter(value)
    for letter in letters:
        if letter == escape:
            following = next(letters, None)
            if following is None:
                return None
            text += "\\" + following if following in _SPECIAL else following
        else:
            text += "\\\\" if letter == "\\" else letter
    return literal(text)


def lower_like(value: Any) -> str | None:
    """Only for patterns whose case both change alike."""
    if not isinstance(value, str) or not value.isascii():
        return None
    return literal(value.lower().replace("\\", "\\\\"))


_LIKE = "{0} LIKE replace({1}, '\\\\', '\\\\\\\\')"


def _likes() -> tuple[Entry, ...]:
    return (
        Entry("{0} LIKE {1}", _LIKE, (TEXT, TEXT)),
        *(
            Entry(
                f"{{0}} LIKE {{1}} ESCAPE '{escape}'",
                "{0} LIKE {1}",
                (TEXT, TEXT),
                {1: partial(escaped_like, escape)},
                {1: ("a%", f"{escape}%", f"%{escape}_%", f"{escape}{escape}%", f"{escape}a\\%")},
            )
            for escape in _ESCAPES
        ),
        Entry(
            "{0} ILIKE {1}",
            f"({LOWER}) LIKE {{1}}",
            (TEXT, TEXT),
            {1: lower_like},
            {1: ("A%", "%C", "_B%", "%str%", "%\\%", "i%", "%T\u0065%")},
        ),
    )


# Pieces of a pattern that are the same in both: letters, digits and signs for themselves, the dot,
# classes of plain characters and ranges, groups, alternatives, anchors, and counts.
_PIECE = re.compile(
    r"[A-Za-z0-9 _\-:;,@#%&=<>!\"'/~`]"
    r"|\\[.\\+*?()|\[\]{}^$/\-]"
    r"|\\[dDwW]"
    r"|\[\^?(?:[A-Za-z0-9 _:;,@#%=<>!\"'/~.+*?]|[A-Za-z0-9]-[A-Za-z0-9]|\\[dw.\\\-\]\[])+\]"
    r"|\.|\||\(\?:|\(|\)"
)
_COUNT = re.compile(r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??")


def safe(pattern: Any) -> str | None:
    """The pattern, if it is made of such pieces only."""
    if not isinstance(pattern, str):
        return None
    body = pattern.removeprefix("^")
    end = body.endswith("$") and not body.endswith("\\$")
    return pattern if _whole(body[:-1] if end else body) else None


def _whole(body: str) -> bool:
    at, depth, countable = 0, 0, False
    while at < len(body):
        count = _COUNT.match(body, at) if countable else None
        found = count or _PIECE.match(body, at)
        if found is None:
            return False
        depth += (body[at] == "(") - (found[0] == ")")
        if depth < 0:
            return False
        countable = not count and not found[0].startswith("(") and found[0] != "|"
        at = found.end()
    # An anchor outside of groups would belong to one of several alternatives only.
    return depth == 0 and not _outer_alternative(body)


def _outer_alternative(body: str) -> bool:
    bare = re.sub(r"\\.|\[[^\]]*\]", "", body)
    while "(" in bare:
        shorter = re.sub(r"\([^()]*\)", "", bare)
        if shorter == bare:
            return True
        bare = shorter
    return "|" in bare


def java(pattern: Any) -> str | None:
    """RE2's $ is the very end, its dot is any letter but a line feed."""
    text = safe(pattern)
    if text is None:
        return None
    if text.endswith("$") and not text.endswith("\\$"):
        text = text[:-1] + "\\z"
    return literal(f"(?d){text}")


def java_full(pattern: Any) -> str | None:
    text = safe(pattern)
    if text is None or text.startswith("^") or (text.endswith("$") and not text.endswith("\\$")):
        return None
    return literal(f"(?d)\\A(?:{text})\\z")


def java_first(pattern: Any) -> str | None:
    text = safe(pattern)
    if text is None:
        return None
    if text.endswith("$") and not text.endswith("\\$"):
        text = text[:-1] + "\\z"
    return literal(f"(?d)\\A((?s:.*?))(?:{text})")


def replacement(value: Any) -> str | None:
    """Without references to groups."""
    return literal(value) if isinstance(value, str) and not set(value) & {"\\", "$"} else None


_PATTERNS = (
    "a",
    "^a",
    "c$",
    "[a-c]+",
    "\\d+",
    "(a|b)c",
    "a.c",
    "b{1,2}",
    "^[^a]*$",
    "\\w+ \\w+",
    "x.y",
)
_ONE = {1: java}
_EXAMPLES = {1: _PATTERNS}


def _regular() -> tuple[Entry, ...]:
    both = {1: java, 2: replacement}, {1: _PATTERNS, 2: ("", "-")}
    return (
        Entry("regexp_matches({0}, {1})", "{0} RLIKE {1}", (TEXT, TEXT), _ONE, _EXAMPLES),
        Entry(
            "regexp_full_match({0}, {1})",
            "{0} RLIKE {1}",
            (TEXT, TEXT),
            {1: java_full},
            {1: ("a", "[a-c]+", "\\d+", "(a|b)c", "a.c", ".*", "")},
        ),
        Entry(
            "regexp_replace({0}, {1}, {2}, 'g')",
            "regexp_replace({0}, {1}, {2})",
            (TEXT, TEXT, TEXT),
            *both,
        ),
        # One that replaces the first match only: what stands before it is matched, too, and kept.
        Entry(
            "regexp_replace({0}, {1}, {2})",
            "regexp_replace({0}, {1}, concat('$1', {2}))",
            (TEXT, TEXT, TEXT),
            {1: java_first, 2: replacement},
            both[1],
        ),
        Entry(
            "regexp_extract({0}, {1})", "regexp_extract({0}, {1}, 0)", (TEXT, TEXT), _ONE, _EXAMPLES
        ),
        *(
            Entry(
                f"regexp_extract({{0}}, {{1}}, {group})",
                f"regexp_extract({{0}}, {{1}}, {group})",
                (TEXT, TEXT),
                {1: partial(_grouped, group)},
                {1: ("(a)(b)", "([a-c]+)(.)", "^(\\d)(\\d)")},
            )
            for group in (0, 1, 2)
        ),
    )


def _grouped(group: int, pattern: Any) -> str | None:
    """A pattern that has so many groups."""
    text = java(pattern)
    return text if text is not None and re.compile(pattern).groups >= group else None


ENTRIES: tuple[Entry, ...] = (*_likes(), *_regular())
