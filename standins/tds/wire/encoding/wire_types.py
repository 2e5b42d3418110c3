"""Types as TDS 7.4 writes them: TYPE_INFO in both directions (MS-TDS 2.2.5.4 to 2.2.5.6)."""

import struct
from dataclasses import dataclass
from enum import Enum

from standins.tds.collation import COLLATION, WIDE, bytes_of, codec_of
from standins.tds.values import Column, SqlError, SqlType
from standins.tds.wire.encoding.reader import Reader

MAX = 0xFFFF


class Layout(Enum):
    """How a value says its length: not at all, in one byte, in two, or by parts (PLP)."""

    FIXED = "fixed"
    BYTE = "byte"
    SHORT = "short"
    PARTS = "parts"
    LONG = "long"  # text, ntext, image: only parameters may still have them


@dataclass(frozen=True)
class WireType:
    """`width` is that of every value that is not NULL, or the largest there may be."""

    token: int
    sql: SqlType
    layout: Layout
    width: int
    codec: str = ""
    collation: bytes = COLLATION


# name: the token of NOT NULL columns and parameters, that of nullable ones, bytes of a value
_NUMBERS = {
    "bit": (0x32, 0x68, 1),
    "tinyint": (0x30, 0x26, 1),
    "smallint": (0x34, 0x26, 2),
    "int": (0x38, 0x26, 4),
    "bigint": (0x7F, 0x26, 8),
    "real": (0x3B, 0x6D, 4),
    "float": (0x3E, 0x6D, 8),
    "smallmoney": (0x7A, 0x6E, 4),
    "money": (0x3C, 0x6E, 8),
    "smalldatetime": (0x3A, 0x6F, 4),
    "datetime": (0x3D, 0x6F, 8),
}
_BY_FIXED_TOKEN = {fixed: (name, width) for name, (fixed, _, width) in _NUMBERS.items()}
_BY_TOKEN_AND_WIDTH = {(token, width): name for name, (_, token, width) in _NUMBERS.items()}
_SIZED = {token for _, token, _ in _NUMBERS.values()}
_DECIMALS = {"decimal": 0x6A, "numeric": 0x6C}
_TIMES = {"time": (0x29, 0), "datetime2": (0x2A, 3), "datetimeoffset": (0x2B, 5)}
_GUID, _DATE = 0x24, 0x28
# name: token, bytes per character, does a collation follow
_STRINGS = {
    "varbinary": (0xA5, 1, False),
    "varchar": (0xA7, 1, True),
    "binary": (0xAD, 1, False),
    "char": (0xAF, 1, True),
    "nvarchar": (0xE7, 2, True),
    "nchar": (0xEF, 2, True),
}
# token: the type that took its place, does a collation follow
_OLD_STRINGS = {0x22: ("varbinary", False), 0x23: ("varchar", True), 0x63: ("nvarchar", True)}
_DECIMAL_NAMES = {token: name for name, token in _DECIMALS.items()}
_TIME_NAMES = {token: name for name, (token, _) in _TIMES.items()}
_STRING_NAMES = {token: name for name, (token, _, _) in _STRINGS.items()}
_ALONE = {_GUID: ("uniqueidentifier", 16), _DATE: ("date", 3)}
_ALONE_TOKENS = {name: token for token, (name, _) in _ALONE.items()}


def decimal_width(precision: int) -> int:
    """The sign and four bytes for every started nine or ten digits."""
    return 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17


def time_width(scale: int) -> int:
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def of_column(column: Column) -> WireType:
    return of_type(column.type, column.nullable, bytes_of(column.collation))


def of_type(sql: SqlType, nullable: bool = True, collation: bytes = COLLATION) -> WireType:
    """As SQL Server sends it: NOT NULL numbers without a length."""
    if sql.name in _NUMBERS:
        fixed, token, width = _NUMBERS[sql.name]
        if nullable:
            return WireType(token, sql, Layout.BYTE, width)
        return WireType(fixed, sql, Layout.FIXED, width)
    if sql.name in _DECIMALS:
        full = SqlType(sql.name, None, sql.precision or 18, sql.scale or 0)
        return WireType(_DECIMALS[sql.name], full, Layout.BYTE, decimal_width(full.precision or 18))
    if sql.name in _TIMES:
        scale = 7 if sql.scale is None else sql.scale
        return _time(_TIMES[sql.name][0], scale)
    if sql.name in _ALONE_TOKENS:
        token = _ALONE_TOKENS[sql.name]
        return WireType(token, sql, Layout.BYTE, _ALONE[token][1])
    token, per_character, _ = _STRINGS[sql.name]
    return _string(token, MAX if sql.length is None else sql.length * per_character, collation)


def type_info(wire: WireType) -> bytes:
    token = bytes([wire.token])
    if wire.layout is Layout.FIXED or wire.token == _DATE:
        return token
    if wire.token in _DECIMAL_NAMES:
        return token + bytes([wire.width, wire.sql.precision or 18, wire.sql.scale or 0])
    if wire.token in _TIME_NAMES:
        return token + bytes([wire.sql.scale or 0])
    if wire.layout is Layout.BYTE:
        return token + bytes([wire.width])
    collation = wire.collation if wire.codec else b""
    return token + struct.pack("<H", wire.width) + collation


def read_type(reader: Reader) -> WireType:
    token = reader.u8()
    if token in _BY_FIXED_TOKEN:
        name, width = _BY_FIXED_TOKEN[token]
        return WireType(token, SqlType(name), Layout.FIXED, width)
    if token in _SIZED:
        width = reader.u8()
        return WireType(token, SqlType(_sized(token, width)), Layout.BYTE, width)
    if token in _DECIMAL_NAMES:
        # The length byte is not to be trusted: Microsoft's bulk load repeats the token there.
        _length, precision, scale = reader.u8(), reader.u8(), reader.u8()
        sql = SqlType(_DECIMAL_NAMES[token], None, precision, scale)
        return WireType(token, sql, Layout.BYTE, decimal_width(precision))
    if token in _TIME_NAMES:
        return _time(token, reader.u8())
    return _read_longer(token, reader)


def _read_longer(token: int, reader: Reader) -> WireType:
    if token in _ALONE:
        name, width = _ALONE[token]
        if token == _GUID:
            reader.u8()
        return WireType(token, SqlType(name), Layout.BYTE, width)
    if token in _STRING_NAMES:
        length = reader.u16()
        collation = reader.take(5) if _STRINGS[_STRING_NAMES[token]][2] else b""
        return _string(token, length, collation)
    if token in _OLD_STRINGS:
        name, is_text = _OLD_STRINGS[token]
        length = reader.u32()
        codec = codec_of(reader.take(5)) if is_text else ""
        codec = WIDE if name == "nvarchar" else codec
        return WireType(token, SqlType(name), Layout.LONG, length, codec)
    raise SqlError(8009, f"Data type 0x{token:02X} is unknown.", 16)


def _sized(token: int, width: int) -> str:
    try:
        return _BY_TOKEN_AND_WIDTH[token, width]
    except KeyError:
        text = f"Data type 0x{token:02X} has an invalid data length or metadata length."
        raise SqlError(8016, text, 16) from None


def _time(token: int, scale: int) -> WireType:
    name = _TIME_NAMES[token]
    width = time_width(scale) + _TIMES[name][1]
    return WireType(token, SqlType(name, None, None, scale), Layout.BYTE, width)


def _string(token: int, length: int, collation: bytes) -> WireType:
    name = _STRING_NAMES[token]
    _, per_character, is_text = _STRINGS[name]
    codec = "" if not is_text else WIDE if per_character > 1 else codec_of(collation)
    if length == MAX:
        return WireType(token, SqlType(name), Layout.PARTS, MAX, codec, collation or COLLATION)
    sql = SqlType(name, length // per_character)
    return WireType(token, sql, Layout.SHORT, length, codec, collation or COLLATION)
