"""Secrets of one session: what CREATE SECRET says, kept here and shown nowhere."""

import re
from collections.abc import Callable, Mapping

from jetbridge.catalog import OnConflict
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import AlreadyExists, NotFound

# Returns what a secret says, by its name; None for the one without a name, of this TYPE.
FindSecret = Callable[[str | None, str], Mapping[str, str] | None]
# Text of which no message may quote a piece: what cannot be read may be cut anywhere.
_TELLING = re.compile(
    r"""\b(?:password|pwd)\s*[='"$] | \bsecret\b | ^\s*attach\b | ://[^/\s']*:[^/\s']*@""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
HIDDEN = "the statement cannot be read; it may hold a password, so no piece of it is shown"


def may_tell(text: str) -> bool:
    """Whether a password may be in it."""
    return _TELLING.search(text) is not None


def default_name(secret_type: str) -> str:
    """Return the name of a secret that CREATE SECRET gives none, as DuckDB does."""
    return f"__default_{fold(secret_type)}"


class Secrets:
    """By name, whatever its case."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, Mapping[str, str]]] = {}

    def add(self, name: str, said: Mapping[str, str], on_conflict: OnConflict) -> bool:
        """Whether it was made: with IGNORE one that is there stays."""
        if fold(name) in self._kept:
            if on_conflict is OnConflict.IGNORE:
                return False
            if on_conflict is OnConflict.ERROR:
                raise AlreadyExists("secret", name, "use CREATE OR REPLACE SECRET to replace it")
        self._kept[fold(name)] = name, said
        return True

    def drop(self, name: str) -> bool:
        return self._kept.pop(fold(name), None) is not None

    def wanted(self, name: str | None, secret_type: str) -> Mapping[str, str] | None:
        """What the one of this name says; without a name, what the unnamed one does, if any."""
        found = self._kept.get(fold(name or default_name(secret_type)))
        if found is None and name is not None:
            known = ", ".join(each for each, _ in self._kept.values())
            hint = f"there are {known}" if known else "make it with CREATE SECRET"
            raise NotFound("secret", name, hint)
        return found[1] if found else None
