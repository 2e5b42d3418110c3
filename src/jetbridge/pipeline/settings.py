"""Defines settings of a session: their names, and the values from SET, `--set` and the file."""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from jetbridge.catalog.settings import Setting
from jetbridge.errors import BadRequest

NO_EFFECT = "it has no effect here"
ENGINES = ("auto", "spark", "duckdb")
DIALECTS = ("duckdb", "spark")
# The settings of one type of catalog share a prefix, so most of them are a bit similar.
_SIMILAR = 0.8
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def _one_of(name: str, allowed: tuple[str, ...]) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.lower() not in allowed:
            raise BadRequest(f"{name} = {value!r}: allowed are {', '.join(allowed)}")
        return value.lower()

    return read


def byte_count(name: str, value: str) -> int:
    """Return the bytes of a text such as 500MB or 2GiB; raise BadRequest for another text."""
    text = value.replace("_", "").replace(" ", "")
    number = text.rstrip("BIKMGTbikmgt")
    unit = text[len(number) :].upper()
    if not number.isdecimal() or unit not in _UNITS:
        raise BadRequest(f"{name} = {value!r}: must be a number of bytes, such as 500MB or 2GiB")
    return int(number) * _UNITS[unit]


# The settings that every session has.
SETTINGS: Mapping[str, Setting] = {
    "engine": Setting(
        "auto",
        _one_of("engine", ENGINES),
        "engine for queries: `duckdb`, `spark` (refuses a query whose rows could differ from "
        "DuckDB's), or `auto`",
    ),
    "dialect": Setting(
        "duckdb",
        _one_of("dialect", DIALECTS),
        "`spark`: queries are Spark SQL and run unchanged; for the local command only",
    ),
    "spark_from": Setting(
        2 * 2**30,
        partial(byte_count, "spark_from"),
        "total bytes of the tables of a query from which `auto` chooses Spark",
    ),
}


@dataclass(frozen=True)
class SettingValues:
    """Hold the value of every setting of one session. A change returns another object.

    `catalog_settings` are the settings of the types of catalogs, attached or not; their values go
    to every catalog that implements CanConfigure. SET accepts the names in `ignored` and does
    nothing. `overrides` has the values, as text, that differ from the defaults.
    """

    catalog_settings: Mapping[str, Setting] = field(default_factory=dict)
    ignored: Collection[str] = frozenset()
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        """Return the engine that SET chose: duckdb, spark or auto."""
        return str(self.value("engine"))

    @property
    def dialect(self) -> str:
        """Return the dialect in which queries are written: duckdb or spark."""
        return str(self.value("dialect"))

    @property
    def spark_from(self) -> int:
        """Return the bytes of the tables of a query from which `auto` chooses Spark."""
        return int(self.value("spark_from"))

    @property
    def catalog_overrides(self) -> Mapping[str, str]:
        """Return the overrides that belong to catalogs, by the names of their settings."""
        return {name: text for name, text in self.overrides.items() if name not in SETTINGS}

    def with_change(self, name: str, value: str | None) -> "SettingValues":
        """Return the values after SET, or after RESET if the value is None.

        Raises BadRequest for an unknown name, and for a value that the setting does not allow.
        """
        if self.is_ignored(name):
            return self
        name = self._full_name(name)
        overrides = {other: text for other, text in self.overrides.items() if other != name}
        if value is not None:
            self._setting(name).read(value)
            overrides[name] = value
        return replace(self, overrides=overrides)

    def is_ignored(self, name: str) -> bool:
        """Return whether SET accepts this name without an effect."""
        return name.lower() not in SETTINGS and name.lower() in self.ignored

    def value(self, name: str) -> Any:
        """Return the value in effect; raise BadRequest for an unknown name."""
        name = self._full_name(name)
        setting, text = self._setting(name), self.overrides.get(name)
        return setting.default if text is None else setting.read(text)

    def format_value(self, name: str) -> str:
        """Return the value in effect as SHOW prints it; raise BadRequest for an unknown name."""
        value = self.value(name)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def rows(self) -> Iterable[tuple[str, str, str]]:
        """Return name, value and description of every setting."""
        for name, setting in {**SETTINGS, **self.catalog_settings}.items():
            yield name, self.format_value(name), setting.about

    def _setting(self, full_name: str) -> Setting:
        return SETTINGS.get(full_name) or self.catalog_settings[full_name]

    def _full_name(self, name: str) -> str:
        """Return the name under which a setting is listed; the user may write another one."""
        lower = name.lower()
        if lower in SETTINGS or lower in self.catalog_settings:
            return lower
        for full_name, setting in self.catalog_settings.items():
            if lower in setting.also:
                return full_name
        raise _unknown(name, [*SETTINGS, *self.catalog_settings])


def _unknown(name: str, known: list[str]) -> BadRequest:
    similar = difflib.get_close_matches(name.lower(), known, cutoff=_SIMILAR)
    hint = f"; did you mean {' or '.join(similar)}?" if similar else "."
    return BadRequest(f"there is no setting {name!r}{hint} The settings are {', '.join(known)}")
