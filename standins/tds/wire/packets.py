"""Packets of TDS: a message cut into them, and whole ones taken from a stream of bytes.

A header is eight bytes: kind, status, length with header (big endian), session, number, window.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import NamedTuple

_HEADER = struct.Struct(">BBHHBB")
HEADER_SIZE = _HEADER.size
DEFAULT_SIZE = 4096
SMALLEST_SIZE, LARGEST_SIZE = 512, 32767


class Kind(IntEnum):
    BATCH = 1
    RPC = 3
    ANSWER = 4
    ATTENTION = 6
    BULK = 7
    TRANSACTION = 14
    LOGIN = 16
    PRELOGIN = 18


class Status(IntFlag):
    END = 0x01
    IGNORE = 0x02
    RESET = 0x08
    RESET_KEEPING_TRANSACTION = 0x10


class Packet(NamedTuple):
    kind: int
    status: int
    payload: bytes

    @property
    def ends(self) -> bool:
        return bool(self.status & Status.END)


class BadPacket(Exception):
    """The peer does not speak TDS, or lost its place."""


def agreed_size(asked: int) -> int:
    """The packet size for a login that asks for so much; 0 leaves it to the server."""
    if asked == 0:
        return DEFAULT_SIZE
    return min(max(asked, SMALLEST_SIZE), LARGEST_SIZE)


def packet(
    kind: int, status: int, payload: bytes | memoryview, number: int, spid: int = 0
) -> bytes:
    length = HEADER_SIZE + len(payload)
    return _HEADER.pack(kind, status, length, spid & 0xFFFF, number & 0xFF, 0) + payload


def cut(kind: int, payload: bytes | bytearray, size: int, spid: int = 0) -> Iterator[bytes]:
    """A whole message in packets of at most `size` bytes; the last one is marked."""
    body = size - HEADER_SIZE
    view = memoryview(payload)
    starts = range(0, max(len(payload), 1), body)
    for number, start in enumerate(starts, 1):
        status = Status.END if start == starts[-1] else 0
        yield packet(kind, status, view[start : start + body], number, spid)


class Unpacker:
    """Bytes as they come in, whole packets out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Packet]:
        data = self._rest + data if self._rest else data
        found: list[Packet] = []
        at, end = 0, len(data)
        while end - at >= HEADER_SIZE:
            kind, status, length, _spid, _number, _window = _HEADER.unpack_from(data, at)
            if length < HEADER_SIZE:
                raise BadPacket(f"a packet of {length} bytes")
            if end - at < length:
                break
            found.append(Packet(kind, status, data[at + HEADER_SIZE : at + length]))
            at += length
        self._rest = data[at:]
        return found

    @property
    def within(self) -> bool:
        """Some bytes of a packet are there and others are not."""
        return bool(self._rest)
