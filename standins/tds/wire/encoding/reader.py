"""A place in some bytes, and the numbers and names found there."""

import struct

_U16, _U32, _U64 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")


class TooShort(Exception):
    """The bytes end where more were announced."""


class Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise TooShort(f"{count} bytes wanted at {self.at}, {self.left} are there")
        start, self.at = self.at, self.at + count
        return self.data[start : self.at]

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int(_U16.unpack(self.take(2))[0])

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.take(8))[0])

    def wide(self, characters: int) -> str:
        return self.take(2 * characters).decode("utf-16-le", "replace")

    def short_text(self) -> str:
        """B_VARCHAR: its length in one byte."""
        return self.wide(self.u8())

    def long_text(self) -> str:
        """US_VARCHAR: its length in two bytes."""
        return self.wide(self.u16())


def after_headers(data: bytes) -> tuple[int, Reader]:
    """ALL_HEADERS of a request: the transaction it says it belongs to, and what comes after."""
    total = Reader(data).u32()
    reader = Reader(data, 4)
    transaction = 0
    while reader.at < total:
        start, length = reader.at, reader.u32()
        if reader.u16() == 2:  # the transaction descriptor header
            transaction = reader.u64()
        reader.at = start + max(length, 6)
    if reader.at != total or total > len(data):
        raise TooShort("the headers of the request do not fit their length")
    return transaction, reader
