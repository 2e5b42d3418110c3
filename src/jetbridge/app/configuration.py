"""Reads a configuration for the backends of this process, and its default catalogs."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from jetbridge.app.backends import BACKENDS, missing_packages
from jetbridge.config import load
from jetbridge.config.catalogs import load_catalogs
from jetbridge.config.model import COMMAND_LINE, CatalogConfig, Config, ConfigError

log = logging.getLogger(__name__)

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
