"""Hides the paths of the server in messages to its callers.

Only a path below a folder in the root of this machine is hidden: `1/2`, `a/b`, `/no/such` and
`s3://bucket/tmp` stay as they are.
"""

import os
import re
from contextlib import suppress
from functools import cache

# Folders that are hidden even if this process may not list the root.
_USUAL = (
    "bin boot data dev etc home lib media mnt nix opt proc root run sbin srv sys tmp usr var work"
)
_SCHEME = r"(?:(?:jdbc:)?(?:file|sqlite):/{0,3})?"


def without_paths(text: str) -> str:
    """Return the text with only the last name of each absolute path: `…/name`."""
    if "/" not in text:
        return text
    quoted, plain = _patterns()
    return plain.sub(_last, quoted.sub(_last_in_quotes, text))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a path in quotes, which may have blanks, and of any other path."""
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
