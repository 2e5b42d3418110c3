"""What a type of catalog says about itself, so that no other room has to know its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from jetbridge.catalog.protocols import Catalog
from jetbridge.catalog.settings import Setting

C = TypeVar("C")
UsesSpark = Literal["never", "for large loads", "for writes"]
Recognition = Literal["no", "maybe", "yes"]
Secret = Mapping[str, str]


class StatementLimits(Protocol):
    """Hold the limits of a server that its catalogs observe; see `jetbridge.service.Limits`."""

    @property
    def staged_bytes(self) -> int:
        """Return how many bytes one statement may stage."""

    @property
    def spill_bytes(self) -> int:
        """Return how many bytes one statement may stage in memory."""

    @property
    def history_bytes(self) -> int:
        """Return how many bytes of old versions the catalogs in memory may keep."""


@dataclass(frozen=True)
class SharedResources:
    """Hold what all catalogs of one process share.

    `engine` is the `jetbridge.spark.SparkEngine`, or None if no catalog uses Spark.
    """

    limits: StatementLimits
    engine: Any = None


@dataclass(frozen=True)
class CatalogTable(Generic[C]):
    """Hold one table `[catalogs.NAME]` of the configuration file.

    `values` are its keys without `type`. Relative paths in them start at `base`. `others` are the
    catalogs of the same type that come before it in the file. `source` is the name of the file,
    for errors.
    """

    source: str
    name: str
    values: Mapping[str, object]
    base: Path
    others: Mapping[str, C]

    @property
    def key(self) -> str:
        """Return the name of the table, which begins the names of its keys in errors."""
        return f"catalogs.{self.name}"


@dataclass(frozen=True)
class AttachRequest:
    """Describe one ATTACH statement.

    `location` may hold a password. `options` are those in parentheses, by names in lower case.
    `secret` is the secret that the statement names, or else the unnamed one of this type.
    `also_location_of` names the other types of catalogs that recognize the location.
    """

    alias: str
    location: str = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret: Secret | None = field(default=None, repr=False)
    also_location_of: tuple[str, ...] = ()


def _recognize_nothing(_: str) -> Recognition:
    """Recognize no location: ATTACH must name the type."""
    return "no"


@dataclass(frozen=True)
class Backend(Generic[C]):
    """Describe one type of catalog; `C` is the class of its configuration.

    `extra` is the set of optional packages that it needs, and `packages` maps their modules to the
    names by which pip installs them; both are empty if it needs none. `keys` are the keys of its
    table in the configuration file with their defaults, None for a key without one. `settings` can
    be changed by SET, `--set`, ATTACH and the file, and `values_of_settings` returns those of a
    configuration. SET accepts `ignored_settings` without an effect. `is_durable` says that its
    tables outlive the process.

    `load_config` checks a table of the file, `config_for_attach` an ATTACH statement, and
    `parse_secret` the options of CREATE SECRET (None: this type takes no secrets); they raise
    ConfigError or BadRequest. `recognizes` tells from the location of an ATTACH without TYPE
    whether it means this type. `open` opens a catalog of a name and a configuration; it imports
    what the extra brings.
    """

    kind: str
    load_config: Callable[[CatalogTable[C]], C]
    config_for_attach: Callable[[AttachRequest], C]
    open: Callable[[str, C, SharedResources], Catalog]
    keys: Mapping[str, object] = field(default_factory=dict)
    extra: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    values_of_settings: Callable[[C], Mapping[str, object]] = lambda _: {}
    ignored_settings: frozenset[str] = frozenset()
    parse_secret: Callable[[Mapping[str, str]], Secret] | None = None
    recognizes: Callable[[str], Recognition] = _recognize_nothing
    uses_spark: UsesSpark = "never"
    is_durable: bool = True
