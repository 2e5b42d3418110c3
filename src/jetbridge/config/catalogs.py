"""Reads the tables `[catalogs.NAME]`; the backend of its type checks the keys of each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jetbridge.catalog.backend import Backend, CatalogTable
from jetbridge.config.limits import catalog_name_error
from jetbridge.config.model import CatalogConfig, ConfigError
from jetbridge.config.rules import check_table

Backends = Mapping[str, Backend[Any]]


def load_catalogs(
    source: str, tables: Mapping[str, object], base: Path, backends: Backends
) -> dict[str, CatalogConfig]:
    """Return the catalogs of a file by name; raises ConfigError."""
    catalogs: dict[str, CatalogConfig] = {}
    for name, value in tables.items():
        key = f"catalogs.{name}"
        problem = catalog_name_error(name, catalogs)
        if problem:
            raise ConfigError(source, key, problem)
        values = check_table(source, key, value)
        kind = _type(source, key, values, backends)
        rest = {key: value for key, value in values.items() if key != "type"}
        others = {other: config for other, config in catalogs.items() if config.type == kind}
        table = CatalogTable(source, name, rest, base, others)
        catalogs[name] = backends[kind].load_config(table)
    return catalogs


def _type(source: str, key: str, values: Mapping[str, object], backends: Backends) -> str:
    kind = values.get("type")
    if isinstance(kind, str) and kind in backends:
        return kind
    problem = f"= {kind!r}" if "type" in values else "is missing"
    allowed = " or ".join(map(repr, backends))
    raise ConfigError(source, f"{key}.type", f"{problem}: must be {allowed}")
