"""Seals tickets and descriptors, so that the server accepts only those that it created.

Both have a MAC over their content and the catalog, so nobody can alter one to reach another
catalog, table or version. A descriptor is the PATH `[schema, table, seal]`. A descriptor without a
seal is a name, for which the rights of the caller apply.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from google.protobuf.message import DecodeError

from jetbridge.catalog import fold
from jetbridge.errors import BadRequest
from jetbridge.wire.flight_pb2 import FlightDescriptor
from jetbridge.wire.limits import DESCRIPTOR_BYTES

_MAC_BYTES = 16
_KINDS = ("table", "scalar_function", "table_function")

Kind = Literal["table", "scalar_function", "table_function"]


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """Name one split of a scan of one version of a table, or a call of a table function."""

    catalog: str
    schema: str
    name: str
    kind: str = "table"
    version: int | None = None
    identity: str = ""
    columns: list[str] | None = None
    filters: str = ""
    part: str | None = None
    parts: int = 1
    at_unit: str = ""
    at_value: str = ""
    parameters: bytes = b""


@dataclass(frozen=True)
class DescriptorName:
    """Name a table or function. `fingerprint` is that of the columns that the client knows."""

    schema: str
    name: str
    kind: str = "table"
    fingerprint: str = ""


def fingerprint(schema: pa.Schema) -> str:
    """Return a hash of the names and types of columns, which decide the layout of rows."""
    text = "\n".join(f"{field.name}\0{field.type}" for field in schema)
    return _text(hashlib.sha256(text.encode()).digest()[:9])


class TicketSealer:
    """Seal with the first key, and open with any key.

    The keys are read again if none of them fits a seal. So servers that share keys may get a new
    one at different times.
    """

    def __init__(self, keys: Callable[[], Sequence[bytes]]) -> None:
        self._read_keys = keys
        self._keys = tuple(keys())

    def seal_ticket(self, ticket: Ticket) -> bytes:
        """Return the ticket as bytes with a seal."""
        body = msgspec.msgpack.encode(ticket)
        return _mac(self._keys[0], b"ticket", body) + body

    def open_ticket(self, sealed: bytes) -> Ticket:
        """Return the ticket in sealed bytes. Raises BadRequest."""
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not self._is_ours(mac, b"ticket", body):
            raise BadRequest("this server did not create the ticket; ask for endpoints again")
        return msgspec.msgpack.decode(body, type=Ticket)

    def descriptor(self, catalog: str, name: DescriptorName) -> FlightDescriptor:
        """Return a sealed descriptor of a table or function."""
        mac = _mac(self._keys[0], b"descriptor", _identity(catalog, name))
        seal = f"{name.kind}.{name.fingerprint}.{_text(mac)}"
        path = [_printable(name.schema), _printable(name.name), seal]
        return FlightDescriptor(type=FlightDescriptor.PATH, path=path)

    def open_descriptor(self, catalog: str, descriptor: FlightDescriptor) -> DescriptorName:
        """Return the name in a descriptor, sealed or not. Raises BadRequest."""
        path = list(descriptor.path)
        if descriptor.type != FlightDescriptor.PATH or not all(path):
            raise BadRequest("the descriptor must be a path: [schema, table]")
        match path:
            case [schema, name]:
                return DescriptorName(unquote(schema), unquote(name))
            case [schema, name, seal]:
                return self._unseal(catalog, unquote(schema), unquote(name), seal)
            case [named_catalog, schema, kind, name] if kind in _KINDS and fold(
                named_catalog
            ) == fold(catalog):
                return DescriptorName(unquote(schema), unquote(name), kind)
        raise BadRequest("the descriptor must be a path: [schema, table]")

    def _unseal(self, catalog: str, schema: str, name: str, seal: str) -> DescriptorName:
        item_type, _, rest = seal.partition(".")
        known_fingerprint, _, mac = rest.partition(".")
        opened = DescriptorName(schema, name, item_type, known_fingerprint)
        if not self._is_ours(_from_text(mac), b"descriptor", _identity(catalog, opened)):
            raise BadRequest(
                f"this server did not create the descriptor of {schema}.{name}; "
                "DETACH and ATTACH again"
            )
        return opened

    def _is_ours(self, mac: bytes, purpose: bytes, body: bytes) -> bool:
        if _fits(mac, self._keys, purpose, body):
            return True
        self._keys = tuple(self._read_keys())
        return _fits(mac, self._keys, purpose, body)


def _fits(mac: bytes, keys: Iterable[bytes], purpose: bytes, body: bytes) -> bool:
    return any(hmac.compare_digest(mac, _mac(key, purpose, body)) for key in keys)


def _mac(key: bytes, purpose: bytes, body: bytes) -> bytes:
    return hmac.digest(key, purpose + b"\0" + body, "sha256")[:_MAC_BYTES]


def _identity(catalog: str, name: DescriptorName) -> bytes:
    parts = (catalog, name.schema, name.name, name.kind, name.fingerprint)
    return msgspec.msgpack.encode(parts)


def read_descriptor(data: bytes) -> FlightDescriptor:
    """Decode a descriptor. Raises BadRequest."""
    if len(data) > DESCRIPTOR_BYTES:
        raise BadRequest(f"the flight descriptor is over {DESCRIPTOR_BYTES} bytes")
    try:
        return FlightDescriptor.FromString(bytes(data))
    except (DecodeError, ValueError) as error:
        raise BadRequest("the flight descriptor cannot be read") from error


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    """Return the bytes that `_text` writes like this; empty if it writes none like this."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"==")
    except (UnicodeEncodeError, binascii.Error):
        return b""
    return data if _text(data) == text else b""


def _printable(name: str) -> str:
    """Return the name with percent-encoding for a gRPC header, as the client copies it into one."""
    if name.isascii() and name.isprintable() and "%" not in name:
        return name
    return "".join(
        char if char.isascii() and char.isprintable() and char != "%" else _escape(char)
        for char in name
    )


def _escape(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())
