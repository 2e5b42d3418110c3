"""What ATTACH and CREATE SECRET ask for; no message shows an address: it may hold a password."""

import difflib
import os
import re
from collections.abc import Callable, Mapping

from jetbridge.backends.mssql.connection.address import (
    DEFAULT_PORT,
    address_of,
    changes_nothing,
    is_url,
    parts,
)
from jetbridge.backends.mssql.settings import ALIASES, SETTINGS, MssqlSettings
from jetbridge.config.model import CatalogConfig, LakeConfig, MssqlConfig
from jetbridge.config.rules import MAX_PORT
from jetbridge.errors import BadRequest
from jetbridge.pipeline.parsing.statements import Attach
from jetbridge.pipeline.secrets import FindSecret

Secret = Mapping[str, str] | None
PASSWORD_VARIABLE = "MSSQL_PASSWORD"  # noqa: S105 - the name of a variable
_CONNECTION = re.compile(
    r"(?:^|;)\s*(?:server|data source|addr|address|network address|password|pwd)\s*=",
    re.IGNORECASE,
)
_OPTIONS = ("type", "secret", "read_only", "read_write", "application_name")
_PREFIX = "mssql_"
# What a secret says, and what that is called in an address; HOST and PORT are one thing there.
_PARTS: Mapping[str, str] = {
    "database": "database",
    "user": "user",
    "password": "password",
    "encrypt": "encrypt",
    "use_encrypt": "encrypt",
    "trust_server_certificate": "trust",
}
_SECRET = ("type", "host", "port", "password_env", *_PARTS)
_SECRET += ("provider", "scope", "application_name")


def catalog_config_for_attach(statement: Attach, find_secret: FindSecret) -> CatalogConfig:
    """The catalog of an ATTACH; where TYPE is left out, the address says which it is."""
    kind = statement.options.get("type", "mssql" if is_url(statement.location) else "lake").lower()
    if kind not in _KINDS:
        raise BadRequest(f"TYPE {kind} is not one of {', '.join(_KINDS)}")
    return _KINDS[kind](statement, find_secret(statement.options.get("secret"), kind))


def _lake(statement: Attach, _: Secret) -> LakeConfig:
    if _CONNECTION.search(statement.location) or is_url(statement.location):
        raise BadRequest("that looks like the address of a SQL Server: write (TYPE mssql)")
    return LakeConfig(warehouse=statement.location)


def _memory(_: Attach, __: Secret) -> CatalogConfig:
    return CatalogConfig("memory")


def _mssql(statement: Attach, secret: Secret) -> MssqlConfig:
    settings = _settings(statement.options)
    given = parts(statement.location) if statement.location.strip() else {}
    found = {name: value for name, value in given.items() if value}
    found = {**_fitting(statement, secret or {}, found), **found}
    found.setdefault("password", os.environ.get(PASSWORD_VARIABLE, ""))
    return MssqlConfig(address=address_of(found), settings=settings)


_KINDS: Mapping[str, Callable[[Attach, Secret], CatalogConfig]] = {
    "lake": _lake,
    "memory": _memory,
    "mssql": _mssql,
}


def _fitting(
    statement: Attach, secret: Mapping[str, str], found: Mapping[str, str]
) -> Mapping[str, str]:
    """What the secret says. One that was not asked for is not shown to another server."""
    if "secret" in statement.options or "server" not in found or "server" not in secret:
        return secret
    return secret if secret["server"].lower() == _with_port(found["server"]).lower() else {}


def _with_port(server: str) -> str:
    return server if "," in server else _server(server, None)


def _settings(options: Mapping[str, str]) -> MssqlSettings:
    given = {}
    for name, value in options.items():
        full = name if name.startswith(_PREFIX) else _PREFIX + name
        if full in SETTINGS or full in ALIASES:
            given[full] = value
        elif name not in _OPTIONS and not changes_nothing(name.upper(), value):
            raise _unknown("ATTACH", name, [*_OPTIONS, *SETTINGS])
    return MssqlSettings().changed(given)


def parse_secret(options: Mapping[str, str]) -> dict[str, str]:
    """What a secret says, by the names of an address; raises BadRequest that tells no value."""
    _check_secret(options)
    found = {_PARTS[name]: value for name, value in options.items() if name in _PARTS}
    if "host" in options:
        found["server"] = _server(options["host"], options.get("port"))
    if "password_env" in options:
        if "password" in options:
            raise BadRequest("PASSWORD and PASSWORD_ENV say the same thing: keep one of them")
        found["password"] = _variable(options["password_env"])
    address_of({"server": "any", "database": "any", **found})
    return found


def _check_secret(options: Mapping[str, str]) -> None:
    """SCOPE says less than HOST, which says what a secret without a name is used for."""
    if options.get("type", "").lower() != "mssql":
        raise BadRequest("a secret needs TYPE mssql; there are no others")
    if options.get("provider", "config").lower() != "config":
        raise BadRequest("PROVIDER must be config; there are no others")
    for name, value in options.items():
        if name in ("port", "scope") and "host" not in options:
            raise BadRequest(f"{name.upper()} needs HOST beside it")
        if name not in _SECRET and not changes_nothing(name.upper(), value):
            raise _unknown("CREATE SECRET", name, list(_SECRET))


def _server(host: str, port: str | None) -> str:
    """The port of a named instance is told by another service of its host."""
    if port is None and "\\" in host:
        return host
    return f"{host},{_port(port or str(DEFAULT_PORT))}"


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PORT:
        raise BadRequest(f"PORT must be a whole number from 1 to {MAX_PORT}")
    return int(text)


def _variable(name: str) -> str:
    if name not in os.environ:
        raise BadRequest(f"PASSWORD_ENV {name!r}: the environment has no such variable; set it")
    return os.environ[name]


def _unknown(statement: str, name: str, known: list[str]) -> BadRequest:
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0].upper()}? " if near else ""
    listed = ", ".join(each.upper() if each in (*_OPTIONS, *_SECRET) else each for each in known)
    return BadRequest(f"{statement} has no option {name.upper()}; {meant}Known are {listed}")
