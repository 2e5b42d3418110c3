"""Compares names, and takes dotted names apart."""

import re
import string
from collections.abc import Sequence

_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# One part of a name: without quotes, or in double quotes, which are doubled inside.
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def fold(name: str) -> str:
    """Return the form of a name in which equal names are equal.

    DuckDB folds A to Z and no other letters.

    Args:
        name: The name of a catalog, schema, table or column.

    Examples:
        >>> fold("Orders") == fold("ORDERS")
        True
        >>> fold("Ärzte")
        'Ärzte'
    """
    return name.translate(_FOLD)


def split_identifier(text: str) -> list[str]:
    """Return the parts of a name such as `a."b.c"`, or [] if the text is not a name."""
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
    """Return the first name that comes a second time, in any case, or None."""
    known: set[str] = set()
    for name in names:
        if fold(name) in known:
            return name
        known.add(fold(name))
    return None
