"""LOGIN7: what a client says of itself, and what it is told when it may come in."""

import struct
from dataclasses import dataclass, field

from standins.tds.collation import COLLATION
from standins.tds.values import Message, SqlError
from standins.tds.wire import packets, prelogin
from standins.tds.wire.encoding import tokens
from standins.tds.wire.encoding.reader import Reader, TooShort
from standins.tds.wire.encoding.tokens import Done, Env, Token

TDS_VERSION = bytes.fromhex("74000004")
PROGRAM = "Microsoft SQL Server"
LANGUAGE = "us_english"
_TEXTS = ("host", "user", "password", "application", "server", "extension")
_MORE_TEXTS = ("library", "language", "database")
_FIRST_OFFSET = 36
_HAS_EXTENSION = 0x10
_FLAGS3 = 27
_END_OF_FEATURES = 0xFF
UTF8 = 0x0A
# What is acknowledged when asked for. SQL Server would also offer to recover sessions (01): not
# here, so that a dropped connection stays dropped.
_ACKNOWLEDGED = {UTF8: b"\x01"}


@dataclass(frozen=True)
class Login:
    user: str
    password: str = field(repr=False)
    database: str
    application: str
    library: str
    host: str
    server: str
    language: str
    packet_size: int
    features: dict[int, bytes]


def _clear(obfuscated: bytes) -> str:
    """Each byte was turned half round, then met with A5."""
    undone = bytes(((b ^ 0xA5) << 4 & 0xF0) | ((b ^ 0xA5) >> 4) for b in obfuscated)
    return undone.decode("utf-16-le", "replace")


def _features(data: bytes, start: int) -> dict[int, bytes]:
    reader = Reader(data, start)
    found: dict[int, bytes] = {}
    while (number := reader.u8()) != _END_OF_FEATURES:
        found[number] = reader.take(reader.u32())
    return found


def parse(data: bytes) -> Login:
    """Raises TooShort for places that are not there."""
    if len(data) < _FIRST_OFFSET or Reader(data).u32() > len(data):
        raise TooShort("LOGIN7 is shorter than it says")
    reader = Reader(data, _FIRST_OFFSET)
    spans = {name: (reader.u16(), reader.u16()) for name in (*_TEXTS, *_MORE_TEXTS)}
    extension, _length = spans.pop("extension")
    password, length = spans.pop("password")
    texts = {name: Reader(data, at).wide(count) for name, (at, count) in spans.items()}
    features: dict[int, bytes] = {}
    if data[_FLAGS3] & _HAS_EXTENSION:
        features = _features(data, Reader(data, extension).u32())
    return Login(
        **texts,
        password=_clear(Reader(data, password).take(2 * length)),
        packet_size=Reader(data, 8).u32(),
        features=features,
    )


def _login_ack() -> bytes:
    body = b"\x01" + TDS_VERSION + tokens.short_text(PROGRAM) + prelogin.VERSION[:4]
    return struct.pack("<BH", Token.LOGIN_ACK, len(body)) + body


def _features_ack(asked: dict[int, bytes]) -> bytes:
    granted = {number: data for number, data in _ACKNOWLEDGED.items() if number in asked}
    if not granted:
        return b""
    parts = [struct.pack("<BI", number, len(data)) + data for number, data in granted.items()]
    return bytes([Token.FEATURES_ACK]) + b"".join(parts) + bytes([_END_OF_FEATURES])


def _collation() -> bytes:
    return tokens.env_change(Env.COLLATION, bytes([len(COLLATION)]) + COLLATION, b"\0")


def accepted(login: Login, database: str) -> bytes:
    """In the order of SQL Server."""
    size = str(packets.agreed_size(login.packet_size))
    entered = Message(5701, f"Changed database context to '{database}'.", state=2)
    speaking = Message(5703, f"Changed language setting to {LANGUAGE}.")
    return b"".join(
        [
            tokens.env_text(Env.DATABASE, database, "master"),
            tokens.info(entered),
            _collation(),
            tokens.env_text(Env.LANGUAGE, LANGUAGE, ""),
            tokens.info(speaking),
            _login_ack(),
            tokens.env_text(Env.PACKET_SIZE, size, str(packets.DEFAULT_SIZE)),
            _features_ack(login.features),
            tokens.done(Done.FINAL),
        ]
    )


def refused(user: str, cause: SqlError) -> bytes:
    """SQL Server says of a missing database that the login failed, too."""
    causes = [cause]
    if cause.number == 4060:
        causes.append(SqlError(18456, f"Login failed for user '{user}'.", 14))
    return b"".join(map(tokens.error, causes)) + tokens.done(Done.ERROR)
