"""What a configuration holds once it is checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.service.limits import Limits, Token

COMMAND_LINE = "command line"
DATA_FOLDER = "./jetbridge-data"
# What the extra `lake` installs, by the names of the modules.
LAKE_PACKAGES = (
    "duckdb_extension_avro",
    "duckdb_extension_httpfs",
    "duckdb_extension_iceberg",
    "py4j",
    "pyiceberg",
    "pyroaring",
    "pyspark",
    "sqlalchemy",
)


class ConfigError(Exception):
    """A configuration that cannot be served; the message is one sentence with the remedy."""

    def __init__(self, source: str, key: str, problem: str) -> None:
        super().__init__(f"{source}: {key and key + ' '}{problem}")
        self.source, self.key, self.problem = source, key, problem


@dataclass(frozen=True)
class ServerConfig:
    host: str = "127.0.0.1"
    port: int = 8815
    tokens_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    drain_seconds: float = 30.0
    transaction_seconds: float = 3600.0
    seal_key_file: Path | None = None
    open_handshake: bool | None = None
    open_health: bool | None = None
    open_reflection: bool | None = None


@dataclass(frozen=True)
class CatalogConfig:
    type: Literal["memory", "lake", "mssql"]


@dataclass(frozen=True)
class LakeConfig(CatalogConfig):
    """`properties` go to Iceberg, in Spark and in PyIceberg; `repr` shows none of them."""

    type: Literal["lake"] = "lake"
    warehouse: str = DATA_FOLDER
    enforce_keys_rows: int = 10_000_000
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class MssqlConfig(CatalogConfig):
    """`spool` is "" for the temporary folder; `repr` does not show the password of the address."""

    type: Literal["mssql"] = "mssql"
    address: Address = Address("", "")
    spool: str = ""
    settings: MssqlSettings = MssqlSettings()


@dataclass(frozen=True)
class SqlConfig:
    """`files`: the local command may read any; callers of the server only those in `folders`.

    `clients`: callers of the server may run SQL.
    """

    clients: bool = True
    files: bool = True
    folders: tuple[Path, ...] = ()
    memory_limit: str = "2GB"
    engine: str = "auto"
    spark_from: str = "2GiB"


@dataclass(frozen=True)
class Credentials:
    """The contents of the secret files, read once; `repr` shows none of them."""

    tokens: tuple[Token, ...] = ()
    tls: tuple[bytes, bytes] | None = field(default=None, repr=False)


def missing_lake_packages() -> list[str]:
    """Return the packages of the extra `lake` that are not installed, as pip spells them."""
    return [name.replace("_", "-") for name in LAKE_PACKAGES if find_spec(name) is None]


def default_catalogs() -> Mapping[str, CatalogConfig]:
    """Return the catalogs of a configuration that names none: `lake` only if it can be opened."""
    memory = CatalogConfig("memory")
    if missing_lake_packages():
        return MappingProxyType({"memory": memory})
    return MappingProxyType({"lake": LakeConfig(), "memory": memory})


@dataclass(frozen=True)
class Config:
    server: ServerConfig = ServerConfig()
    limits: Limits = Limits()
    catalogs: Mapping[str, CatalogConfig] = field(default_factory=default_catalogs)
    sql: SqlConfig = SqlConfig()
    spark: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    credentials: Credentials = Credentials()
    # For what a server keeps where no lake is on this machine.
    data_folder: Path = Path(DATA_FOLDER)
