"""Where a SQL Server is and who logs in, from the configuration or the text of an ATTACH."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from jetbridge.errors import BadRequest

DEFAULT_PORT = 1433
# Until a server that does not answer is given up.
CONNECT_SECONDS = 15
# Encrypted connections take 16,383 at most. The core must not ask for what the server has anyhow,
# often 4096 or 8192: some servers then confirm nothing, and the core does not survive that.
PACKET_BYTES = 16_000
ENCRYPT = ("yes", "no", "strict")
_ENCRYPT_TOO = {"true": "yes", "mandatory": "yes", "false": "no", "optional": "no"}
# A password may hold `://`, too, so this stands at the beginning.
_URL = re.compile(r"\s*([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SCHEMES = ("mssql", "sqlserver")
_TRUE = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_CALLED = {
    "server": "server",
    "data source": "server",
    "address": "server",
    "addr": "server",
    "network address": "server",
    "database": "database",
    "initial catalog": "database",
    "user id": "user",
    "uid": "user",
    "user": "user",
    "password": "password",
    "pwd": "password",
    "encrypt": "encrypt",
    "trustservercertificate": "trust",
    "trust server certificate": "trust",
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


def _of_pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _pairs(text):
        field_name = _CALLED.get(name.lower())
        if field_name is None:
            raise _unknown(name, after_password="password" in found)
        found.setdefault(field_name, value)
    return found


def _unknown(name: str, *, after_password: bool) -> BadRequest:
    """What comes after a password may be the rest of it."""
    if after_password:
        return BadRequest(
            "the connection string has a name after the password that is not known here; "
            "a password with ; in it is written in braces: Password={...}"
        )
    return BadRequest(f"the connection string has {name!r}, which is not known here")


def _pairs(text: str) -> list[tuple[str, str]]:
    """`a=b;c={d;e}}f}`: a value in braces may hold anything, with `}` doubled."""
    found, at = [], 0
    while at < len(text):
        if text[at] in "; \t\r\n":
            at += 1
            continue
        equals = text.find("=", at)
        if equals < 0:
            raise BadRequest("the connection string must be NAME=VALUE pairs with ; between them")
        name, at = text[at:equals].strip(), equals + 1
        value, at = _value(text, at)
        found.append((name, value))
    return found


def _value(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != "{":
        end = text.find(";", at)
        end = len(text) if end < 0 else end
        return text[at:end].strip(), end
    parts, at = [], at + 1
    while True:
        end = text.find("}", at)
        if end < 0:
            raise BadRequest("the connection string has a { without its }")
        parts.append(text[at:end])
        if text[end + 1 : end + 2] != "}":
            return "".join(parts), end + 1
        parts.append("}")
        at = end + 2


def _of_url(text: str) -> dict[str, str]:
    try:
        url = urlsplit(text)
        port = url.port or DEFAULT_PORT
    except ValueError:
        raise BadRequest(
            "the address cannot be read: after the host comes a port, which must be a number, and "
            "in names and passwords / ? # @ : [ ] are written as %2F %3F %23 %40 %3A %5B %5D"
        ) from None
    if url.scheme not in _SCHEMES:
        raise BadRequest(f"{url.scheme}:// is not an address of SQL Server; use mssql://")
    found = {
        "server": f"{url.hostname or ''},{port}" if url.hostname else "",
        "database": unquote(url.path.lstrip("/")),
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
    }
    for name, value in parse_qsl(url.query):
        known = _CALLED.get(name.lower())
        if known is None:
            raise BadRequest(
                "the address has a name after ? that is not known here; known are "
                "encrypt and trustservercertificate (a ? in a password is written as %3F)"
            )
        found[known] = value
    return found
