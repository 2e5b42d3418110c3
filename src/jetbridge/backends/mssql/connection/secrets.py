"""Reads the options of CREATE SECRET; no error shows a value, which may be a password."""

import difflib
import os
from collections.abc import Mapping, Sequence

from jetbridge.backends.mssql.connection.address import DEFAULT_PORT, address_of, changes_nothing
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
