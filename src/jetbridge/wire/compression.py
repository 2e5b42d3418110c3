"""How large a compressed Arrow batch says it will become, before anything is unpacked.

Arrow allocates what each compressed buffer claims, so a small message could ask for all memory.
The message metadata is a flatbuffer: a table begins with the distance back to its vtable, which
holds the place of each field.
"""

from typing import NamedTuple

_HEADER_TYPE, _HEADER = 1, 2  # fields of Message
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # values of its header_type
_BUFFERS, _COMPRESSION = 2, 3  # fields of RecordBatch
_DATA = 1  # field of DictionaryBatch: a RecordBatch
_BUFFER_BYTES = 16  # a struct of offset and length


class _Table(NamedTuple):
    data: memoryview
    at: int

    def place(self, field: int) -> int:
        """Where a field is; 0 for one that is not there."""
        vtable = self.at - _number(self.data, self.at, signed=True)
        slot = vtable + 4 + 2 * field
        if slot + 2 > vtable + int.from_bytes(self.data[vtable : vtable + 2], "little"):
            return 0
        distance = int.from_bytes(self.data[slot : slot + 2], "little")
        return self.at + distance if distance else 0

    def table(self, field: int) -> "_Table":
        place = self.place(field)
        return _Table(self.data, place + _number(self.data, place))


def header_type(header: memoryview) -> int:
    """The kind of an Arrow message; 0 where it cannot be told."""
    try:
        place = _message(header).place(_HEADER_TYPE)
        return header[place] if place else 0
    except (IndexError, ValueError):
        return 0


def unpacked_bytes(header: memoryview, body: memoryview) -> int:
    """The sum of what the buffers claim; 0 for a batch that is not compressed, or is broken."""
    kind = header_type(header)
    if kind not in (DICTIONARY_BATCH, RECORD_BATCH):
        return 0
    try:
        batch = _message(header).table(_HEADER)
        if kind == DICTIONARY_BATCH:
            batch = batch.table(_DATA)
        return _claims(batch, body) if batch.place(_COMPRESSION) else 0
    except (IndexError, ValueError):
        return 0


def _claims(batch: _Table, body: memoryview) -> int:
    place = batch.place(_BUFFERS)
    vector = place + _number(batch.data, place)
    count = _number(batch.data, vector)
    claimed = 0
    for index in range(min(count, len(batch.data) // _BUFFER_BYTES)):
        at = vector + 4 + index * _BUFFER_BYTES
        offset = int.from_bytes(batch.data[at : at + 8], "little")
        length = int.from_bytes(batch.data[at + 8 : at + 16], "little")
        if length:  # -1: this buffer is not compressed
            claimed += max(0, int.from_bytes(body[offset : offset + 8], "little", signed=True))
    return claimed


def _message(header: memoryview) -> _Table:
    return _Table(header, _number(header, 0))


def _number(data: memoryview, at: int, signed: bool = False) -> int:
    if not 0 <= at <= len(data) - 4:
        raise ValueError("outside the message")
    return int.from_bytes(data[at : at + 4], "little", signed=signed)
