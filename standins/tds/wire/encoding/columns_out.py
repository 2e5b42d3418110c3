"""Arrow batches as ROW tokens, a column at a time.

Where each value of a row goes follows from the sizes of all; then every column puts its bytes into
their places. Types that are rare, or padded, go through Python's values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import sliding_window_view

from standins.tds.arrow_types import arrow_type
from standins.tds.collation import UTF8, WIDE, encode
from standins.tds.values import Column
from standins.tds.wire.encoding.columns_in import DAY, DAYS_1900, EPOCH_DAYS, GUID_ORDER
from standins.tds.wire.encoding.columns_python import python_values
from standins.tds.wire.encoding.tokens import Token
from standins.tds.wire.encoding.wire_types import Layout, WireType, of_column, time_width
from standins.tds.wire.encoding.wire_values import DAY_TICKS, column_encoder

Array = npt.NDArray[Any]
_PLAIN = {
    "tinyint": "u1",
    "smallint": "<i2",
    "int": "<i4",
    "bigint": "<i8",
    "real": "<f4",
    "float": "<f8",
}


@dataclass(frozen=True)
class Encoded:
    """Bytes of one column: of one size (`data` has a row for each value), or each of its own."""

    data: Array
    sizes: Array
    valid: Array


def batch_encoder(columns: Sequence[Column]) -> Callable[[pa.RecordBatch], bytes]:
    wires = [of_column(column) for column in columns]
    kinds = [arrow_type(column.type) for column in columns]

    def encode_batch(batch: pa.RecordBatch) -> bytes:
        encoded = [
            _encoded(wire, array if array.type == kind else array.cast(kind))
            for wire, kind, array in zip(wires, kinds, batch.columns, strict=True)
        ]
        return _put_together(batch.num_rows, encoded)

    return encode_batch


def _put_together(rows: int, columns: list[Encoded]) -> bytes:
    lengths = np.ones(rows, np.int64)
    for column in columns:
        lengths += column.sizes
    ends = np.cumsum(lengths)
    out = np.zeros(int(ends[-1]) if rows else 0, np.uint8)
    at = ends - lengths
    out[at] = Token.ROW
    at += 1
    for column in columns:
        _put(out, at, column)
        at += column.sizes
    return out.tobytes()


def _put(out: Array, at: Array, column: Encoded) -> None:
    if column.data.ndim == 1:
        _scatter(out, at, column.data, column.sizes)
        return
    width = column.data.shape[1]
    places, data = (at, column.data) if column.valid.all() else _only(column.valid, at, column.data)
    if len(places):
        sliding_window_view(out, width, writeable=True)[places] = data


def _only(valid: Array, at: Array, data: Array) -> tuple[Array, Array]:
    """NULL is a length of zero, which is there already."""
    return at[valid], data[valid]


def _scatter(out: Array, at: Array, data: Array, sizes: Array) -> None:
    starts = np.cumsum(sizes) - sizes
    out[np.repeat(at - starts, sizes) + np.arange(len(data))] = data


def _encoded(wire: WireType, array: pa.Array) -> Encoded:
    name = wire.sql.name
    if name in _PLAIN:
        return _fixed(wire, array, _words(array, _PLAIN[name]))
    if name in _FIXED:
        return _fixed(wire, array, _FIXED[name](array, wire))
    if name in _VARIABLE:
        return _variable(wire, array, *_VARIABLE[name](array, wire))
    parts = column_encoder(wire)(python_values(array))
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    return Encoded(np.frombuffer(b"".join(parts), np.uint8), sizes, _valid(array))


def _valid(array: pa.Array) -> Array:
    if array.null_count == 0:
        return np.ones(len(array), bool)
    found: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _words(array: pa.Array, kind: str) -> Array:
    """The bytes of numbers that Arrow keeps as the wire has them."""
    width = np.dtype(kind).itemsize
    words = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)
    return words.reshape(len(array), width)


def _whole(array: pa.Array, kind: str) -> Array:
    return _words(array, kind).copy().view(kind)[:, 0]


def _bytes(numbers: Array, width: int) -> Array:
    """The low bytes of whole numbers."""
    words = np.ascontiguousarray(numbers, "<i8")[:, None].view(np.uint8)
    return words[:, :width]


def _fixed(wire: WireType, array: pa.Array, content: Array) -> Encoded:
    valid = _valid(array)
    if wire.layout is Layout.FIXED:
        return Encoded(content, np.full(len(array), wire.width, np.int64), valid)
    head = np.full((len(array), 1), wire.width, np.uint8)
    return Encoded(np.hstack([head, content]), 1 + valid * np.int64(wire.width), valid)


def _bit(array: pa.Array, _wire: WireType) -> Array:
    bits: Array = array.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False)
    return bits[:, None]


def _decimal(array: pa.Array, wire: WireType) -> Array:
    words = _words(array, "V16").copy().view("<u8")
    low, high = words[:, 0], words[:, 1]
    negative = high >> np.uint64(63) == 1
    high = np.where(negative, ~high + (low == 0), high)
    low = np.where(negative, ~low + np.uint64(1), low)
    digits = np.stack([low, high], axis=1).view(np.uint8)[:, : wire.width - 1]
    return np.hstack([(~negative).astype(np.uint8)[:, None], digits])


def _uuid(array: pa.Array, _wire: WireType) -> Array:
    return _words(array.storage, "V16")[:, GUID_ORDER]


def _date(array: pa.Array, _wire: WireType) -> Array:
    return _bytes(_whole(array, "<i4").astype(np.int64) + EPOCH_DAYS, 3)


def _clock(micros: Array, scale: int) -> Array:
    return _bytes(micros * 10 // 10 ** (7 - scale), time_width(scale))


def _time(array: pa.Array, wire: WireType) -> Array:
    return _clock(_whole(array, "<i8"), wire.sql.scale or 0)


def _datetimeoffset(array: pa.Array, wire: WireType) -> Array:
    return np.hstack([_datetime2(array.field("utc"), wire), _words(array.field("minutes"), "<i2")])


def _datetime(array: pa.Array, _wire: WireType) -> Array:
    """In parts of 1/300 s, of which the last may be that of the next day."""
    days, micros = np.divmod(_whole(array, "<i8"), DAY)
    ticks = (micros * 3 + 5000) // 10_000
    days += ticks // DAY_TICKS - DAYS_1900
    return np.hstack([_bytes(days, 4), _bytes(ticks % DAY_TICKS, 4)])


def _datetime2(array: pa.Array, wire: WireType) -> Array:
    days, micros = np.divmod(_whole(array, "<i8"), DAY)
    return np.hstack([_clock(micros, wire.sql.scale or 0), _bytes(days + EPOCH_DAYS, 3)])


_FIXED: dict[str, Callable[[pa.Array, WireType], Array]] = {
    "bit": _bit,
    "decimal": _decimal,
    "numeric": _decimal,
    "uniqueidentifier": _uuid,
    "date": _date,
    "time": _time,
    "datetime2": _datetime2,
    "datetimeoffset": _datetimeoffset,
    "datetime": _datetime,
}


def _strings(array: pa.Array) -> tuple[bytes, Array]:
    """Bytes of all values, and where they part; nothing for NULL."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar("" if array.type == pa.string() else b"", array.type))
    _, offsets, data = array.buffers()
    parts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    joined = data.to_pybytes()[parts[0] : parts[-1]] if data is not None else b""
    return joined, parts - parts[0]


def _binary(array: pa.Array, _wire: WireType) -> tuple[Array, Array]:
    joined, parts = _strings(array)
    return np.frombuffer(joined, np.uint8), np.diff(parts)


def _text(array: pa.Array, wire: WireType) -> tuple[Array, Array]:
    """What a character takes follows from its first byte in UTF-8."""
    joined, parts = _strings(array)
    utf8 = np.frombuffer(joined, np.uint8)
    if wire.codec == UTF8:
        return utf8, np.diff(parts)
    units = ((utf8 & 0xC0) != 0x80).astype(np.int64)
    if wire.codec == WIDE:
        units += utf8 >= 0xF0
        units *= 2
    ends = np.concatenate([[0], np.cumsum(units)])
    return np.frombuffer(encode(joined.decode(), wire.codec), np.uint8), np.diff(ends[parts])


_VARIABLE: dict[str, Callable[[pa.Array, WireType], tuple[Array, Array]]] = {
    "varchar": _text,
    "nvarchar": _text,
    "varbinary": _binary,
}


def _variable(wire: WireType, array: pa.Array, data: Array, sizes: Array) -> Encoded:
    """Each value with what says its length; it is put together once more for that."""
    valid = _valid(array)
    in_parts = wire.layout is Layout.PARTS
    before = np.where(valid, 8 + 4 * (sizes > 0), 8) if in_parts else np.full(len(sizes), 2)
    after = np.where(valid, 4, 0) if in_parts else np.zeros(len(sizes), np.int64)
    total = before + sizes + after
    at = np.cumsum(total) - total
    out = np.zeros(int(total.sum()), np.uint8)
    _scatter(out, at + before, data, sizes)
    if in_parts:
        _lengths_of_parts(out, at, sizes, valid)
    else:
        heads = np.where(valid, sizes, 0xFFFF).astype("<u2")[:, None].view(np.uint8)
        _put(out, at, Encoded(heads, sizes, np.ones(len(at), bool)))
    return Encoded(out, total, valid)


def _lengths_of_parts(out: Array, at: Array, sizes: Array, valid: Array) -> None:
    everything = np.ones(len(at), bool)
    totals = np.where(valid, sizes, -1).astype("<i8")[:, None].view(np.uint8)
    _put(out, at, Encoded(totals, sizes, everything))
    some = valid & (sizes > 0)
    part = sizes.astype("<u4")[:, None].view(np.uint8)
    _put(out, at + 8, Encoded(part, sizes, some))
