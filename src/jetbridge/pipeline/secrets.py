"""Keeps the secrets of one session, and keeps them out of messages."""

import re
from collections.abc import Callable, Mapping

from jetbridge.catalog import OnConflict
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import AlreadyExists, NotFound

# Returns the options of a secret by its name; None for the secret of this TYPE without a name.
FindSecret = Callable[[str | None, str], Mapping[str, str] | None]
# In such a text a password may stand anywhere, so no message quotes a piece of it.
_MAY_HOLD_SECRET = re.compile(
    r"""\b(?:password|pwd)\s*[='"$] | \bsecret\b | ^\s*attach\b | ://[^/\s']*:[^/\s']*@""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
HIDDEN = "the statement cannot be parsed; it is not shown because it may contain a password"


def may_hold_secret(text: str) -> bool:
    """Return whether a statement may contain a password."""
    return _MAY_HOLD_SECRET.search(text) is not None


def default_name(secret_type: str) -> str:
    """Return the name of a secret to which CREATE SECRET gives none, as DuckDB does."""
    return f"__default_{fold(secret_type)}"


class Secrets:
    """Keep the options of each secret by its name, in any case. No `repr` shows them."""

    def __init__(self) -> None:
        self._secrets: dict[str, tuple[str, Mapping[str, str]]] = {}

    def add(self, name: str, options: Mapping[str, str], on_conflict: OnConflict) -> bool:
        """Add a secret; return False if `on_conflict` is IGNORE and the name exists."""
        if fold(name) in self._secrets:
            if on_conflict is OnConflict.IGNORE:
                return False
            if on_conflict is OnConflict.ERROR:
                raise AlreadyExists("secret", name, "use CREATE OR REPLACE SECRET to replace it")
        self._secrets[fold(name)] = name, options
        return True

    def drop(self, name: str) -> bool:
        """Remove a secret; return False if none has this name."""
        return self._secrets.pop(fold(name), None) is not None

    def find(self, name: str | None, secret_type: str) -> Mapping[str, str] | None:
        """Return the options of a secret; raise NotFound with the names of the others.

        Without a name, return those of the secret of this type without a name, or None.
        """
        secret = self._secrets.get(fold(name or default_name(secret_type)))
        if secret is None and name is not None:
            known = ", ".join(known_name for known_name, _ in self._secrets.values())
            hint = f"known: {known}" if known else "create it with CREATE SECRET"
            raise NotFound("secret", name, hint)
        return secret[1] if secret else None
