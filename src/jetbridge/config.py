"""The TOML file and the flags that override it, as frozen values.

Whatever is wrong is said here, before anything starts: `ConfigError` names the file, the key, the
value and what is allowed. Every key is a field of a struct below and a row of its rule table;
docs/reference/configuration.md lists them, and a test compares the two.
"""

import difflib
import logging
import math
import ssl
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from jetbridge.service.settings import Limits, Token, catalog_name_problem, is_loopback

log = logging.getLogger(__name__)

MAX_PORT = 65_535
SEAL_KEY_BYTES = 32
# The client cannot put more into one gRPC message (its length is a signed 32-bit number).
MAX_MESSAGE_BYTES = 2**31 - 1
MAX_COUNT = 2**63 - 1
DEFAULT_CATALOG = "memory"
COMMAND_LINE = "command line"


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


@dataclass(frozen=True)
class CatalogConfig:
    type: Literal["memory"]


@dataclass(frozen=True)
class Credentials:
    """The contents of the secret files, read once; `repr` shows none of them."""

    tokens: tuple[Token, ...] = ()
    tls: tuple[bytes, bytes] | None = field(default=None, repr=False)
    seal_key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Config:
    server: ServerConfig = ServerConfig()
    limits: Limits = Limits()
    catalogs: Mapping[str, CatalogConfig] = field(
        default_factory=lambda: MappingProxyType({DEFAULT_CATALOG: CatalogConfig("memory")})
    )
    spark: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    credentials: Credentials = Credentials()


class _Refused(Exception):
    """What the value must be; `_checked` adds where it stands and what it is."""


Rule = Callable[[object, Path], Any]


def _whole(low: int, high: int = MAX_COUNT) -> Rule:
    allowed = f"must be a whole number from {low} to {high}"
    if high == MAX_COUNT:
        allowed = f"must be a whole number, {low} or more"

    def rule(value: object, _: Path) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _Refused(allowed)
        return value

    return rule


def _seconds(value: object, _: Path) -> float:
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not (number and math.isfinite(value) and value >= 0):  # type: ignore[arg-type,operator]
        raise _Refused("must be a number of seconds, 0 or more")
    return float(value)  # type: ignore[arg-type]


def _host(value: object, _: Path) -> str:
    if not isinstance(value, str) or not value or not value.isascii() or set(value) & set(" /[]"):
        raise _Refused("must be a host name or an IP address")
    return value


def _file(value: object, base: Path) -> Path:
    """Relative paths start at the directory of the configuration file."""
    if not isinstance(value, str) or not value:
        raise _Refused("must be the path of a file, in quotes")
    path = base / Path(value).expanduser()
    if not path.is_file():
        raise _Refused(f"must be a file that exists; there is none at {path}")
    return path


RULES: Mapping[str, Mapping[str, Rule]] = {
    "server": {
        "host": _host,
        "port": _whole(0, MAX_PORT),
        "tokens_file": _file,
        "tls_cert": _file,
        "tls_key": _file,
        "drain_seconds": _seconds,
        "transaction_seconds": _seconds,
        "seal_key_file": _file,
    },
    "limits": {
        "message_bytes": _whole(1024, MAX_MESSAGE_BYTES),
        "batch_rows": _whole(1),
        "concurrent_calls": _whole(2),
        "exchanges": _whole(1),
        "scans": _whole(1),
        "staged_bytes": _whole(1),
        "spill_bytes": _whole(0),
        "transactions": _whole(1),
        "batch_rows_out": _whole(1),
    },
}
TABLES = (*RULES, "spark", "catalogs")
# Catalog types that are not here yet, and the extra each one comes with.
COMING = {"lake": "jetbridge[lake]", "mssql": "jetbridge[mssql]"}


def load_config(path: Path | None = None, flags: Mapping[str, object] | None = None) -> Config:
    """The configuration of the file, or the default one; `flags` override keys of [server]."""
    source, base = (str(path), path.parent) if path else ("default configuration", Path())
    tables = _read_toml(path) if path else {}
    _refuse_unknown(source, "", tables, TABLES)
    given = {name: _table(source, name, tables.get(name, {})) for name in TABLES}
    server = ServerConfig(**_checked(source, "server.", given["server"], RULES["server"], base))
    overrides = _checked(COMMAND_LINE, "--", flags or {}, RULES["server"], Path())
    limits = Limits(**_checked(source, "limits.", given["limits"], RULES["limits"], base))
    config = Config(server=replace(server, **overrides), limits=limits)
    config = replace(config, spark=MappingProxyType(_spark(source, given["spark"])))
    if given["catalogs"]:
        config = replace(config, catalogs=MappingProxyType(_catalogs(source, given["catalogs"])))
    _check_limits(source, config.limits)
    config = replace(config, credentials=_load_credentials(source, config))
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


def _table(source: str, key: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(source, key, f"= {value!r}: must be a table, [{key}]")
    return value


def _refuse_unknown(source: str, prefix: str, given: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            listed = ", ".join(known) or "none"
            raise ConfigError(source, prefix + name, f"is not a known key; {hint}Known: {listed}")


def _checked(
    source: str, prefix: str, given: Mapping[str, object], rules: Mapping[str, Rule], base: Path
) -> dict[str, Any]:
    _refuse_unknown(source, prefix, given, rules)
    checked = {}
    for name, value in given.items():
        try:
            checked[name] = rules[name](value, base)
        except _Refused as refused:
            raise ConfigError(source, prefix + name, f"= {value!r}: {refused}") from None
    return checked


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
    settings = {}
    for name, value in given.items():
        if isinstance(value, dict | list):
            problem = f'= {value!r}: must be one value; put dotted names in quotes: "spark.master"'
            raise ConfigError(source, f"spark.{name}", problem)
        settings[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings


def _catalogs(source: str, given: Mapping[str, object]) -> dict[str, CatalogConfig]:
    catalogs: dict[str, CatalogConfig] = {}
    for name, value in given.items():
        key = f"catalogs.{name}"
        problem = catalog_name_problem(name, catalogs)
        if problem:
            raise ConfigError(source, key, problem)
        catalogs[name] = _catalog(source, key, _table(source, key, value))
    return catalogs


def _catalog(source: str, key: str, given: Mapping[str, object]) -> CatalogConfig:
    kind = given.get("type")
    if isinstance(kind, str) and kind in COMING:
        problem = f"= {kind!r}: this version does not have it yet; it comes with the extra "
        raise ConfigError(source, f"{key}.type", f"{problem}{COMING[kind]!r}; allowed: 'memory'")
    if kind != "memory":
        problem = f"= {kind!r}" if "type" in given else "is missing"
        raise ConfigError(source, f"{key}.type", f"{problem}: must be 'memory'")
    _refuse_unknown(source, f"{key}.", given, ["type"])
    return CatalogConfig("memory")


def _load_credentials(source: str, config: Config) -> Credentials:
    server = config.server
    tokens = load_tokens(server.tokens_file, config.catalogs) if server.tokens_file else ()
    return Credentials(tokens, _load_tls(source, server), _load_seal_key(server))


def _load_tls(source: str, server: ServerConfig) -> tuple[bytes, bytes] | None:
    if server.tls_cert is None and server.tls_key is None:
        return None
    if server.tls_cert is None or server.tls_key is None:
        lone, other = ("tls_key", "tls_cert") if server.tls_key else ("tls_cert", "tls_key")
        raise ConfigError(source, f"server.{lone}", f"needs server.{other} beside it")
    try:
        # grpc says nothing useful about a bad pair; ssl does. No password: never ask the terminal.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server.tls_cert, server.tls_key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        problem = f"= {str(server.tls_cert)!r}: must be a PEM certificate that fits tls_key: "
        raise ConfigError(source, "server.tls_cert", f"{problem}{error}") from None
    return _read_bytes(server.tls_cert), _read_bytes(server.tls_key)


def _load_seal_key(server: ServerConfig) -> bytes | None:
    if server.seal_key_file is None:
        return None
    _warn_if_readable_by_all(server.seal_key_file)
    key = _read_bytes(server.seal_key_file)
    if len(key) < SEAL_KEY_BYTES:
        problem = f"holds {len(key)} bytes; it must hold at least {SEAL_KEY_BYTES} random ones"
        raise ConfigError(str(server.seal_key_file), "", problem)
    return key


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be read: {error.strerror or error}") from None


def _warn_if_readable_by_all(path: Path) -> None:
    if path.stat().st_mode & stat.S_IROTH:
        log.warning("%s holds secrets and every user can read it: chmod 600 %s", path, path)


def load_tokens(path: Path, catalogs: Iterable[str]) -> tuple[Token, ...]:
    """One `name: token` a line, or `name: token: catalog1,catalog2`; `#` starts a comment line.

    No message quotes more of a line than the name: the rest may be a secret.
    """
    _warn_if_readable_by_all(path)
    try:
        lines = _read_bytes(path).decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(str(path), "", "must be ASCII: the client dies of other tokens") from None
    known = {name.lower(): name for name in catalogs}
    tokens: list[Token] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            tokens.append(_token(line, known, tokens))
        except _Refused as refused:
            raise ConfigError(str(path), f"line {number}", str(refused)) from None
    if not tokens:
        raise ConfigError(str(path), "", 'holds no token; write one "name: token" a line')
    return tuple(tokens)


def _token(line: str, known: Mapping[str, str], others: Iterable[Token]) -> Token:
    name, *rest = (part.strip() for part in line.split(":"))
    if not name or len(rest) not in (1, 2) or not rest[0]:
        raise _Refused('must be "name: token" or "name: token: catalog1,catalog2"')
    secret = rest[0]
    if not secret.isprintable() or " " in secret:
        raise _Refused(f"(token {name!r}): a token is printable ASCII without blanks")
    if any(name == other.name for other in others):
        raise _Refused(f"names token {name!r} a second time")
    if any(secret == other.secret for other in others):
        raise _Refused(f"(token {name!r}) repeats the token of another name")
    if len(rest) == 1:
        return Token(name, secret)
    allowed = [known.get(part.strip().lower()) for part in rest[1].split(",")]
    if None in allowed:
        raise _Refused(
            f"(token {name!r}): the third part must list catalogs of this server "
            f"({', '.join(known.values())}); a token itself must not contain ':'"
        )
    return Token(name, secret, frozenset(part for part in allowed if part))
