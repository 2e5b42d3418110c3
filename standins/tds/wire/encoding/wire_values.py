"""Values of every type: Python's to bytes and back."""

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from standins.tds.collation import WIDE
from standins.tds.collation import decode as decode_text
from standins.tds.collation import encode as encode_text
from standins.tds.values import Column, Row
from standins.tds.wire.encoding.reader import Reader
from standins.tds.wire.encoding.wire_types import Layout, WireType, of_column, time_width

_WIDE = Context(prec=60)  # Python's own default would round a decimal(38, 10)
_DAY_ONE = datetime(1, 1, 1)
_DAY_1900 = datetime(1900, 1, 1)
DAY_TICKS = 24 * 3600 * 300
NO_PARTS = b"\xff" * 8  # NULL
UNKNOWN_LENGTH = b"\xfe" + b"\xff" * 7
_END_OF_PARTS = b"\0\0\0\0"
_ONE_PART = struct.Struct("<QI").pack

_FORMATS = {
    "bit": "<B",
    "tinyint": "<B",
    "smallint": "<h",
    "int": "<i",
    "bigint": "<q",
    "real": "<f",
    "float": "<d",
}


def unscaled(value: Decimal | int, scale: int) -> int:
    return int(_WIDE.scaleb(Decimal(value), scale))


def scaled(number: int, scale: int) -> Decimal:
    return Decimal(f"{number}e-{scale}")


def _clock(value: timedelta, scale: int) -> bytes:
    """Of a day, in units of the scale."""
    ticks: int = (value.seconds * 1_000_000 + value.microseconds) * 10 // 10 ** (7 - scale)
    return ticks.to_bytes(time_width(scale), "little")


def _from_clock(data: bytes, scale: int) -> timedelta:
    """The seventh digit is cut: Python has no place for it."""
    return timedelta(microseconds=int.from_bytes(data, "little") * 10 ** (7 - scale) // 10)


def _days(value: timedelta) -> bytes:
    return value.days.to_bytes(3, "little")


def _decimal(value: Decimal, wire: WireType) -> bytes:
    number = unscaled(value, wire.sql.scale or 0)
    return bytes([number >= 0]) + abs(number).to_bytes(wire.width - 1, "little")


def _money(value: Decimal, _wire: WireType) -> bytes:
    number = unscaled(value, 4)
    return struct.pack("<iI", number >> 32, number & 0xFFFFFFFF)


def _time(value: time, wire: WireType) -> bytes:
    return _clock(datetime.combine(_DAY_ONE, value) - _DAY_ONE, wire.sql.scale or 0)


def _datetimeoffset(value: datetime, wire: WireType) -> bytes:
    offset = value.utcoffset() or timedelta(0)
    since = value.astimezone(UTC).replace(tzinfo=None) - _DAY_ONE
    minutes = offset // timedelta(minutes=1)
    return _clock(since, wire.sql.scale or 0) + _days(since) + struct.pack("<h", minutes)


def _datetime(value: datetime, _wire: WireType) -> bytes:
    since = value - _DAY_1900
    ticks = since.seconds * 300 + (since.microseconds * 3 + 5000) // 10000
    return struct.pack("<iI", since.days + ticks // DAY_TICKS, ticks % DAY_TICKS)


def _smalldatetime(value: datetime, _wire: WireType) -> bytes:
    since = value - _DAY_1900
    return struct.pack("<HH", since.days, since.seconds // 60)


def _text(value: str, wire: WireType) -> bytes:
    return encode_text(value, wire.codec)


def _bytes(value: bytes, _wire: WireType) -> bytes:
    return bytes(value)


def _char(value: str, wire: WireType) -> bytes:
    return encode_text(value, wire.codec).ljust(wire.width, b" ")


def _nchar(value: str, wire: WireType) -> bytes:
    data = encode_text(value, wire.codec)
    return data + b" \0" * ((wire.width - len(data)) // 2)


def _binary(value: bytes, wire: WireType) -> bytes:
    return bytes(value).ljust(wire.width, b"\0")


_ENCODERS: dict[str, Callable[[Any, WireType], bytes]] = {
    "decimal": _decimal,
    "numeric": _decimal,
    "money": _money,
    "smallmoney": lambda value, _: struct.pack("<i", unscaled(value, 4)),
    "char": _char,
    "varchar": _text,
    "nchar": _nchar,
    "binary": _binary,
    "varbinary": _bytes,
    "uniqueidentifier": lambda value, _: value.bytes_le,
    "date": lambda value, _: (value.toordinal() - 1).to_bytes(3, "little"),
    "time": _time,
    "datetimeoffset": _datetimeoffset,
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
}


def raw_encoder(wire: WireType) -> Callable[[Any], bytes]:
    """Without length; the frequent ones are the C functions of struct themselves."""
    form = _FORMATS.get(wire.sql.name)
    if form is not None:
        return struct.Struct(form).pack
    if wire.codec == WIDE and wire.sql.name == "nvarchar":
        return lambda value: value.encode(WIDE, "replace")
    if wire.sql.name == "datetime2":
        return _quick_datetime2(wire)
    encoder = _ENCODERS[wire.sql.name]
    return lambda value: encoder(value, wire)


def _quick_datetime2(wire: WireType) -> Callable[[datetime], bytes]:
    """One number, the time in its low bytes and the days above them."""
    step: int = 10 ** (7 - (wire.sql.scale or 0))
    width = wire.width
    shift = 8 * (width - 3)

    def encode(value: datetime) -> bytes:
        since = value - _DAY_ONE
        ticks = (since.seconds * 1_000_000 + since.microseconds) * 10 // step
        return (since.days << shift | ticks).to_bytes(width, "little")

    return encode


def column_encoder(wire: WireType) -> Callable[[Sequence[Any]], list[bytes]]:
    """Values of one column to bytes with their lengths, NULLs among them."""
    raw = raw_encoder(wire)
    if wire.layout is Layout.FIXED:
        return lambda column: [raw(value) for value in column]
    if wire.layout is Layout.BYTE:
        head = bytes([wire.width])
        return lambda column: [b"\0" if value is None else head + raw(value) for value in column]
    if wire.layout is Layout.SHORT:
        return lambda column: [_short(None if value is None else raw(value)) for value in column]
    return lambda column: [_parts(None if value is None else raw(value)) for value in column]


def _short(data: bytes | None) -> bytes:
    return b"\xff\xff" if data is None else len(data).to_bytes(2, "little") + data


def _parts(data: bytes | None) -> bytes:
    if data is None:
        return NO_PARTS
    if not data:
        return bytes(12)
    size = len(data)
    return _ONE_PART(size, size) + data + _END_OF_PARTS


def encode_value(wire: WireType, value: Any) -> bytes:
    return column_encoder(wire)([value])[0]


def row_encoder(columns: Sequence[Column]) -> Callable[[Sequence[Row]], bytes]:
    """ROW tokens of some rows at a time: column by column is quicker than row by row."""
    encoders = [column_encoder(of_column(column)) for column in columns]

    def encode(rows: Sequence[Row]) -> bytes:
        if not rows:
            return b""
        tokens = [b"\xd1"] * len(rows)
        encoded = [
            encoder(column)
            for encoder, column in zip(encoders, zip(*rows, strict=True), strict=True)
        ]
        return b"".join([part for row in zip(tokens, *encoded, strict=True) for part in row])

    return encode


def _from_datetime(data: bytes) -> datetime:
    days, ticks = struct.unpack("<iI", data)
    return _DAY_1900 + timedelta(days=days, milliseconds=(ticks * 10 + 1) // 3)


def _from_smalldatetime(data: bytes) -> datetime:
    days, minutes = struct.unpack("<HH", data)
    return _DAY_1900 + timedelta(days=days, minutes=minutes)


def _from_decimal(data: bytes, wire: WireType) -> Decimal:
    number = int.from_bytes(data[1:], "little")
    return scaled(number if data[0] else -number, wire.sql.scale or 0)


def _from_money(data: bytes) -> Decimal:
    high, low = struct.unpack("<iI", data)
    return scaled((high << 32) + low, 4)


def _from_date(data: bytes) -> date:
    return date.fromordinal(int.from_bytes(data, "little") + 1)


def _from_datetime2(data: bytes, scale: int) -> datetime:
    days = timedelta(days=int.from_bytes(data[-3:], "little"))
    return _DAY_ONE + days + _from_clock(data[:-3], scale)


def _from_datetimeoffset(data: bytes, scale: int) -> datetime:
    offset = timezone(timedelta(minutes=struct.unpack("<h", data[-2:])[0]))
    return _from_datetime2(data[:-2], scale).replace(tzinfo=UTC).astimezone(offset)


_DECODERS: dict[str, Callable[[bytes, WireType], Any]] = {
    "bit": lambda data, _: data != b"\0",
    "decimal": _from_decimal,
    "numeric": _from_decimal,
    "money": lambda data, _: _from_money(data),
    "smallmoney": lambda data, _: scaled(int.from_bytes(data, "little", signed=True), 4),
    "char": lambda data, wire: decode_text(data, wire.codec),
    "varchar": lambda data, wire: decode_text(data, wire.codec),
    "nchar": lambda data, wire: decode_text(data, wire.codec),
    "nvarchar": lambda data, wire: decode_text(data, wire.codec),
    "binary": lambda data, _: data,
    "varbinary": lambda data, _: data,
    "uniqueidentifier": lambda data, _: UUID(bytes_le=data),
    "date": lambda data, _: _from_date(data),
    "time": lambda data, wire: (_DAY_ONE + _from_clock(data, wire.sql.scale or 0)).time(),
    "datetime2": lambda data, wire: _from_datetime2(data, wire.sql.scale or 0),
    "datetimeoffset": lambda data, wire: _from_datetimeoffset(data, wire.sql.scale or 0),
    "datetime": lambda data, _: _from_datetime(data),
    "smalldatetime": lambda data, _: _from_smalldatetime(data),
}


def from_bytes(wire: WireType, data: bytes) -> Any:
    decoder = _DECODERS.get(wire.sql.name)
    if decoder is None:
        return struct.unpack(_FORMATS[wire.sql.name], data)[0]
    return decoder(data, wire)


def _read_bytes(wire: WireType, reader: Reader) -> bytes | None:
    if wire.layout is Layout.FIXED:
        return reader.take(wire.width)
    if wire.layout is Layout.BYTE:
        size = reader.u8()
        return reader.take(size) if size else None
    if wire.layout is Layout.SHORT:
        size = reader.u16()
        return None if size == 0xFFFF else reader.take(size)
    if wire.layout is Layout.LONG:
        size = reader.u32()
        return None if size == 0xFFFFFFFF else reader.take(size)
    if reader.take(8) == NO_PARTS:
        return None
    parts = []
    while size := reader.u32():
        parts.append(reader.take(size))
    return b"".join(parts)


def read_value(wire: WireType, reader: Reader) -> Any:
    data = _read_bytes(wire, reader)
    return None if data is None else from_bytes(wire, data)
