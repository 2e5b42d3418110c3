"""Tokens of an answer (MS-TDS 2.2.7), each a function that gives its bytes."""

import struct
from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import Any

from standins.tds.collation import WIDE
from standins.tds.values import Column, Message, Parameter, SqlError
from standins.tds.wire.encoding import wire_types
from standins.tds.wire.encoding.wire_values import encode_value

SERVER_NAME = "STANDIN"


class Token(IntEnum):
    RETURN_STATUS = 0x79
    COLUMNS = 0x81
    ERROR = 0xAA
    INFO = 0xAB
    RETURN_VALUE = 0xAC
    LOGIN_ACK = 0xAD
    FEATURES_ACK = 0xAE
    ROW = 0xD1
    ENV_CHANGE = 0xE3
    DONE = 0xFD
    DONE_PROC = 0xFE
    DONE_IN_PROC = 0xFF


class Done(IntFlag):
    FINAL = 0
    MORE = 0x01
    ERROR = 0x02
    COUNT = 0x10
    ATTENTION = 0x20


class Command(IntEnum):
    """What a DONE says it is the end of; clients look at it to tell a SELECT from the others."""

    NONE = 0
    SELECT = 0xC1
    INSERT = 0xC3
    DELETE = 0xC4
    UPDATE = 0xC5
    ROLLBACK = 0xD2
    BEGIN = 0xD4
    COMMIT = 0xD5
    EXECUTE = 0xE0
    BULK = 0xF0
    MERGE = 0x117


class Env(IntEnum):
    DATABASE = 1
    LANGUAGE = 2
    PACKET_SIZE = 4
    COLLATION = 7
    BEGUN = 8
    COMMITTED = 9
    ROLLED_BACK = 10
    RESET = 18


_NULLABLE, _UPDATABLE_UNKNOWN, _IDENTITY = 0x01, 0x08, 0x10


def short_text(text: str) -> bytes:
    data = text.encode(WIDE)
    return bytes([len(data) // 2]) + data


def long_text(text: str) -> bytes:
    data = text.encode(WIDE)
    return struct.pack("<H", len(data) // 2) + data


def done(status: int, rows: int | None = None, command: int = 0, kind: Token = Token.DONE) -> bytes:
    if rows is not None:
        status |= Done.COUNT
    return struct.pack("<BHHQ", kind, status, command, rows or 0)


def return_status(value: int) -> bytes:
    return struct.pack("<Bi", Token.RETURN_STATUS, value)


def _notice(kind: Token, number: int, state: int, severity: int, text: str) -> bytes:
    body = struct.pack("<iBB", number, state & 0xFF, severity)
    body += long_text(text) + short_text(SERVER_NAME) + short_text("") + struct.pack("<I", 1)
    return struct.pack("<BH", kind, len(body)) + body


def error(cause: SqlError) -> bytes:
    return _notice(Token.ERROR, cause.number, cause.state, cause.severity, cause.text)


def info(message: Message) -> bytes:
    return _notice(Token.INFO, message.number, message.state, message.severity, message.text)


def env_change(kind: Env, new: bytes, old: bytes) -> bytes:
    """Values with their lengths."""
    body = bytes([kind]) + new + old
    return struct.pack("<BH", Token.ENV_CHANGE, len(body)) + body


def env_text(kind: Env, new: str, old: str) -> bytes:
    return env_change(kind, short_text(new), short_text(old))


def env_transaction(kind: Env, descriptor: int) -> bytes:
    """The descriptor is new when a transaction begins, old when it has ended."""
    value, nothing = b"\x08" + struct.pack("<Q", descriptor), b"\0"
    return (
        env_change(kind, value, nothing) if kind is Env.BEGUN else env_change(kind, nothing, value)
    )


def column_flags(column: Column) -> int:
    if column.identity:
        return _IDENTITY
    return _UPDATABLE_UNKNOWN | (_NULLABLE if column.nullable else 0)


def columns(described: Sequence[Column]) -> bytes:
    parts = [struct.pack("<BH", Token.COLUMNS, len(described))]
    for column in described:
        wire = wire_types.of_column(column)
        parts.append(struct.pack("<IH", 0, column_flags(column)))
        parts += [wire_types.type_info(wire), short_text(column.name)]
    return b"".join(parts)


def return_value(ordinal: int, parameter: Parameter, value: Any) -> bytes:
    wire = wire_types.of_type(parameter.type)
    head = struct.pack("<BH", Token.RETURN_VALUE, ordinal) + short_text(parameter.name)
    head += struct.pack("<BIH", 1, 0, 0)
    return head + wire_types.type_info(wire) + encode_value(wire, value)
