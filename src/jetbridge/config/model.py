"""Holds a checked configuration, with the limits and tokens of the server, as plain values."""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from jetbridge.catalog.settings import (
    BATCH_ROWS,
    MESSAGE_BYTES,
    REQUEST_BYTES,
    SPILL_BYTES,
    SQL_MEMORY,
    STAGED_BYTES,
)

HOUR = 3600

Amount = TypeVar("Amount", int, float)


@dataclass(frozen=True)
class Limits:
    """Set upper bounds for a server and its statements.

    Above them, a call ends with RESOURCE_EXHAUSTED. docs/reference/configuration.md explains each
    one. `exchanges` and `scans` are counted apart: an UPDATE holds its DoExchange while its scan
    runs, so scans must never wait for exchanges.
    """

    message_bytes: int = MESSAGE_BYTES
    request_bytes: int = REQUEST_BYTES
    batch_rows: int = BATCH_ROWS
    concurrent_calls: int = 512
    exchanges: int = 256
    scans: int = 256
    staged_bytes: int = STAGED_BYTES
    spill_bytes: int = SPILL_BYTES
    transactions: int = 100_000
    batch_rows_out: int = 65_536
    first_message_seconds: float = 30.0
    open_calls: int = 2
    statement_seconds: float = 21_600.0
    calls_per_token: int | None = None
    exchanges_per_token: int | None = None
    scans_per_token: int | None = None
    staged_bytes_per_token: int | None = None
    statement_seconds_per_token: float | None = None
    history_bytes: int = 2**30


@dataclass(frozen=True)
class Shares:
    """Hold what one token may use of what all tokens share; None: all of it."""

    calls: int | None
    exchanges: int | None
    scans: int | None
    staged_bytes: int | None
    hourly_seconds: float | None

    @classmethod
    def of(cls, limits: Limits, tokens: int) -> "Shares":
        """Return the configured shares; without one, half if there are several tokens."""

        def share(value: Amount | None, all_of_it: int) -> Amount | int | None:
            return max(1, all_of_it // 2) if value is None and tokens > 1 else value

        return cls(
            share(limits.calls_per_token, limits.concurrent_calls),
            share(limits.exchanges_per_token, limits.exchanges),
            share(limits.scans_per_token, limits.scans),
            share(limits.staged_bytes_per_token, 4 * limits.staged_bytes),
            share(limits.statement_seconds_per_token, HOUR * limits.concurrent_calls),
        )


@dataclass(frozen=True)
class Token:
    """Allow one caller: `secret` is what it sends.

    `catalogs` are the catalogs that it may use; None: all of them.
    """

    name: str
    secret: str = field(repr=False)
    catalogs: frozenset[str] | None = None


@dataclass(frozen=True)
class Openness:
    """Say what callers without a token may do; None: they may if the host is loopback."""

    handshake: bool | None = None
    health: bool | None = None
    reflection: bool | None = None

    def on(self, host: str) -> "Openness":
        """Return the decision for a host."""
        default = is_loopback(host)
        choices = (self.handshake, self.health, self.reflection)
        return Openness(*(default if choice is None else choice for choice in choices))


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host. Names but `localhost` may resolve to any."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def catalog_name_error(name: str, others: Iterable[str] = ()) -> str:
    """Return why a name cannot be that of a catalog, or "".

    The client sends it as a gRPC header, and other characters abort the client's process. `/` and
    `?` end the name in the path of an ATTACH, and `,` in an allow-list.
    """
    if not name or not name.isascii() or not name.isprintable() or name != name.strip():
        return "is not a catalog name: it must be printable ASCII, without blanks at its ends"
    if set(name) & set("/?,"):
        return "is not a catalog name: it must not contain '/', '?' or ','"
    if name.lower() in {other.lower() for other in others}:
        return "is not unique: names match without regard to case"
    return ""


COMMAND_LINE = "command line"
# Defaults of the server, with a configuration and without one.
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8815
TRANSACTION_SECONDS = 3600.0
DATA_FOLDER = "./jetbridge-data"


class ConfigError(Exception):
    """Refuse a configuration: the message names the file, the key, and what is allowed."""

    def __init__(self, source: str, key: str, problem: str) -> None:
        super().__init__(f"{source}: {key and key + ' '}{problem}")
        self.source, self.key, self.problem = source, key, problem


@dataclass(frozen=True)
class ServerConfig:
    """Hold the table `[server]`: address, credentials, and how the server stops."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    tokens_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    drain_seconds: float = 30.0
    transaction_seconds: float = TRANSACTION_SECONDS
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
    memory_limit: str = SQL_MEMORY
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
