"""Parses the address and login of a SQL Server: connection strings, and URLs with mssql://."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from jetbridge.errors import BadRequest

DEFAULT_PORT = 1433
# When the driver should abandon a server that does not answer, and when we do if it does not.
CONNECT_SECONDS = 15
MAX_CONNECT_SECONDS = 30
# Encrypted connections take 16,383 at most. The core must not request the server's own size, often
# 4096 or 8192: some servers then confirm nothing, and the core crashes.
PACKET_BYTES = 16_000
ENCRYPT = ("yes", "no", "strict")
_ENCRYPT_ALIASES = {"true": "yes", "mandatory": "yes", "1": "yes"}
_ENCRYPT_ALIASES |= {"false": "no", "optional": "no", "0": "no"}
_MAX_PORT = 65_535
# Only at the beginning: a password may contain `://`.
_URL = re.compile(r"\s*([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SCHEMES = ("mssql", "sqlserver")
_TRUE = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
# A value in braces or quotes may contain anything, with the closing mark doubled.
_CLOSING = {"{": "}", '"': '"', "'": "'"}
_QUOTED = re.compile(r"""\{(?:[^}]|}})*}|"(?:[^"]|"")*"|'(?:[^']|'')*'""")
# In lower case and without blanks, _ and -, which each tool writes differently.
_KEYWORDS = {
    "server": "server",
    "datasource": "server",
    "address": "server",
    "addr": "server",
    "networkaddress": "server",
    "port": "port",
    "database": "database",
    "initialcatalog": "database",
    "userid": "user",
    "uid": "user",
    "user": "user",
    "username": "user",
    "password": "password",
    "pwd": "password",
    "encrypt": "encrypt",
    "useencryptionfordata": "encrypt",
    "ssl": "encrypt",
    "usessl": "encrypt",
    "trustservercertificate": "trust",
}
# Names of ADO.NET, ODBC and DuckDB's extension that have no effect here.
_IGNORED = frozenset(
    ["app", "appname", "applicationname", "applicationintent", "workstationid", "wsid", "driver"]
    + ["commandtimeout", "connecttimeout", "connectiontimeout", "logintimeout", "timeout"]
    + ["connectretrycount", "connectretryinterval", "connectionlifetime", "loadbalancetimeout"]
    + ["pooling", "maxpoolsize", "minpoolsize", "enlist", "packetsize", "persistsecurityinfo"]
    + ["multipleactiveresultsets", "marsconnection", "multisubnetfailover"]
    + ["language", "currentlanguage"]
)
_OFF, _ON = ("no", "false", "0"), ("yes", "true", "1")
_LOGIN = "jetbridge logs in with a user name and a password"
_FILTER = "is not supported: the catalog has all schemas and tables that the login may see"
# Names that could have an effect: the values that have none, and the error for all others.
_REFUSED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "trustedconnection": (_OFF, f"must be no: {_LOGIN}"),
    "integratedsecurity": (_OFF, f"must be no: {_LOGIN}"),
    "authentication": (("sqlpassword",), f"must be SqlPassword: {_LOGIN}"),
    **dict.fromkeys(
        ["authenticator", "serverspn", "serviceprincipalname", "accesstoken", "azuresecret"]
        + ["azuretenantid", "krb5configfile", "krb5keytabfile", "krb5credcachefile", "krb5realm"],
        ((), f"is not supported: {_LOGIN}"),
    ),
    "schemafilter": ((), _FILTER),
    "tablefilter": ((), _FILTER),
    "catalog": (_ON, "must be true: tables are read by name, and mssql_scan does not exist"),
    "orderpushdown": (_OFF, "must be false: jetbridge sorts rows itself"),
    "lazyvalidation": (_ON, "must be true: ATTACH does not connect; the first statement does"),
}


@dataclass(frozen=True)
class Address:
    """Hold a database and its login. `server` is HOST or HOST,PORT; `repr` hides the password."""

    server: str
    database: str
    user: str = ""
    password: str = field(default="", repr=False)
    encrypt: str = "yes"
    trust: bool = False

    def title(self) -> str:
        """Return server and database, for messages."""
        return f"{self.server}/{self.database}"

    def host_and_port(self) -> tuple[str, int] | None:
        """Return host and port; None if only the host's browser service knows the port."""
        host, _, port = self.server.removeprefix("tcp:").partition(",")
        if "\\" in host or ":" in host or (port and not port.strip().isdecimal()):
            return None
        return host.strip(), int(port or DEFAULT_PORT)

    def for_odbc(self) -> str:
        """Return the connection string for the driver's ODBC half."""
        parts = {
            "Server": self.server,
            "Database": self.database,
            "UID": self.user,
            "PWD": self.password,
            "Encrypt": self.encrypt,
            "TrustServerCertificate": "yes" if self.trust else "no",
        }
        return ";".join(f"{name}={_quote(value)}" for name, value in parts.items() if value)

    def for_core(self) -> dict[str, Any]:
        """Return the connection options for the driver's core, which loads rows."""
        return {
            "server": self.server,
            "database": self.database,
            "user_name": self.user,
            "password": self.password,
            "encryption": self.encrypt,
            "trust_server_certificate": "yes" if self.trust else "no",
            "connect_timeout": CONNECT_SECONDS,
            "packet_size": PACKET_BYTES,
        }


def _quote(value: str) -> str:
    return "{" + value.replace("}", "}}") + "}"


def parse(text: str) -> Address:
    """Parse `Server=...;Database=...;User Id=...;Password=...` or `mssql://user@host:port/db`."""
    return address_of(parts(text))


def is_url(text: str) -> bool:
    """Return whether the text can only be the address of a SQL Server."""
    url = _URL.match(text)
    return url is not None and url[1].lower() in _SCHEMES


def parts(text: str) -> dict[str, str]:
    """Split the text into fields of `Address`. No error message shows one of its values."""
    return _parse_url(text.strip()) if _URL.match(text) else _parse_pairs(text)


def address_of(parts: Mapping[str, str]) -> Address:
    """Return the address with these fields. Raises BadRequest."""
    fields = dict(parts)
    if not fields.get("server") or not fields.get("database"):
        raise BadRequest(
            "a connection to SQL Server needs at least Server and Database: "
            "'Server=host,1433;Database=db;User Id=user' or mssql://user@host:1433/db"
        )
    trust = _TRUE.get(fields.pop("trust", "no").lower())
    if trust is None:
        raise BadRequest("TrustServerCertificate must be yes or no")
    encrypt = fields.pop("encrypt", "yes").lower()
    encrypt = _ENCRYPT_ALIASES.get(encrypt, encrypt)
    if encrypt not in ENCRYPT:
        raise BadRequest(f"Encrypt must be one of {', '.join(ENCRYPT)}")
    return Address(**fields, encrypt=encrypt, trust=trust)


def changes_nothing(name: str, value: str) -> bool:
    """Return whether a name that other tools know has no effect here.

    Raises BadRequest, without the value, for a value that would have an effect.
    """
    keyword = _normalize(name)
    harmless, reason = _REFUSED.get(keyword, ((value.lower(),), ""))
    if value.lower() not in harmless:
        raise BadRequest(f"{name} {reason}")
    return keyword in _IGNORED or keyword in _REFUSED


def _normalize(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _parse_pairs(text: str) -> dict[str, str]:
    """Parse NAME=VALUE pairs. The last value of a name counts, as in ADO.NET."""
    fields: dict[str, str] = {}
    for number, (name, value) in enumerate(_split_pairs(text), 1):
        keyword = _KEYWORDS.get(_normalize(name))
        if keyword is not None:
            fields[keyword] = value
        elif not changes_nothing(name, value):
            raise _unknown_name(name, number, after_password="password" in fields)
    return _join_port(fields)


def _join_port(fields: dict[str, str]) -> dict[str, str]:
    """Move the port into `server`, as `Address` has it."""
    port = fields.pop("port", "")
    if not port:
        return fields
    if not port.isdecimal() or not 1 <= int(port) <= _MAX_PORT:
        raise BadRequest(f"Port must be a whole number from 1 to {_MAX_PORT}")
    host, comma, server_port = fields.get("server", "").partition(",")
    if not host:
        raise BadRequest("the connection string has Port without Server; add Server")
    if comma and server_port.strip() != port:
        raise BadRequest("Server and Port name different ports; keep one of them")
    return {**fields, "server": f"{host},{port}"}


def _unknown_name(name: str, number: int, *, after_password: bool) -> BadRequest:
    """Return the error for an unknown name; after a password, it may be a part of the password."""
    if after_password:
        return BadRequest(
            f"pair {number} of the connection string has an unknown name, which is not shown "
            "because it may be part of a password; write a password with ; as Password={...}"
        )
    return BadRequest(f"the connection string has the unknown name {name!r}; remove it")


def _split_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Split `a=b;c={d;e}}f}` into names and values."""
    position = 0
    while position < len(text):
        if text[position] in "; \t\r\n":
            position += 1
            continue
        name, equals, _ = text[position:].partition("=")
        if not equals or ";" in name:
            raise BadRequest(
                "the connection string must be NAME=VALUE pairs separated by ; "
                "- write a value that contains ; in braces: Password={...}"
            )
        value, position = _read_value(text, position + len(name) + 1)
        yield name.strip(), value


def _read_value(text: str, start: int) -> tuple[str, int]:
    """Return the value that begins at `start`, and the position of its end."""
    while text[start : start + 1].isspace():
        start += 1
    opening = text[start : start + 1]
    quoted = _QUOTED.match(text, start)
    end = text.find(";", quoted.end() if quoted else start)
    end = len(text) if end < 0 else end
    if opening not in _CLOSING:
        return text[start:end].strip(), end
    closing = _CLOSING[opening]
    if quoted is None or text[quoted.end() : end].strip():
        raise BadRequest(
            f"a value of the connection string begins with {opening} and does not end with "
            f"{closing}; close it, and double each {closing} inside"
        )
    return quoted[0][1:-1].replace(closing * 2, closing), end


def _parse_url(text: str) -> dict[str, str]:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise BadRequest(
            "the address is not a valid URL: the port must be a number, and / ? # @ : [ ] in names "
            "and passwords must be written as %2F %3F %23 %40 %3A %5B %5D"
        ) from None
    if url.scheme not in _SCHEMES:
        raise BadRequest(f"{url.scheme}:// is not an address of SQL Server; use mssql://")
    fields = {
        "server": unquote(url.hostname or ""),
        "port": str(port or ""),
        "database": unquote(url.path.strip("/")),
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
    }
    for name, value in parse_qsl(url.query):
        keyword = _KEYWORDS.get(_normalize(name))
        if keyword is not None:
            fields[keyword] = value
        elif not changes_nothing(name, value):
            raise BadRequest(
                "the address has an unknown option after ?; use encrypt or "
                "trustservercertificate, and write a ? in a password as %3F"
            )
    fields = _join_port(fields)
    # The host's browser service knows the port of a named instance.
    if fields["server"] and not set(fields["server"]) & {",", "\\"}:
        fields["server"] += f",{DEFAULT_PORT}"
    return fields
