"""Defines settings: their defaults and the values that they allow, for every place that sets them.

The configuration file, ATTACH, SET and `--set` read the same `Setting`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from jetbridge.errors import BadRequest

# Defaults of `limits.staged_bytes` and `limits.spill_bytes`, also for catalogs without a server.
STAGED_BYTES = 16 * 2**30
SPILL_BYTES = 256 * 2**20
# Defaults of `limits.message_bytes`, `limits.request_bytes` and `limits.batch_rows`.
MESSAGE_BYTES = 64 * 2**20
REQUEST_BYTES = 8 * 2**20
BATCH_ROWS = 2**20
# Default of `sql.memory_limit`, also for sessions without a configuration.
SQL_MEMORY = "2GB"
ENGINES = ("auto", "spark", "duckdb")
DIALECTS = ("duckdb", "spark")
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


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


def byte_count(name: str, value: str) -> int:
    """Return the bytes of a text such as 500MB or 2GiB; raise BadRequest for another text."""
    text = value.replace("_", "").replace(" ", "")
    number = text.rstrip("BIKMGTbikmgt")
    unit = text[len(number) :].upper()
    if not number.isdecimal() or unit not in _UNITS:
        raise BadRequest(
            f"Invalid {name}: {value!r}. Must be a number of bytes, such as 500MB or 2GiB"
        )
    return int(number) * _UNITS[unit]


# The settings that every session has.
SESSION_SETTINGS: Mapping[str, Setting] = {
    "engine": Setting(
        "auto",
        one_of("engine", *ENGINES),
        "engine for queries: `duckdb`, `spark` (refuses a query whose rows could differ from "
        "DuckDB's), or `auto`",
    ),
    "dialect": Setting(
        "duckdb",
        one_of("dialect", *DIALECTS),
        "`spark`: queries are Spark SQL and run unchanged; for the local command only",
    ),
    "spark_from": Setting(
        2 * 2**30,
        partial(byte_count, "spark_from"),
        "total bytes of the tables of a query from which `auto` chooses Spark",
    ),
}
