"""Where a SQL Server is and who logs in, from the configuration or the text of an ATTACH."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from jetbridge.errors import BadRequest

DEFAULT_PORT = 1433
# Until the driver gives up a server that does not answer; and until we do, where it waits on.
CONNECT_SECONDS = 15
MOST_CONNECT_SECONDS = 30
# Encrypted connections take 16,383 at most. The core must not ask for what the server has anyhow,
# often 4096 or 8192: some servers then confirm nothing, and the core does not survive that.
PACKET_BYTES = 16_000
ENCRYPT = ("yes", "no", "strict")
_ENCRYPT_TOO = {"true": "yes", "mandatory": "yes", "1": "yes"}
_ENCRYPT_TOO |= {"false": "no", "optional": "no", "0": "no"}
_MAX_PORT = 65_535
# A password may hold `://`, too, so this stands at the beginning.
_URL = re.compile(r"\s*([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SCHEMES = ("mssql", "sqlserver")
_TRUE = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
# A value in braces or quotes may hold anything, with the closing one doubled.
_CLOSING = {"{": "}", '"': '"', "'": "'"}
_QUOTED = re.compile(r"""\{(?:[^}]|}})*}|"(?:[^"]|"")*"|'(?:[^']|'')*'""")
# All names are here without case, blanks, _ and -, which every tool writes differently.
_CALLED = {
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
# What ADO.NET, ODBC and DuckDB's extension know, and what changes nothing here.
_IGNORED = frozenset(
    ["app", "appname", "applicationname", "applicationintent", "workstationid", "wsid", "driver"]
    + ["commandtimeout", "connecttimeout", "connectiontimeout", "logintimeout", "timeout"]
    + ["connectretrycount", "connectretryinterval", "connectionlifetime", "loadbalancetimeout"]
    + ["pooling", "maxpoolsize", "minpoolsize", "enlist", "packetsize", "persistsecurityinfo"]
    + ["multipleactiveresultsets", "marsconnection", "multisubnetfailover"]
    + ["language", "currentlanguage"]
)
_OFF, _ON = ("no", "false", "0"), ("yes", "true", "1")
_LOGIN = "a login here is a user and a password"
_FILTER = "is not supported: all schemas and tables are there that the login may see"
# What they know and what would change something: values that do not, and what is said of others.
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
    "catalog": (_ON, "must be true: tables are read by their names, and there is no mssql_scan"),
    "orderpushdown": (_OFF, "must be false: rows are put in order here, not by SQL Server"),
    "lazyvalidation": (_ON, "must be true: the first statement connects, and ATTACH never does"),
}


@dataclass(frozen=True)
class Address:
    """`server` is HOST or HOST,PORT. The password is in no text that is shown or logged."""

    server: str
    database: str
    user: str = ""
    password: str = field(default="", repr=False)
    encrypt: str = "yes"
    trust: bool = False

    def title(self) -> str:
        return f"{self.server}/{self.database}"

    def place(self) -> tuple[str, int] | None:
        """Host and port; None where another service of the host would tell the port."""
        host, _, port = self.server.removeprefix("tcp:").partition(",")
        if "\\" in host or ":" in host or (port and not port.strip().isdecimal()):
            return None
        return host.strip(), int(port or DEFAULT_PORT)

    def for_odbc(self) -> str:
        parts = {
            "Server": self.server,
            "Database": self.database,
            "UID": self.user,
            "PWD": self.password,
            "Encrypt": self.encrypt,
            "TrustServerCertificate": "yes" if self.trust else "no",
        }
        return ";".join(f"{name}={_braced(value)}" for name, value in parts.items() if value)

    def for_core(self) -> dict[str, Any]:
        """What the driver's other half, which loads rows, takes."""
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


def _braced(value: str) -> str:
    return "{" + value.replace("}", "}}") + "}"


def parse(text: str) -> Address:
    """`Server=...;Database=...;User Id=...;Password=...` or `mssql://user@host:port/database`."""
    return address_of(parts(text))


def is_url(text: str) -> bool:
    """Whether it can only mean a SQL Server."""
    url = _URL.match(text)
    return url is not None and url[1].lower() in _SCHEMES


def parts(text: str) -> dict[str, str]:
    """What the text says, by the names of `Address`; no message tells a value of it."""
    return _of_url(text.strip()) if _URL.match(text) else _of_pairs(text)


def address_of(given: Mapping[str, str]) -> Address:
    found = dict(given)
    if not found.get("server") or not found.get("database"):
        raise BadRequest(
            "a connection to SQL Server needs at least Server and Database: "
            "'Server=host,1433;Database=db;User Id=user' or mssql://user@host:1433/db"
        )
    trust = _TRUE.get(found.pop("trust", "no").lower())
    if trust is None:
        raise BadRequest("TrustServerCertificate must be yes or no")
    encrypt = found.pop("encrypt", "yes").lower()
    encrypt = _ENCRYPT_TOO.get(encrypt, encrypt)
    if encrypt not in ENCRYPT:
        raise BadRequest(f"Encrypt must be one of {', '.join(ENCRYPT)}")
    return Address(**found, encrypt=encrypt, trust=trust)


def changes_nothing(name: str, value: str) -> bool:
    """Whether other tools know this name and it changes nothing here.

    Raises BadRequest where it would, without the value.
    """
    squeezed = _squeezed(name)
    harmless, problem = _REFUSED.get(squeezed, ((value.lower(),), ""))
    if value.lower() not in harmless:
        raise BadRequest(f"{name} {problem}")
    return squeezed in _IGNORED or squeezed in _REFUSED


def _squeezed(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _of_pairs(text: str) -> dict[str, str]:
    """As in ADO.NET, the last one of a name counts."""
    found: dict[str, str] = {}
    for number, (name, value) in enumerate(_pairs(text), 1):
        known = _CALLED.get(_squeezed(name))
        if known is not None:
            found[known] = value
        elif not changes_nothing(name, value):
            raise _unknown(name, number, after_password="password" in found)
    return _joined(found)


def _joined(found: dict[str, str]) -> dict[str, str]:
    """Server and Port are one thing here."""
    port = found.pop("port", "")
    if not port:
        return found
    if not port.isdecimal() or not 1 <= int(port) <= _MAX_PORT:
        raise BadRequest(f"Port must be a whole number from 1 to {_MAX_PORT}")
    host, comma, own = found.get("server", "").partition(",")
    if not host:
        raise BadRequest("Port needs Server beside it")
    if comma and own.strip() != port:
        raise BadRequest("Server and Port say different ports: keep one of them")
    return {**found, "server": f"{host},{port}"}


def _unknown(name: str, number: int, *, after_password: bool) -> BadRequest:
    """What comes after a password may be the rest of it."""
    if after_password:
        return BadRequest(
            f"the name of pair {number} of the connection string is not known here; it is not "
            "shown, as it may be the rest of a password with ; in it: write that as Password={...}"
        )
    return BadRequest(f"the connection string has {name!r}, which is not known here")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """`a=b;c={d;e}}f}`."""
    at = 0
    while at < len(text):
        if text[at] in "; \t\r\n":
            at += 1
            continue
        name, equals, _ = text[at:].partition("=")
        if not equals or ";" in name:
            raise BadRequest(
                "the connection string must be NAME=VALUE pairs with ; between them; "
                "a value with ; in it is written in braces: Password={...}"
            )
        value, at = _value(text, at + len(name) + 1)
        yield name.strip(), value


def _value(text: str, at: int) -> tuple[str, int]:
    """The value from there on, and where it ends."""
    while text[at : at + 1].isspace():
        at += 1
    opening = text[at : at + 1]
    quoted = _QUOTED.match(text, at)
    end = text.find(";", quoted.end() if quoted else at)
    end = len(text) if end < 0 else end
    if opening not in _CLOSING:
        return text[at:end].strip(), end
    closing = _CLOSING[opening]
    if quoted is None or text[quoted.end() : end].strip():
        raise BadRequest(
            f"the connection string has a value that begins with {opening} without its {closing} "
            "at the end"
        )
    return quoted[0][1:-1].replace(closing * 2, closing), end


def _of_url(text: str) -> dict[str, str]:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise BadRequest(
            "the address cannot be read: after the host comes a port, which must be a number, and "
            "in names and passwords / ? # @ : [ ] are written as %2F %3F %23 %40 %3A %5B %5D"
        ) from None
    if url.scheme not in _SCHEMES:
        raise BadRequest(f"{url.scheme}:// is not an address of SQL Server; use mssql://")
    found = {
        "server": unquote(url.hostname or ""),
        "port": str(port or ""),
        "database": unquote(url.path.strip("/")),
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
    }
    for name, value in parse_qsl(url.query):
        known = _CALLED.get(_squeezed(name))
        if known is not None:
            found[known] = value
        elif not changes_nothing(name, value):
            raise BadRequest(
                "the address has a name after ? that is not known here; known are "
                "encrypt and trustservercertificate (a ? in a password is written as %3F)"
            )
    found = _joined(found)
    # The port of a named instance is told by another service of its host.
    if found["server"] and not set(found["server"]) & {",", "\\"}:
        found["server"] += f",{DEFAULT_PORT}"
    return found
