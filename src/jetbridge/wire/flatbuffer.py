"""Reads flatbuffers of the other side, and checks that every offset points into the message.

A table begins with the distance back to its vtable. The vtable contains its own length, that of the
table, and the offset of each field in the table, 0 for a missing field.

This code reads every batch of an INSERT, so it makes few calls. All offsets but that of a vtable
point forward, and `struct` refuses to read behind the end.
"""

import struct
from collections.abc import Callable
from typing import Any

# The error of `struct` for a part outside the message.
OUTSIDE = struct.error

_Read = Callable[[Any, int], tuple[int]]
_read_byte: _Read = struct.Struct("<b").unpack_from
_read_short: _Read = struct.Struct("<h").unpack_from
_read_unsigned: _Read = struct.Struct("<H").unpack_from
_read_int: _Read = struct.Struct("<i").unpack_from
_read_offset: _Read = struct.Struct("<I").unpack_from
_read_long: _Read = struct.Struct("<q").unpack_from
_write_offset = struct.Struct("<I").pack_into
_OFFSET_BYTES, _LONG_BYTES = 4, 8
# No table of Arrow has as many fields.
_MOST_FIELDS = 32
_read_slots = tuple(struct.Struct(f"<{count}H").unpack_from for count in range(_MOST_FIELDS + 1))


class Malformed(ValueError):
    """Report bytes that are not the expected flatbuffer."""


class FlatTable:
    """Read a flatbuffer's table by the numbers of its fields. Raises Malformed and OUTSIDE."""

    __slots__ = ("_at", "_data", "_slots")

    def __init__(self, data: memoryview, at: int) -> None:
        vtable = at - _read_int(data, at)[0]
        if vtable < 0:
            raise Malformed("a table begins outside the message")
        count = (_read_unsigned(data, vtable)[0] - 4) // 2
        if not 0 <= count <= _MOST_FIELDS:
            raise Malformed("a table has no valid list of fields")
        self._data, self._at = data, at
        # Zeros behind the fields of the table: a field with a higher number is missing.
        self._slots: tuple[int, ...] = _read_slots[count](data, vtable + 4) + _NO_MORE

    def byte(self, number: int) -> int:
        slot = self._slots[number]
        return _read_byte(self._data, self._at + slot)[0] if slot else 0

    def short(self, number: int) -> int:
        slot = self._slots[number]
        return _read_short(self._data, self._at + slot)[0] if slot else 0

    def long(self, number: int) -> int:
        slot = self._slots[number]
        return _read_long(self._data, self._at + slot)[0] if slot else 0

    def table(self, number: int) -> "FlatTable | None":
        slot = self._slots[number]
        if not slot:
            return None
        start = self._at + slot
        return FlatTable(self._data, start + _read_offset(self._data, start)[0])

    def require(self, number: int) -> "FlatTable":
        table = self.table(number)
        if table is None:
            raise Malformed("a required part is missing")
        return table

    def replace_table(self, copy: bytearray, number: int, table: "FlatTable") -> None:
        """Make the field refer to another table, in a copy of the message."""
        start = self._at + self._slots[number]
        _write_offset(copy, start, table._at - start)

    def replace_byte(self, copy: bytearray, number: int, value: int) -> None:
        """Replace a byte, in a copy of the message."""
        copy[self._at + self._slots[number]] = value

    def tables(self, number: int) -> list["FlatTable"]:
        start, count = self._vector(number, _OFFSET_BYTES)
        offsets = struct.unpack_from(f"<{count}I", self._data, start)
        starts = range(start, start + count * _OFFSET_BYTES, _OFFSET_BYTES)
        return [
            FlatTable(self._data, begin + offset)
            for begin, offset in zip(starts, offsets, strict=True)
        ]

    def text(self, number: int) -> memoryview:
        start, count = self._vector(number, 1)
        return self._data[start : start + count]

    def length(self, number: int, item_bytes: int) -> int:
        """Return the number of items in a vector."""
        return self._vector(number, item_bytes)[1]

    def longs(self, number: int, per_item: int) -> tuple[int, ...]:
        """Return the numbers in a vector of 64-bit integers, or of structs of several integers."""
        start, count = self._vector(number, per_item * _LONG_BYTES)
        return struct.unpack_from(f"<{count * per_item}q", self._data, start)

    def _vector(self, number: int, item_bytes: int) -> tuple[int, int]:
        """Return where the items begin and how many there are, all of them inside the message."""
        slot = self._slots[number]
        if not slot:
            return 0, 0
        start = self._at + slot
        start += _read_offset(self._data, start)[0]
        count = _read_offset(self._data, start)[0]
        start += _OFFSET_BYTES
        if start + count * item_bytes > len(self._data):
            raise Malformed("a vector ends outside the message")
        return start, count


_NO_MORE = (0,) * 8


def root(data: memoryview) -> FlatTable:
    """Return the root table of a message."""
    return FlatTable(data, _read_offset(data, 0)[0])
