"""`[catalogs.NAME]`: which catalogs are served, and what each type of them takes."""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from jetbridge.config.model import (
    COMMAND_LINE,
    CatalogConfig,
    ConfigError,
    LakeConfig,
    default_catalogs,
)
from jetbridge.config.mssql import load_mssql
from jetbridge.config.properties import settings
from jetbridge.config.rules import InvalidValue, Rule, checked, refuse_unknown, table, whole
from jetbridge.service.limits import catalog_name_error

# Spark makes a settings name of it, and looks for that with a regular expression.
LAKE_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Spark's own catalog, which is always there.
TAKEN = "spark_catalog"
# A name so near to one of ours is a slip, not a property of Iceberg.
NEAR = 0.85
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def _warehouse(value: object, base: Path) -> str:
    """A folder, or the location of one in an object store."""
    if not isinstance(value, str) or not value:
        raise InvalidValue("must be the path of a folder, or the location of one, in quotes")
    if SCHEME.match(value):
        return value
    path = os.path.join("" if base == Path() else base, os.path.expanduser(value))
    if os.path.exists(path) and not os.path.isdir(path):
        raise InvalidValue(f"must be a folder; {path} is something else")
    return path


LAKE_RULES: Mapping[str, Rule] = {"warehouse": _warehouse, "enforce_keys_rows": whole(0)}


def load_catalogs(source: str, given: Mapping[str, object], base: Path) -> dict[str, CatalogConfig]:
    """Those of the file; where it names none, the default ones."""
    if not given:
        defaults = default_catalogs()
        return {**defaults, **(_default_lake(source, base) if "lake" in defaults else {})}
    catalogs: dict[str, CatalogConfig] = {}
    for name, value in given.items():
        key = f"catalogs.{name}"
        problem = catalog_name_error(name, catalogs)
        if problem:
            raise ConfigError(source, key, problem)
        catalogs[name] = _catalog(source, key, table(source, key, value), base)
        _refuse_lake(source, name, catalogs)
    return catalogs


def with_default_lake(
    source: str, catalogs: Mapping[str, CatalogConfig], base: Path
) -> dict[str, CatalogConfig]:
    """Return the default catalogs with `lake` among them, also where it cannot be opened."""
    return {**_default_lake(source, base), **catalogs}


def _default_lake(source: str, base: Path) -> dict[str, CatalogConfig]:
    return {"lake": _lake(source, "catalogs.lake", {}, base)}


def with_warehouse(catalogs: Mapping[str, CatalogConfig], folder: str) -> dict[str, CatalogConfig]:
    """The same catalogs, the one lake among them in this folder."""
    lakes = {name: each for name, each in catalogs.items() if isinstance(each, LakeConfig)}
    if len(lakes) != 1:
        listed = f"there are several ({', '.join(lakes)})" if lakes else "there is none"
        problem = f"needs exactly one catalog of type 'lake', and {listed}"
        raise ConfigError(COMMAND_LINE, "--warehouse", problem)
    given = checked(COMMAND_LINE, "--", {"warehouse": folder}, LAKE_RULES, Path())
    return {**catalogs, **{name: replace(lake, **given) for name, lake in lakes.items()}}


def _catalog(source: str, key: str, given: Mapping[str, object], base: Path) -> CatalogConfig:
    kind = given.get("type")
    allowed = " or ".join(map(repr, KINDS))
    if not isinstance(kind, str) or kind not in KINDS:
        problem = f"= {kind!r}" if "type" in given else "is missing"
        raise ConfigError(source, f"{key}.type", f"{problem}: must be {allowed}")
    rest = {name: value for name, value in given.items() if name != "type"}
    return KINDS[kind](source, key, rest, base)


def _memory(source: str, key: str, given: Mapping[str, object], _: Path) -> CatalogConfig:
    refuse_unknown(source, f"{key}.", given, ["type"])
    return CatalogConfig("memory")


def _lake(source: str, key: str, given: Mapping[str, object], base: Path) -> LakeConfig:
    """Keys that are not ours are Iceberg's."""
    own = {name: given[name] for name in LAKE_RULES if name in given}
    rest = {name: value for name, value in given.items() if name not in own}
    properties = settings(source, f"{key}.", rest)
    for name in properties:
        near = difflib.get_close_matches(name, [*LAKE_RULES, "type"], n=1, cutoff=NEAR)
        if near:
            raise ConfigError(source, f"{key}.{name}", f"is not a key; did you mean {near[0]!r}?")
    if "warehouse" not in own:
        own["warehouse"] = LakeConfig.warehouse
    elif _is_rest(properties):
        base = Path()  # such a catalog has a name for its warehouse
    values = checked(source, f"{key}.", own, LAKE_RULES, base)
    return LakeConfig(properties=properties, **values)


KINDS: Mapping[str, Callable[[str, str, Mapping[str, object], Path], CatalogConfig]] = {
    "lake": _lake,
    "memory": _memory,
    "mssql": load_mssql,
}


def _refuse_lake(source: str, name: str, catalogs: Mapping[str, CatalogConfig]) -> None:
    """A lake whose name Spark could not take, or whose files lie among those of another."""
    lake = catalogs[name]
    if not isinstance(lake, LakeConfig):
        return
    key = f"catalogs.{name}"
    if not LAKE_NAME.fullmatch(name) or name.lower() == TAKEN:
        problem = f"the name of a lake has letters, digits, '_' and '-', and is not {TAKEN!r}"
        raise ConfigError(source, key, f"cannot be a lake: {problem}")
    for other, each in catalogs.items():
        if other != name and isinstance(each, LakeConfig) and _same_folder(each, lake):
            problem = f"= {lake.warehouse!r}: is that of catalogs.{other}, too; each lake needs "
            raise ConfigError(source, f"{key}.warehouse", f"{problem}a folder of its own")


def _same_folder(one: LakeConfig, other: LakeConfig) -> bool:
    """A REST catalog knows by itself where its tables are."""
    if _is_rest(one.properties) or _is_rest(other.properties):
        return False
    places = (each.warehouse.removeprefix("file://") for each in (one, other))
    first, second = (place if SCHEME.match(place) else os.path.abspath(place) for place in places)
    return first.rstrip("/") == second.rstrip("/")


def _is_rest(properties: Mapping[str, str]) -> bool:
    return properties.get("uri", "").startswith(("http:", "https:"))
