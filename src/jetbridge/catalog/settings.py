"""Settings that a kind of catalog has: their names, what is allowed, and what they are at first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jetbridge.errors import BadRequest


@dataclass(frozen=True)
class Setting:
    """`read` makes its value of a text, and raises BadRequest with what is allowed.

    `also` are other names for it.
    """

    default: Any
    read: Callable[[str], Any]
    about: str
    also: tuple[str, ...] = ()


def one_of(name: str, *allowed: str) -> Callable[[str], str]:
    """Whatever its case; answered as it is written here."""

    def read(value: str) -> str:
        found = next((each for each in allowed if each.lower() == value.strip().lower()), None)
        if found is None:
            listed = " or ".join(repr(each) for each in allowed)
            raise BadRequest(f"Invalid {name}: {value!r}. Must be {listed}")
        return found

    return read


def truth(name: str) -> Callable[[str], bool]:
    words = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}

    def read(value: str) -> bool:
        found = words.get(value.strip().lower())
        if found is None:
            raise BadRequest(f"Invalid {name}: {value!r}. Must be true or false")
        return found

    return read


def whole(name: str, low: int, high: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        text = value.strip().replace("_", "")
        if not text.isdecimal() or not low <= int(text) <= high:
            raise BadRequest(f"Invalid {name}: {value!r}. Must be a number from {low} to {high}")
        return int(text)

    return read
