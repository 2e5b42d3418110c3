"""From the file and the flags to a checked configuration."""

import logging
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from jetbridge.config.catalogs import load_catalogs, with_default_lake, with_warehouse
from jetbridge.config.credentials import load_credentials
from jetbridge.config.model import (
    COMMAND_LINE,
    DATA_FOLDER,
    Config,
    ConfigError,
    ServerConfig,
    SqlConfig,
    missing_lake_packages,
)
from jetbridge.config.properties import settings
from jetbridge.config.rules import RULES, checked, refuse_unknown, table
from jetbridge.service.limits import Limits, is_loopback
from jetbridge.spark.settings import FIXED

log = logging.getLogger(__name__)

TABLES = (*RULES, "spark", "catalogs")


def load_config(
    path: Path | None = None,
    flags: Mapping[str, object] | None = None,
    *,
    warehouse: str | None = None,
    notify: Callable[[str], object] = log.warning,
) -> Config:
    """The configuration of the file, or the default one.

    `flags` override keys of [server], `warehouse` that of the one lake there is. `notify` gets a
    sentence if the extra `lake` is missing, so that `memory` is the only default catalog.
    """
    source, base = (str(path), path.parent) if path else ("default configuration", Path())
    tables = _read_toml(path) if path else {}
    refuse_unknown(source, "", tables, TABLES)
    given = {name: table(source, name, tables.get(name, {})) for name in TABLES}
    server = ServerConfig(**checked(source, "server.", given["server"], RULES["server"], base))
    overrides = checked(COMMAND_LINE, "--", flags or {}, RULES["server"], Path())
    limits = Limits(**checked(source, "limits.", given["limits"], RULES["limits"], base))
    catalogs = load_catalogs(source, given["catalogs"], base)
    if warehouse is not None:
        if not given["catalogs"]:
            catalogs = with_default_lake(source, catalogs, base)
        catalogs = with_warehouse(catalogs, warehouse)
    elif not given["catalogs"]:
        _explain_missing_lake(notify)
    config = Config(
        server=replace(server, **overrides),
        limits=limits,
        catalogs=MappingProxyType(catalogs),
        sql=SqlConfig(**checked(source, "sql.", given["sql"], RULES["sql"], base)),
        spark=MappingProxyType(_spark(source, given["spark"])),
        data_folder=base / DATA_FOLDER,
    )
    _check_limits(source, config.limits)
    config = replace(config, credentials=load_credentials(source, config))
    refuse_open_door(COMMAND_LINE if "host" in overrides else source, config)
    return config


def refuse_open_door(source: str, config: Config) -> None:
    """A server that others can reach and that asks nobody who they are is never started."""
    server = config.server
    if is_loopback(server.host):
        return
    if not config.credentials.tokens:
        raise ConfigError(
            source,
            "server.host",
            f"= {server.host!r} can be reached from other machines, so callers must show a token: "
            'set server.tokens_file (one "name: token" a line), or use host 127.0.0.1',
        )
    if not server.tls_cert:
        log.warning("tokens travel unencrypted to %s: set server.tls_cert and tls_key", server.host)


def _explain_missing_lake(notify: Callable[[str], object]) -> None:
    missing = missing_lake_packages()
    if missing:
        notify(
            "the default catalog is 'memory', whose tables are gone when this process ends, "
            f"because {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed; "
            "for durable tables run pip install 'jetbridge[lake]'"
        )


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


def _spark(source: str, given: Mapping[str, object]) -> dict[str, str]:
    found = settings(source, "spark.", given)
    for name in found:
        if not name.startswith("spark."):
            problem = f'is no setting of Spark; they begin with "spark.": "spark.{name}"'
            raise ConfigError(source, f"spark.{name}", problem)
        value, reason = FIXED.get(name, (found[name], ""))
        if found[name].strip().lower() != value:
            problem = f"must be {value}, which is its value without this line: else {reason}"
            raise ConfigError(source, f'spark."{name}"', problem)
    return found
