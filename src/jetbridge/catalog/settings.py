"""Defines settings: their defaults, the values that they allow, and limits with one default."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jetbridge.errors import BadRequest

# Defaults of `limits.staged_bytes` and `limits.spill_bytes`, also for catalogs without a server.
STAGED_BYTES = 16 * 2**30
SPILL_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Setting:
    """Define one setting, for the configuration file, ATTACH, SET and `--set` alike.

    Attributes:
        default: The value without any of them.
        read: Returns the value that a text stands for; raises BadRequest with what is allowed.
        about: The description that SHOW settings prints.
        also: Other names of the setting.
    """

    default: Any
    read: Callable[[str], Any]
    about: str
    also: tuple[str, ...] = ()


def one_of(name: str, *allowed: str) -> Callable[[str], str]:
    """Return a function that accepts these texts in any case, and returns them as spelled here."""
    by_lower_case = {text.lower(): text for text in allowed}

    def read(value: str) -> str:
        text = by_lower_case.get(value.strip().lower())
        if text is None:
            listed = " or ".join(map(repr, allowed))
            raise BadRequest(f"Invalid {name}: {value!r}. Must be {listed}")
        return text

    return read


def truth(name: str) -> Callable[[str], bool]:
    """Return a function that accepts true, on, 1, false, off and 0."""
    values = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}

    def read(value: str) -> bool:
        boolean = values.get(value.strip().lower())
        if boolean is None:
            raise BadRequest(f"Invalid {name}: {value!r}. Must be true or false")
        return boolean

    return read


def whole(name: str, low: int, high: int) -> Callable[[str], int]:
    """Return a function that accepts a whole number in a range; `_` may separate digits."""

    def read(value: str) -> int:
        text = value.strip().replace("_", "")
        if not text.isdecimal() or not low <= int(text) <= high:
            raise BadRequest(f"Invalid {name}: {value!r}. Must be a number from {low} to {high}")
        return int(text)

    return read
