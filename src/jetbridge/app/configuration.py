"""Lists the backends, and reads the configuration of this process and its settings with them.

A backend is imported when a configuration or a statement names it.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jetbridge.catalog.backend import Backend
from jetbridge.catalog.settings import Setting
from jetbridge.config import Config, load
from jetbridge.config.load import load_catalogs
from jetbridge.config.model import COMMAND_LINE, CatalogConfig, ConfigError

log = logging.getLogger(__name__)


def _lake() -> Backend[Any]:
    from jetbridge.backends.lake.backend import BACKEND  # noqa: PLC0415

    return BACKEND


def _memory() -> Backend[Any]:
    from jetbridge.backends.memory.backend import BACKEND  # noqa: PLC0415

    return BACKEND


def _mssql() -> Backend[Any]:
    from jetbridge.backends.mssql.backend import BACKEND  # noqa: PLC0415

    return BACKEND


# By the `type` of a catalog. A new backend is one line here.
LOADERS: Mapping[str, Callable[[], Backend[Any]]] = {
    "lake": _lake,
    "memory": _memory,
    "mssql": _mssql,
}


class Backends(Mapping[str, Backend[Any]]):
    """Map types of catalogs to backends, each of which is imported at its first use."""

    def __getitem__(self, kind: str) -> Backend[Any]:
        return LOADERS[kind]()

    def __iter__(self) -> Iterator[str]:
        return iter(LOADERS)

    def __len__(self) -> int:
        return len(LOADERS)


BACKENDS = Backends()


def missing_packages(backend: Backend[Any]) -> list[str]:
    """Return the packages of the extra that are not installed, as pip spells them."""
    return [name for module, name in backend.packages.items() if find_spec(module) is None]


LAKE, MEMORY = "lake", "memory"
DEFAULT_SOURCE = "default configuration"


def load_config(
    path: Path | None = None,
    flags: Mapping[str, object] | None = None,
    *,
    warehouse: str | None = None,
    notify: Callable[[str], object] = log.warning,
) -> Config:
    """Return the checked configuration of a file, or the default one; raises ConfigError.

    `flags` override keys of [server], and `warehouse` the folder of the only lake. `notify` gets a
    sentence if `memory` is the only default catalog because the extra `lake` is not installed.
    """

    def load_all(
        source: str, tables: Mapping[str, object], base: Path
    ) -> Mapping[str, CatalogConfig]:
        if tables:
            catalogs = load_catalogs(source, tables, base, BACKENDS)
        else:
            if warehouse is None:
                _notify_of_missing_lake(notify)
            catalogs = default_catalogs(source, base, with_lake=warehouse is not None)
        return catalogs if warehouse is None else _with_warehouse(catalogs, warehouse)

    return load.load_config(path, flags or {}, load_all)


def default_catalogs(
    source: str = DEFAULT_SOURCE, base: Path = Path(), *, with_lake: bool = False
) -> dict[str, CatalogConfig]:
    """Return the catalogs of a configuration that names none.

    `lake` is among them if its packages are installed, or `with_lake`.
    """
    tables = {LAKE: {"type": LAKE}, MEMORY: {"type": MEMORY}}
    if not with_lake and missing_packages(BACKENDS[LAKE]):
        del tables[LAKE]
    return load_catalogs(source, tables, base, BACKENDS)


def with_default_catalogs(config: Config) -> Mapping[str, CatalogConfig]:
    """Return the catalogs of a configuration, or the default ones if it names none."""
    return config.catalogs or MappingProxyType(default_catalogs())


def _notify_of_missing_lake(notify: Callable[[str], object]) -> None:
    missing = missing_packages(BACKENDS[LAKE])
    if missing:
        notify(
            "the default catalog is 'memory', whose tables are lost when this process ends, "
            f"because {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed; "
            "for durable tables run pip install 'jetbridge[lake]'"
        )


def _with_warehouse(
    catalogs: Mapping[str, CatalogConfig], folder: str
) -> Mapping[str, CatalogConfig]:
    """Return the catalogs with another folder for the only lake; raises ConfigError."""
    from jetbridge.backends.lake.config import LakeConfig, with_warehouse  # noqa: PLC0415

    lakes = {name: lake for name, lake in catalogs.items() if isinstance(lake, LakeConfig)}
    if len(lakes) != 1:
        listed = f"there are several ({', '.join(lakes)})" if lakes else "there is none"
        problem = f"needs exactly one catalog of type 'lake', and {listed}"
        raise ConfigError(COMMAND_LINE, "--warehouse", problem)
    return {**catalogs, **{name: with_warehouse(lake, folder) for name, lake in lakes.items()}}


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
