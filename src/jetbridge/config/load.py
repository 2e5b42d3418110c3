"""Reads the configuration file, its tables of catalogs, and the flags that override it."""

import logging
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jetbridge.catalog.backend import Backend, CatalogTable
from jetbridge.config.credentials import load_credentials
from jetbridge.config.model import (
    COMMAND_LINE,
    DATA_FOLDER,
    CatalogConfig,
    Config,
    ConfigError,
    Limits,
    ServerConfig,
    SqlConfig,
    catalog_name_error,
    is_loopback,
)
from jetbridge.config.rules import RULES, check_table, check_values, read_properties, refuse_unknown
from jetbridge.spark.settings import FIXED

log = logging.getLogger(__name__)

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


TABLES = (*RULES, "spark", "catalogs")


# Takes the name of the file, its table `catalogs`, and its folder.
LoadCatalogs = Callable[[str, Mapping[str, object], Path], Mapping[str, CatalogConfig]]


def load_config(
    path: Path | None,
    flags: Mapping[str, object],
    load_catalogs: LoadCatalogs,
) -> Config:
    """Return the checked configuration of a file, or the default one; raises ConfigError.

    `flags` override keys of [server].
    """
    source, base = (str(path), path.parent) if path else ("default configuration", Path())
    content = _read_toml(path) if path else {}
    refuse_unknown(source, "", content, TABLES)
    tables = {name: check_table(source, name, content.get(name, {})) for name in TABLES}
    server = check_values(source, "server.", tables["server"], RULES["server"], base)
    overrides = check_values(COMMAND_LINE, "--", flags, RULES["server"], Path())
    limits = Limits(**check_values(source, "limits.", tables["limits"], RULES["limits"], base))
    config = Config(
        server=ServerConfig(**{**server, **overrides}),
        limits=limits,
        catalogs=MappingProxyType(load_catalogs(source, tables["catalogs"], base)),
        sql=SqlConfig(**check_values(source, "sql.", tables["sql"], RULES["sql"], base)),
        spark=MappingProxyType(_spark(source, tables["spark"])),
        data_folder=base / DATA_FOLDER,
    )
    _check_limits(source, config.limits)
    config = replace(config, credentials=load_credentials(source, config))
    refuse_open_door(COMMAND_LINE if "host" in overrides else source, config)
    return config


def refuse_open_door(source: str, config: Config) -> None:
    """Raise ConfigError for a server that other machines can reach without a token."""
    server = config.server
    if is_loopback(server.host):
        return
    if not config.credentials.tokens:
        raise ConfigError(
            source,
            "server.host",
            f"= {server.host!r} can be reached from other machines, so callers must show a token: "
            'set server.tokens_file (one "name: token" per line), or use host 127.0.0.1',
        )
    if not server.tls_cert:
        log.warning("tokens travel unencrypted to %s: set server.tls_cert and tls_key", server.host)


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except tomllib.TOMLDecodeError as error:
        problem = f"is not TOML: {error}"
    raise ConfigError(str(path), "", problem)


def _check_limits(source: str, limits: Limits) -> None:
    if limits.exchanges + limits.scans > limits.concurrent_calls:
        raise ConfigError(
            source,
            "limits.concurrent_calls",
            f"= {limits.concurrent_calls}: must be at least exchanges + scans "
            f"({limits.exchanges} + {limits.scans}), since an UPDATE needs one of each",
        )
    if limits.spill_bytes > limits.staged_bytes:
        raise ConfigError(
            source,
            "limits.spill_bytes",
            f"= {limits.spill_bytes}: must not exceed staged_bytes ({limits.staged_bytes})",
        )


def _spark(source: str, table: Mapping[str, object]) -> dict[str, str]:
    values = read_properties(source, "spark.", table)
    for name, value in values.items():
        if not name.startswith("spark."):
            problem = f'is not a setting of Spark; their names begin with "spark.": "spark.{name}"'
            raise ConfigError(source, f"spark.{name}", problem)
        fixed, reason = FIXED.get(name, (value, ""))
        if name in FIXED and value.strip().lower() != fixed:
            problem = f"must be {fixed}, its default: otherwise {reason}"
            raise ConfigError(source, f'spark."{name}"', problem)
    return values
