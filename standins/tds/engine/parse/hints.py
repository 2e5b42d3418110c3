"""Hints of tables, as in WITH (NOLOCK)."""

from collections.abc import Iterable

from standins.tds.engine.errors import unknown

DIRTY_HINTS = {"NOLOCK", "READUNCOMMITTED"}
_KNOWN_HINTS = {
    *DIRTY_HINTS, "HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD", "UPDLOCK", "XLOCK", "TABLOCK",
    "TABLOCKX", "ROWLOCK", "PAGLOCK", "READCOMMITTED", "READCOMMITTEDLOCK", "READPAST", "NOWAIT",
    "FORCESEEK", "FORCESCAN", "INDEX", "KEEPIDENTITY", "KEEPDEFAULTS", "IGNORE_CONSTRAINTS",
}  # fmt: skip
_REFUSED_HINTS = {"READPAST", "NOWAIT"}


def check_hints(hints: Iterable[str]) -> frozenset[str]:
    """Return the hints as a set. Raise error 40000 if the stand-in does not support one."""
    checked = frozenset(hints)
    if checked - _KNOWN_HINTS or checked & _REFUSED_HINTS:
        raise unknown(f"the hints {', '.join(sorted(checked))}")
    return checked
