"""Reads the configuration of a SQL Server catalog, and CREATE SECRET: address, login, settings.

The password comes from the environment or a secret, never from the file. No error shows a
connection string, a location or an option of a secret, which may hold it.
"""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jetbridge.backends.mssql.connection.address import (
    DEFAULT_PORT,
    ENCRYPT,
    Address,
    address_of,
    changes_nothing,
    is_url,
    parts,
)
from jetbridge.backends.mssql.settings import ALIASES, PREFIX, SETTINGS, MssqlSettings
from jetbridge.catalog.backend import AttachRequest, CatalogTable, Recognition
from jetbridge.config.model import CatalogConfig, ConfigError
from jetbridge.config.rules import (
    FROM_ENVIRONMENT,
    InvalidValue,
    Rule,
    boolean,
    check_setting,
    check_values,
    environment_variable,
    existing_folder,
    one_of,
    refuse_unknown,
)
from jetbridge.errors import BadRequest

MAX_PORT = 65_535
# Options of a secret, and the fields of an address that they set. HOST and PORT are one field.
_FIELDS: Mapping[str, str] = {
    "database": "database",
    "user": "user",
    "password": "password",
    "encrypt": "encrypt",
    "use_encrypt": "encrypt",
    "trust_server_certificate": "trust",
}
_OPTIONS = ("type", "host", "port", "password_env", *_FIELDS)
_OPTIONS += ("provider", "scope", "application_name")


def parse_secret(options: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of an address that a secret sets; raises BadRequest."""
    _check_options(options)
    fields = {_FIELDS[name]: value for name, value in options.items() if name in _FIELDS}
    if "host" in options:
        fields["server"] = server_with_port(options["host"], options.get("port"))
    if "password_env" in options:
        if "password" in options:
            raise BadRequest("PASSWORD and PASSWORD_ENV both set the password: remove one of them")
        fields["password"] = _environment_variable(options["password_env"])
    address_of({"server": "any", "database": "any", **fields})
    return fields


def _check_options(options: Mapping[str, str]) -> None:
    """Raise BadRequest for unknown options. SCOPE must not widen what HOST allows."""
    if options.get("type", "").lower() != "mssql":
        raise BadRequest("a secret needs TYPE mssql; no other type is supported")
    if options.get("provider", "config").lower() != "config":
        raise BadRequest("PROVIDER must be config; no other provider is supported")
    for name, value in options.items():
        if name in ("port", "scope") and "host" not in options:
            raise BadRequest(f"{name.upper()} requires HOST")
        if name not in _OPTIONS and not changes_nothing(name.upper(), value):
            raise unknown_option("CREATE SECRET", name, [known.upper() for known in _OPTIONS])


def secret_for_server(secret: Mapping[str, str], server: str) -> Mapping[str, str]:
    """Return an unnamed secret for an ATTACH, or nothing if it is for another server.

    A server must not see the password of another one.
    """
    if "server" not in secret or secret["server"].lower() == _with_port(server).lower():
        return secret
    return {}


def _with_port(server: str) -> str:
    return server if "," in server else server_with_port(server, None)


def server_with_port(host: str, port: str | None) -> str:
    """Return a server as in a connection string; raises BadRequest for a wrong port.

    A named instance has no port here: another service of its host tells the port.
    """
    if port is None and "\\" in host:
        return host
    return f"{host},{_parse_port(port or str(DEFAULT_PORT))}"


def _parse_port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PORT:
        raise BadRequest(f"PORT must be a whole number from 1 to {MAX_PORT}")
    return int(text)


def _environment_variable(name: str) -> str:
    if name not in os.environ:
        raise BadRequest(f"PASSWORD_ENV {name!r}: the environment has no such variable; set it")
    return os.environ[name]


def unknown_option(statement: str, name: str, known: Sequence[str]) -> BadRequest:
    """Return the error for an option that a statement does not have."""
    lower = {option.lower(): option for option in known}
    similar = difflib.get_close_matches(name, lower, n=1)
    hint = f"did you mean {lower[similar[0]].upper()}? " if similar else ""
    return BadRequest(
        f"{statement} has no option {name.upper()}; {hint}Known options: {', '.join(known)}"
    )


PASSWORD = "password"  # noqa: S105 - the name of a key
CONNECTION = "connection"
PASSWORD_VARIABLE = "MSSQL_PASSWORD"  # noqa: S105 - the name of a variable
_CONNECTION_STRING = re.compile(
    r"(?:^|;)\s*(?:server|data source|addr|address|network address|password|pwd)\s*=",
    re.IGNORECASE,
)
_ATTACH_OPTIONS = ("type", "secret", "read_only", "read_write", "application_name")
_TEXTS = {True: "true", False: "false"}


@dataclass(frozen=True)
class MssqlConfig(CatalogConfig):
    """Configure one catalog of SQL Server.

    `spool` is the folder for the rows of large loads, or "" for the temporary directory. `repr`
    leaves out the password of the address.
    """

    type: str = "mssql"
    address: Address = Address("", "")
    spool: str = ""
    settings: MssqlSettings = MssqlSettings()


def _text(value: object, _: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue("must be a string")
    return value.strip()


def _spool(value: object, base: Path) -> str:
    return str(existing_folder(value, base))


_RULES: Mapping[str, Rule] = {
    "server": _text,
    "database": _text,
    "user": _text,
    "encrypt": one_of(*ENCRYPT),
    "trust_server_certificate": boolean,
    "spool": _spool,
}
# Every key and its default, None for a key without one.
MSSQL_KEYS: Mapping[str, object] = {
    "server": None,
    "database": None,
    "user": None,
    PASSWORD + FROM_ENVIRONMENT: None,
    "encrypt": Address.encrypt,
    "trust_server_certificate": Address.trust,
    CONNECTION: None,
    CONNECTION + FROM_ENVIRONMENT: None,
    "spool": None,
    **{name: setting.default for name, setting in SETTINGS.items()},
}
# Keys that a connection string replaces.
_IN_CONNECTION = ("server", "database", "user", "encrypt", "trust_server_certificate")


def load_config(table: CatalogTable[MssqlConfig]) -> MssqlConfig:
    """Check a table `[catalogs.NAME]`; raises ConfigError."""
    source, key, keys = table.source, table.key, table.values
    if PASSWORD in keys:
        problem = "must not be in the file: put it into an environment variable, and set "
        remedy = 'password_env to its name: password_env = "NAME"'
        raise ConfigError(source, f"{key}.{PASSWORD}", f"{problem}{remedy}")
    refuse_unknown(source, f"{key}.", keys, ["type", *MSSQL_KEYS])
    own = {name: value for name, value in keys.items() if name in _RULES}
    values = check_values(source, f"{key}.", own, _RULES, table.base)
    spool = values.pop("spool", "")
    address = _address(source, key, keys, values)
    return MssqlConfig(address=address, spool=spool, settings=_settings(source, key, keys))


def _address(
    source: str, key: str, keys: Mapping[str, object], values: Mapping[str, Any]
) -> Address:
    fields = _connection(source, key, keys)
    if fields is None:
        for name, example in (("server", '"HOST" or "HOST,PORT"'), ("database", '"NAME"')):
            if name not in values:
                problem = f"is missing: {name} = {example}, or connection = "
                raise ConfigError(source, f"{key}.{name}", f'{problem}"Server=...;Database=..."')
        fields = {name: values[name] for name in ("server", "database", "user") if name in values}
        fields["encrypt"] = values.get("encrypt", Address.encrypt)
        fields["trust"] = _TEXTS[values.get("trust_server_certificate", Address.trust)]
    name = PASSWORD + FROM_ENVIRONMENT
    if name in keys:
        if fields.get(PASSWORD):
            raise ConfigError(
                source, f"{key}.{name}", "sets the password a second time: the connection has one"
            )
        fields[PASSWORD] = environment_variable(source, f"{key}.{name}", keys[name])
    return address_of(fields)


def _connection(source: str, key: str, keys: Mapping[str, object]) -> dict[str, str] | None:
    """Return the fields of the connection string, or None if the table has none."""
    names = [name for name in (CONNECTION, CONNECTION + FROM_ENVIRONMENT) if name in keys]
    if not names:
        return None
    full_key = f"{key}.{names[0]}"
    others = [name for name in (*names[1:], *_IN_CONNECTION) if name in keys]
    if others:
        problem = f"and {others[0]} set the same option: keep one of them"
        raise ConfigError(source, full_key, problem)
    value = keys[names[0]]
    text = value if names[0] == CONNECTION else environment_variable(source, full_key, value)
    if not isinstance(text, str):
        raise ConfigError(source, full_key, "must be a string")
    try:
        fields = parts(text)
        address_of(fields)
    except BadRequest as error:
        raise ConfigError(source, full_key, f"cannot be read: {error}") from None
    if fields.get(PASSWORD) and names[0] == CONNECTION:
        problem = "holds a password, which must not be in the file: name an environment "
        remedy = 'variable that has it, password_env = "NAME", or one that has all, connection_env'
        raise ConfigError(source, full_key, problem + remedy)
    return fields


def _settings(source: str, key: str, keys: Mapping[str, object]) -> MssqlSettings:
    texts = {
        name: check_setting(source, f"{key}.{name}", setting, keys[name])
        for name, setting in SETTINGS.items()
        if name in keys
    }
    return MssqlSettings().with_changes(texts)


def recognizes(location: str) -> Recognition:
    """Recognize mssql:// URLs; a connection string may also be the name of a folder."""
    if is_url(location):
        return "yes"
    return "maybe" if _CONNECTION_STRING.search(location) else "no"


def config_for_attach(request: AttachRequest) -> MssqlConfig:
    """Return the catalog of an ATTACH; raises BadRequest.

    The location wins over the secret, and the secret over the variable `MSSQL_PASSWORD`.
    """
    settings = _attach_settings(request.options)
    fields = parts(request.location) if request.location.strip() else {}
    fields = {name: value for name, value in fields.items() if value}
    secret = request.secret or {}
    if "secret" not in request.options and "server" in fields:
        secret = secret_for_server(secret, fields["server"])
    fields = {**secret, **fields}
    fields.setdefault(PASSWORD, os.environ.get(PASSWORD_VARIABLE, ""))
    return MssqlConfig(address=address_of(fields), settings=settings)


def _attach_settings(options: Mapping[str, str]) -> MssqlSettings:
    """Return the settings among the options of ATTACH; their prefix may be left out."""
    values = {}
    for name, value in options.items():
        full_name = name if name.startswith(PREFIX) else PREFIX + name
        if full_name in SETTINGS or full_name in ALIASES:
            values[full_name] = value
        elif name not in _ATTACH_OPTIONS and not changes_nothing(name.upper(), value):
            known = [*(option.upper() for option in _ATTACH_OPTIONS), *SETTINGS]
            raise unknown_option("ATTACH", name, known)
    return MssqlSettings().with_changes(values)
