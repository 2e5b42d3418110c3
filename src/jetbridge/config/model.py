"""Holds a checked configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from jetbridge.config.limits import Limits, Token

COMMAND_LINE = "command line"
DATA_FOLDER = "./jetbridge-data"


class ConfigError(Exception):
    """Refuse a configuration: the message names the file, the key, and what is allowed."""

    def __init__(self, source: str, key: str, problem: str) -> None:
        super().__init__(f"{source}: {key and key + ' '}{problem}")
        self.source, self.key, self.problem = source, key, problem


@dataclass(frozen=True)
class ServerConfig:
    """Hold the table `[server]`: address, credentials, and how the server stops."""

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
    """Configure one catalog. Each type of catalog has a subclass with its keys."""

    type: str

    def local_folder(self) -> Path | None:
        """Return the folder on this machine that holds the tables, or None if there is none."""
        return None

    def iceberg_properties(self) -> Mapping[str, str] | None:
        """Return the properties by which Spark reads the tables with Iceberg, or None."""
        return None


@dataclass(frozen=True)
class SqlConfig:
    """Hold the table `[sql]`: what statements may do.

    `clients`: callers of the server may run SQL. `files`: the local command may read all files;
    callers of the server may read those in `folders` only. `engine` and `spark_from` are settings
    of sessions; None leaves their default.
    """

    clients: bool = True
    files: bool = True
    folders: tuple[Path, ...] = ()
    memory_limit: str = "2GB"
    engine: str | None = None
    spark_from: str | None = None


@dataclass(frozen=True)
class Credentials:
    """Hold what the secret files contain; `repr` leaves it out."""

    tokens: tuple[Token, ...] = ()
    tls: tuple[bytes, bytes] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Config:
    """Hold a whole configuration.

    Without `catalogs`, the default ones are opened. `data_folder` is for what a server keeps if no
    catalog has a folder on this machine.
    """

    server: ServerConfig = ServerConfig()
    limits: Limits = Limits()
    catalogs: Mapping[str, CatalogConfig] = field(default_factory=lambda: MappingProxyType({}))
    sql: SqlConfig = SqlConfig()
    spark: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    credentials: Credentials = Credentials()
    data_folder: Path = Path(DATA_FOLDER)
