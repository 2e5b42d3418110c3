"""Keeps the values of the settings of a session, from SET, `--set` and the configuration file."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jetbridge.catalog.settings import SESSION_SETTINGS, Setting
from jetbridge.errors import BadRequest

NO_EFFECT = "it has no effect here"
# The settings of one type of catalog share a prefix, so most of them are a bit similar.
_SIMILAR = 0.8


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
        return {name: text for name, text in self.overrides.items() if name not in SESSION_SETTINGS}

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
        return name.lower() not in SESSION_SETTINGS and name.lower() in self.ignored

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
        for name, setting in {**SESSION_SETTINGS, **self.catalog_settings}.items():
            yield name, self.format_value(name), setting.about

    def _setting(self, full_name: str) -> Setting:
        return SESSION_SETTINGS.get(full_name) or self.catalog_settings[full_name]

    def _full_name(self, name: str) -> str:
        """Return the name under which a setting is listed; the user may write another one."""
        lower = name.lower()
        if lower in SESSION_SETTINGS or lower in self.catalog_settings:
            return lower
        for full_name, setting in self.catalog_settings.items():
            if lower in setting.also:
                return full_name
        raise _unknown(name, [*SESSION_SETTINGS, *self.catalog_settings])


def _unknown(name: str, known: list[str]) -> BadRequest:
    similar = difflib.get_close_matches(name.lower(), known, cutoff=_SIMILAR)
    hint = f"; did you mean {' or '.join(similar)}?" if similar else "."
    return BadRequest(f"there is no setting {name!r}{hint} The settings are {', '.join(known)}")
