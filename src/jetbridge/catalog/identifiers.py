"""How names are compared, and taken apart."""

import re
import string
from collections.abc import Sequence

_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """The form in which equal names are equal: DuckDB folds A to Z and nothing else."""
    return name.translate(_FOLD)


# A part of a name: as it is, or in double quotes, which are doubled inside.
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def split_identifier(text: str) -> list[str]:
    """The parts of `a."b.c"`; [] if it is not a name."""
    parts, at = [], 0
    while match := _PART.match(text, at):
        parts.append(match[2] or match[1].replace('""', '"'))
        at = match.end()
        if at == len(text):
            return parts
        if text[at] != ".":
            break
        at += 1
    return []


def find_duplicate_name(names: Sequence[str]) -> str | None:
    """A name that comes twice, in any case."""
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            return name
        seen.add(fold(name))
    return None
