"""How large a compressed Arrow batch says it will become, before anything is unpacked.

Arrow allocates what each compressed buffer claims, so a small message could ask for all memory.
The message metadata is a flatbuffer: a table begins with the distance back to its vtable, which
holds the length of itself and of the table, then the place of each field in the table.
"""

import struct
from collections.abc import Callable
from typing import Any

_HEADER_TYPE, _HEADER = 1, 2  # fields of Message
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # values of its header_type
_BUFFERS, _COMPRESSION = 2, 3  # fields of RecordBatch
_DATA = 1  # field of DictionaryBatch: a RecordBatch

_short: Callable[[Any, int], tuple[int]] = struct.Struct("<H").unpack_from
_int: Callable[[Any, int], tuple[int]] = struct.Struct("<i").unpack_from
_long: Callable[[Any, int], tuple[int]] = struct.Struct("<q").unpack_from
_BUFFER = struct.Struct("<qq")  # offset and length


def header_type(header: memoryview) -> int:
    """The kind of an Arrow message; 0 where it cannot be told."""
    try:
        place = _field(header, _int(header, 0)[0], _HEADER_TYPE)
        return header[place] if place else 0
    except (struct.error, IndexError):
        return 0


def unpacked_bytes(header: memoryview, body: memoryview) -> int:
    """The sum of what the buffers claim; 0 for a batch that is not compressed, or is broken."""
    try:
        message = _int(header, 0)[0]
        kind = header[_field(header, message, _HEADER_TYPE)]
        if kind not in (DICTIONARY_BATCH, RECORD_BATCH):
            return 0
        batch = _inner(header, message, _HEADER)
        if kind == DICTIONARY_BATCH:
            batch = _inner(header, batch, _DATA)
        return _claims(header, batch, body) if _field(header, batch, _COMPRESSION) else 0
    except (struct.error, IndexError):
        return 0


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a field of a table is; 0 for one that is not there."""
    vtable = table - _int(data, table)[0]
    slot = 4 + 2 * number
    if slot >= _short(data, vtable)[0]:
        return 0
    distance = _short(data, vtable + slot)[0]
    return table + distance if distance else 0


def _inner(data: memoryview, table: int, number: int) -> int:
    """Where the table is that a field refers to."""
    place = _field(data, table, number)
    return place + _int(data, place)[0]


def _claims(data: memoryview, batch: int, body: memoryview) -> int:
    vector = _inner(data, batch, _BUFFERS)
    start = vector + 4
    end = min(start + _int(data, vector)[0] * _BUFFER.size, len(data))
    claimed = 0
    for at in range(start, end - _BUFFER.size + 1, _BUFFER.size):
        offset, length = _BUFFER.unpack_from(data, at)
        if length > 0:  # a claim of -1: this buffer is not compressed
            claimed += max(0, _long(body, offset)[0])
    return claimed
