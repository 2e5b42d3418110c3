"""Paths of the server in what its callers are told.

Only paths below a folder that is at the root of this machine are meant: `1/2`, `a/b`, `/no/such`
and `s3://bucket/tmp` stay as they are.
"""

import os
import re
from contextlib import suppress
from functools import cache

# Also where this process may not list the root.
_USUAL = (
    "bin boot data dev etc home lib media mnt nix opt proc root run sbin srv sys tmp usr var work"
)
_SCHEME = r"(?:(?:jdbc:)?(?:file|sqlite):/{0,3})?"


def without_paths(text: str) -> str:
    """Of each absolute path only the last name is left: `…/name`."""
    if "/" not in text:
        return text
    quoted, plain = _patterns()
    return plain.sub(_last, quoted.sub(_last_in_quotes, text))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """In quotes a path may have blanks."""
    names = set(_USUAL.split())
    with suppress(OSError):
        names.update(os.listdir("/"))
    roots = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    start = rf"{_SCHEME}/(?:{roots})"
    return (
        re.compile(rf"(['\"`])({start}(?:/(?:(?!\1).)*)?)\1", re.DOTALL),
        re.compile(rf"(?<![\w./…-]){start}(?:/[^\s'\"`<>|,;:()\[\]{{}}]*|(?![\w-]))"),
    )


def _last_in_quotes(match: re.Match[str]) -> str:
    return f"{match[1]}{_name(match[2])}{match[1]}"


def _last(match: re.Match[str]) -> str:
    path = match[0].rstrip(".!?")
    return _name(path) + match[0][len(path) :]


def _name(path: str) -> str:
    return "…/" + path.rstrip("/").rpartition("/")[2]
