"""Reads the configuration of a lake: its own keys, and the properties of Iceberg."""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from jetbridge.catalog.backend import AttachRequest, CatalogTable
from jetbridge.config.model import COMMAND_LINE, DATA_FOLDER, CatalogConfig, ConfigError
from jetbridge.config.rules import InvalidValue, Rule, check_values, read_properties, whole
from jetbridge.errors import BadRequest
from jetbridge.spark.jars import files_of

# Spark uses the name of a lake in names of settings, which it reads with a regular expression.
NAME = re.compile(r"[A-Za-z0-9_-]+")
# Spark has a catalog of this name.
RESERVED_NAME = "spark_catalog"
# A key that is this similar to one of ours is a typing error, not a property of Iceberg.
SIMILARITY = 0.85
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
ENFORCE_KEYS_ROWS = 10_000_000


@dataclass(frozen=True)
class LakeConfig(CatalogConfig):
    """Configure one lake.

    `properties` go to Iceberg, in Spark and in PyIceberg. They may hold secrets, so `repr` leaves
    them out.
    """

    type: str = "lake"
    warehouse: str = DATA_FOLDER
    enforce_keys_rows: int = ENFORCE_KEYS_ROWS
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def local_folder(self) -> Path | None:
        """Return the folder of the warehouse, or None if it is not on this machine."""
        return local_folder(self.warehouse)

    def iceberg_properties(self) -> Mapping[str, str]:
        """Return the properties of Iceberg, and those that the files of the warehouse need."""
        return {**files_of(self.warehouse), **self.properties}


def local_folder(warehouse: str) -> Path | None:
    """Return the path of a warehouse, or None if it is not on this machine."""
    parts = urlsplit(warehouse)
    if parts.scheme not in ("", "file"):
        return None
    return Path(parts.path if parts.scheme else warehouse).expanduser().absolute()


def _warehouse(value: object, base: Path) -> str:
    """Accept the path of a folder, or its location in an object store."""
    if not isinstance(value, str) or not value:
        raise InvalidValue("must be the path of a folder, or the location of one, in quotes")
    if SCHEME.match(value):
        return value
    path = os.path.join("" if base == Path() else base, os.path.expanduser(value))
    if os.path.exists(path) and not os.path.isdir(path):
        raise InvalidValue(f"must be a folder; {path} is something else")
    return path


LAKE_RULES: Mapping[str, Rule] = {"warehouse": _warehouse, "enforce_keys_rows": whole(0)}


def load_config(table: CatalogTable[LakeConfig]) -> LakeConfig:
    """Check a table `[catalogs.NAME]`; raises ConfigError.

    A key that is not one of `LAKE_RULES` is a property of Iceberg.
    """
    own = {name: table.values[name] for name in LAKE_RULES if name in table.values}
    rest = {name: value for name, value in table.values.items() if name not in own}
    properties = read_properties(table.source, f"{table.key}.", rest)
    for name in properties:
        similar = difflib.get_close_matches(name, [*LAKE_RULES, "type"], n=1, cutoff=SIMILARITY)
        if similar:
            problem = f"is not a key; did you mean {similar[0]!r}?"
            raise ConfigError(table.source, f"{table.key}.{name}", problem)
    base = table.base
    if "warehouse" not in own:
        own["warehouse"] = LakeConfig.warehouse
    elif _is_rest(properties):
        base = Path()  # a REST catalog has a name for its warehouse, not a path
    values = check_values(table.source, f"{table.key}.", own, LAKE_RULES, base)
    config = LakeConfig(properties=properties, **values)
    _check_name(table)
    _check_folder(table, config)
    return config


def _check_name(table: CatalogTable[LakeConfig]) -> None:
    """Raise ConfigError for a name that Spark cannot use."""
    if not NAME.fullmatch(table.name) or table.name.lower() == RESERVED_NAME:
        problem = (
            f"the name of a lake has letters, digits, '_' and '-', and is not {RESERVED_NAME!r}"
        )
        raise ConfigError(table.source, table.key, f"cannot be a lake: {problem}")


def _check_folder(table: CatalogTable[LakeConfig], config: LakeConfig) -> None:
    """Raise ConfigError if another lake has the same folder: its files would be mixed with ours."""
    for name, other in table.others.items():
        if _has_same_folder(other, config):
            problem = f"= {config.warehouse!r}: is that of catalogs.{name}, too; each lake needs "
            raise ConfigError(
                table.source, f"{table.key}.warehouse", f"{problem}a folder of its own"
            )


def _has_same_folder(one: LakeConfig, other: LakeConfig) -> bool:
    """Compare warehouses, but for REST catalogs, which know where their tables are."""
    if _is_rest(one.properties) or _is_rest(other.properties):
        return False
    return _absolute(one.warehouse) == _absolute(other.warehouse)


def _absolute(warehouse: str) -> str:
    location = warehouse.removeprefix("file://")
    return (location if SCHEME.match(location) else os.path.abspath(location)).rstrip("/")


def _is_rest(properties: Mapping[str, str]) -> bool:
    return properties.get("uri", "").startswith(("http:", "https:"))


def with_warehouse(config: LakeConfig, folder: str) -> LakeConfig:
    """Return the configuration with the folder of the flag `--warehouse`; raises ConfigError."""
    rules = {"warehouse": LAKE_RULES["warehouse"]}
    values = check_values(COMMAND_LINE, "--", {"warehouse": folder}, rules, Path())
    return replace(config, **values)


def config_for_attach(request: AttachRequest) -> LakeConfig:
    """Return the lake of an ATTACH; raises BadRequest if the location is not that of a lake.

    The error does not quote the location, which may hold a password.
    """
    for kind in request.also_location_of:
        raise BadRequest(
            f"the location looks like that of a catalog of type {kind}: write (TYPE {kind})"
        )
    return LakeConfig(warehouse=request.location)
