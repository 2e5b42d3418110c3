"""Gives sessions the settings of all types of catalogs; a backend is imported when SET needs it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from jetbridge.app.backends import BACKENDS
from jetbridge.catalog.backend import Backend
from jetbridge.catalog.settings import Setting
from jetbridge.config import Config


class CatalogSettings(Mapping[str, Setting]):
    """Map names to the settings of all backends, which are imported at the first use.

    A type may be attached later in the session, so the settings of all types are known. The
    default of a setting is its value in the configuration, if all catalogs of the type agree.
    """

    def __init__(self, config: Config) -> None:
        self._config = config

    @cached_property
    def _settings(self) -> Mapping[str, Setting]:
        return {
            name: setting
            for backend in BACKENDS.values()
            for name, setting in _with_defaults(backend, self._config).items()
        }

    def __getitem__(self, name: str) -> Setting:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)


def _with_defaults(backend: Backend[Any], config: Config) -> Mapping[str, Setting]:
    values = [
        backend.values_of_settings(catalog)
        for catalog in config.catalogs.values()
        if catalog.type == backend.kind
    ]
    if not values or any(other != values[0] for other in values):
        return backend.settings
    return {
        name: replace(setting, default=values[0][name])
        for name, setting in backend.settings.items()
    }


class IgnoredSettings(Collection[str]):
    """Hold the names that SET accepts without an effect, for all backends."""

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset().union(*(backend.ignored_settings for backend in BACKENDS.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
