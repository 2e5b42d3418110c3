"""Values of bulk-loaded rows, found by the scanner, as Arrow columns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from standins.tds.arrow_types import OFFSET_TIME, arrow_type
from standins.tds.collation import WIDE, decode
from standins.tds.values import Column, SqlError
from standins.tds.wire.encoding.row_scanner import groups
from standins.tds.wire.encoding.wire_types import Layout, WireType, of_column, time_width

Array = npt.NDArray[Any]
EPOCH_DAYS = 719162  # from the first of January of the year 1 to that of 1970
DAYS_1900 = -25567
DAY = 86_400_000_000
_LAST_DAY = 3652058
GUID_ORDER = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15]
_DECIMAL_SIZES = (-1, 5, 9, 13, 17)
_PADDING = bytes(32)  # so that a NULL at the very end has something behind it to look at


@dataclass(frozen=True)
class Found:
    """One column: the bytes, where its values are in them, how long, and which there are."""

    wire: WireType
    raw: bytes
    data: Array
    places: Array
    sizes: Array

    @property
    def valid(self) -> Array:
        return self.sizes >= 0

    def window(self, width: int, offset: int = 0) -> Array:
        places = np.where(self.valid, self.places + offset, 0)
        return sliding_window_view(self.data, width)[places]

    def view(self, kind: str, offset: int = 0) -> Array:
        width = np.dtype(kind).itemsize
        return self.window(width, offset).view(kind)[:, 0]

    def number(self, width: int, offset: int = 0) -> Array:
        """Little endian, of an odd number of bytes."""
        wide = np.zeros((len(self.places), 8), np.uint8)
        wide[:, :width] = self.window(width, offset)
        return wide.view("<i8")[:, 0]

    def values(self) -> list[bytes]:
        raw = self.raw
        ends = self.places + np.maximum(self.sizes, 0)
        return [raw[a:b] for a, b in zip(self.places.tolist(), ends.tolist(), strict=True)]


def locate(
    layout: Sequence[WireType], raw: bytes, places: Sequence[Sequence[int]]
) -> Iterator[Found]:
    """Each column of the layout, from the places of its groups."""
    data = np.frombuffer(raw + _PADDING, np.uint8)
    for group, found in zip(groups(layout), places, strict=True):
        at = np.array(found, np.int64)
        for index in group:
            wire = layout[index]
            at, sizes, after = _SIZES[wire.layout](wire, data, at)
            _check_sizes(wire, sizes, index + 1)
            yield Found(wire, raw, data, at, sizes)
            at = after


def _check_sizes(wire: WireType, sizes: Array, number: int) -> None:
    if wire.layout is not Layout.BYTE:
        return
    allowed = _DECIMAL_SIZES if wire.sql.name in ("decimal", "numeric") else (-1, wire.width)
    if not np.isin(sizes, allowed).all():
        raise invalid_length(number)


def invalid_length(number: int) -> SqlError:
    text = f"Received an invalid column length from the bcp client for colid {number}."
    return SqlError(4815, text)


def check_lengths(found: Found, wanted: Column, number: int) -> None:
    """A text or binary value may not be longer than its column."""
    most = of_column(wanted).width
    if wanted.type.length is not None and (found.sizes > most).any():
        raise invalid_length(number)


def _of_fixed(wire: WireType, _data: Array, at: Array) -> tuple[Array, Array, Array]:
    return at, np.full(len(at), wire.width, np.int64), at + wire.width


def _of_byte(_wire: WireType, data: Array, at: Array) -> tuple[Array, Array, Array]:
    sizes = data[at].astype(np.int64)
    return at + 1, np.where(sizes == 0, -1, sizes), at + 1 + sizes


def _of_short(_wire: WireType, data: Array, at: Array) -> tuple[Array, Array, Array]:
    sizes = data[at].astype(np.int64) | data[at + 1].astype(np.int64) << 8
    sizes = np.where(sizes == 0xFFFF, -1, sizes)
    return at + 2, sizes, at + 2 + np.maximum(sizes, 0)


def _of_parts(_wire: WireType, data: Array, at: Array) -> tuple[Array, Array, Array]:
    """Nothing follows in its group."""
    sizes = sliding_window_view(data, 4)[at - 4].view("<i4")[:, 0].astype(np.int64)
    return at, sizes, at


# Where the values are, how long (-1 for NULL), and where the next column begins.
_SIZES = {
    Layout.FIXED: _of_fixed,
    Layout.BYTE: _of_byte,
    Layout.SHORT: _of_short,
    Layout.PARTS: _of_parts,
}


def column(found: Found, wanted: Column) -> pa.Array:
    """As the column of the table has them."""
    return _BUILDERS[found.wire.sql.name](found, arrow_type(wanted.type))


def _plain(kind: str) -> Callable[[Found, pa.DataType], pa.Array]:
    def build(found: Found, wanted: pa.DataType) -> pa.Array:
        return pa.array(found.view(kind), wanted, mask=~found.valid)

    return build


def _bit(found: Found, _wanted: pa.DataType) -> pa.Array:
    return pa.array(found.view("u1") != 0, mask=~found.valid)


def _bitmap(valid: Array) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def _decimals(low: Array, high: Array, valid: Array, kind: pa.DataType) -> pa.Array:
    words = np.stack([low.astype(np.uint64), high.astype(np.uint64)], axis=1)
    buffers = [_bitmap(valid), pa.py_buffer(words.tobytes())]
    return pa.Array.from_buffers(kind, len(valid), buffers)


def _decimal(found: Found, wanted: pa.DataType) -> pa.Array:
    digits = found.window(16, 1).copy()
    digits[np.arange(16) >= (found.sizes - 1)[:, None]] = 0
    words = digits.view("<u8")
    low, high = words[:, 0], words[:, 1]
    negative = found.view("u1") == 0
    high = np.where(negative, ~high + (low == 0), high)
    low = np.where(negative, ~low + np.uint64(1), low)
    scale = found.wire.sql.scale or 0
    if scale == wanted.scale:
        return _decimals(low, high, found.valid, wanted)
    return _rescaled(_decimals(low, high, found.valid, pa.decimal128(38, scale)), wanted)


def _rescaled(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A client may send another scale than the table has; SQL Server rounds away from zero."""
    context = Context(prec=60, rounding=ROUND_HALF_UP)
    step = Decimal(1).scaleb(-wanted.scale)
    values = [None if v is None else context.quantize(v, step) for v in array.to_pylist()]
    return pa.array(values, wanted)


def _money(found: Found, wanted: pa.DataType) -> pa.Array:
    number = found.view("<i4").astype(np.int64) << 32 | found.view("<u4", 4).astype(np.int64)
    return _decimals(number, number >> 63, found.valid, wanted)


def _smallmoney(found: Found, wanted: pa.DataType) -> pa.Array:
    number = found.view("<i4").astype(np.int64)
    return _decimals(number, number >> 63, found.valid, wanted)


def _offsets(sizes: Array) -> pa.Buffer:
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return pa.py_buffer(ends.tobytes())


def _binary(found: Found, wanted: pa.DataType) -> pa.Array:
    return _of_bytes(found, wanted, b"".join(found.values()))


def _of_bytes(found: Found, wanted: pa.DataType, joined: bytes) -> pa.Array:
    buffers = [_bitmap(found.valid), _offsets(np.maximum(found.sizes, 0)), pa.py_buffer(joined)]
    return pa.Array.from_buffers(wanted, len(found.places), buffers)


def _text(found: Found, wanted: pa.DataType) -> pa.Array:
    codec = found.wire.codec
    if codec == WIDE:
        quick = _wide_text(found, wanted)
        if quick is not None:
            return quick
    elif (joined := b"".join(found.values())).isascii():
        return _of_bytes(found, wanted, joined)
    values = [decode(value, codec) for value in found.values()]
    return pa.array(values, wanted, mask=~found.valid)


def _wide_text(found: Found, wanted: pa.DataType) -> pa.Array | None:
    """All values at once; None where one holds or begins with half a surrogate pair."""
    joined = b"".join(found.values())
    try:
        text = joined.decode(WIDE).encode()
    except UnicodeDecodeError:
        return None
    units = np.frombuffer(joined, "<u2")
    size = 1 + (units >= 0x80) + ((units >= 0x800) & ((units < 0xD800) | (units > 0xDFFF)))
    ends = np.concatenate([[0], np.cumsum(size, dtype=np.int32)])
    lengths = np.maximum(found.sizes, 0) // 2
    unit_ends = np.cumsum(lengths)
    firsts = units[(unit_ends - lengths)[lengths > 0]]
    if ((firsts >= 0xDC00) & (firsts <= 0xDFFF)).any():
        return None
    offsets = np.concatenate([[0], ends[unit_ends]]).astype(np.int32)
    buffers = [_bitmap(found.valid), pa.py_buffer(offsets.tobytes()), pa.py_buffer(text)]
    return pa.Array.from_buffers(wanted, len(found.places), buffers)


def _uuid(found: Found, wanted: pa.DataType) -> pa.Array:
    data = np.ascontiguousarray(found.window(16)[:, GUID_ORDER])
    buffers = [_bitmap(found.valid), pa.py_buffer(data.tobytes())]
    storage = pa.Array.from_buffers(pa.binary(16), len(data), buffers)
    return pa.ExtensionArray.from_storage(wanted, storage)


def _invalid(found: Found) -> SqlError:
    return SqlError(9803, f'Invalid data for type "{found.wire.sql.name}".')


def _day_numbers(found: Found, offset: int) -> Array:
    days = found.number(3, offset)
    if (days[found.valid] > _LAST_DAY).any():
        raise _invalid(found)
    return days - EPOCH_DAYS


def _clock(found: Found) -> Array:
    """Microseconds of the day."""
    scale = found.wire.sql.scale or 0
    ticks: Array = found.number(time_width(scale)) * 10 ** (7 - scale) // 10
    if (ticks[found.valid] >= DAY).any():
        raise _invalid(found)
    return ticks


def _seen_as(values: Array, valid: Array, wanted: pa.DataType) -> pa.Array:
    """Whole numbers, told to be something else."""
    return pa.array(values, mask=~valid).view(wanted)


def _date(found: Found, wanted: pa.DataType) -> pa.Array:
    return _seen_as(_day_numbers(found, 0).astype(np.int32), found.valid, wanted)


def _time(found: Found, wanted: pa.DataType) -> pa.Array:
    return _seen_as(_clock(found), found.valid, wanted)


def _moments(found: Found) -> Array:
    days = _day_numbers(found, time_width(found.wire.sql.scale or 0))
    moments: Array = days * DAY + _clock(found)
    return moments


def _datetime2(found: Found, wanted: pa.DataType) -> pa.Array:
    return _seen_as(_moments(found), found.valid, wanted)


def _datetimeoffset(found: Found, _wanted: pa.DataType) -> pa.Array:
    valid = found.valid
    utc = _seen_as(_moments(found), valid, OFFSET_TIME.field("utc").type)
    minutes = found.view("<i2", time_width(found.wire.sql.scale or 0) + 3)
    parts = [utc, pa.array(minutes, mask=~valid)]
    return pa.StructArray.from_arrays(parts, fields=list(OFFSET_TIME), mask=pa.array(~valid))


def _datetime(found: Found, wanted: pa.DataType) -> pa.Array:
    days = found.view("<i4").astype(np.int64) + DAYS_1900
    ticks = found.view("<u4", 4).astype(np.int64)
    return _seen_as(days * DAY + (ticks * 10 + 1) // 3 * 1000, found.valid, wanted)


def _smalldatetime(found: Found, wanted: pa.DataType) -> pa.Array:
    days = found.view("<u2").astype(np.int64) + DAYS_1900
    minutes = found.view("<u2", 2).astype(np.int64)
    return _seen_as(days * DAY + minutes * 60_000_000, found.valid, wanted)


_BUILDERS: dict[str, Callable[[Found, pa.DataType], pa.Array]] = {
    "bit": _bit,
    "tinyint": _plain("u1"),
    "smallint": _plain("<i2"),
    "int": _plain("<i4"),
    "bigint": _plain("<i8"),
    "real": _plain("<f4"),
    "float": _plain("<f8"),
    "decimal": _decimal,
    "numeric": _decimal,
    "money": _money,
    "smallmoney": _smallmoney,
    "char": _text,
    "varchar": _text,
    "nchar": _text,
    "nvarchar": _text,
    "binary": _binary,
    "varbinary": _binary,
    "uniqueidentifier": _uuid,
    "date": _date,
    "time": _time,
    "datetime2": _datetime2,
    "datetimeoffset": _datetimeoffset,
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
}
