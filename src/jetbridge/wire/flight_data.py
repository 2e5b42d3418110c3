"""Reads and writes FlightData messages (protobuf around Arrow IPC) without protobuf's classes.

The bodies are large, and protobuf's classes would copy them two more times.
"""

from typing import NamedTuple

import pyarrow as pa

from jetbridge.errors import BadRequest
from jetbridge.wire.limits import MESSAGE_FIELDS

_DESCRIPTOR, _HEADER, _METADATA, _BODY = _FIELDS = (1, 2, 3, 1000)
_LENGTH_DELIMITED = 2
_HEADER_TAG = b"\x12"
_METADATA_TAG = b"\x1a"
_BODY_TAG = b"\xc2\x3e"
_MAX_VARINT_BITS = 63

# The metadata of answers by table in/out functions: more batches follow, or none.
CHUNK_CONTINUES, CHUNK_FINISHED = b"chunk_continues", b"chunk_finished"


class FlightData(NamedTuple):
    """Hold the parts of a message; None for a missing one."""

    descriptor: memoryview | None
    header: memoryview | None
    app_metadata: memoryview | None
    body: memoryview | None


def split(message: bytes) -> FlightData:
    """Return the parts of one FlightData message without copying them. Raises BadRequest."""
    view = memoryview(message)
    end = len(message)
    parts: dict[int, memoryview] = {}
    at = fields = 0
    try:
        while at < end:
            tag, at = _varint(message, at)
            length, at = _varint(message, at)
            fields += 1
            if fields > MESSAGE_FIELDS:
                raise BadRequest("the FlightData message is malformed")
            if tag & 7 != _LENGTH_DELIMITED:
                continue  # an unknown varint field, whose value was just read
            if at + length > end:
                raise BadRequest("the FlightData message is cut short")
            if tag >> 3 in _FIELDS:
                parts[tag >> 3] = view[at : at + length]
            at += length
    except IndexError as error:
        raise BadRequest("the FlightData message is cut short") from error
    return FlightData(
        parts.get(_DESCRIPTOR), parts.get(_HEADER), parts.get(_METADATA), parts.get(_BODY)
    )


def _varint(message: bytes, at: int) -> tuple[int, int]:
    byte = message[at]
    at += 1
    if byte < 0x80:  # noqa: PLR2004
        return byte, at
    value, shift = byte & 0x7F, 7
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value, at
        shift += 7
        if shift > _MAX_VARINT_BITS:
            raise BadRequest("the FlightData message is malformed")


def _length(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_schema(schema: pa.Schema) -> bytes:
    """Return the message with a schema."""
    header = memoryview(schema.serialize())[8:]
    return b"".join((_HEADER_TAG, _length(len(header)), header))


def encode_batch(batch: pa.RecordBatch, app_metadata: bytes = b"") -> bytes:
    """Return the message with a batch."""
    message = memoryview(batch.serialize())
    header_end = 8 + int.from_bytes(message[4:8], "little")
    header, body = message[8:header_end], message[header_end:]
    return b"".join((*_before_body(header, app_metadata, len(body)), body))


def _before_body(
    header: bytes | memoryview, app_metadata: bytes, body_size: int
) -> tuple[bytes | memoryview, ...]:
    metadata = (_METADATA_TAG, _length(len(app_metadata)), app_metadata) if app_metadata else ()
    return (
        *(_HEADER_TAG, _length(len(header)), header),
        *metadata,
        *(_BODY_TAG, _length(body_size)),
    )


class BatchEncoder:
    """Encode large batches of one schema, and copy the values only once, into the message.

    `encode_batch` copies them twice, but is faster for batches of a few thousand rows.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._parts: list[bytes | pa.Buffer] = []
        self._writer = pa.ipc.new_stream(pa.PythonFile(_Sink(self._parts), "w"), schema)
        self._wrote_schema = False

    def encode(self, batch: pa.RecordBatch, app_metadata: bytes = b"") -> bytes:
        """Return the message with a batch."""
        self._parts.clear()
        self._writer.write_batch(batch)
        header, body = _cut_header(self._parts)
        if not self._wrote_schema:  # Arrow writes the schema before the first batch
            header, body = _cut_header(body)
            self._wrote_schema = True
        size = sum(map(len, body))
        return b"".join((*_before_body(header, app_metadata, size), *body))


class _Sink:
    """Keep the pieces that Arrow writes to a file, most of them without a copy."""

    closed = False

    def __init__(self, parts: list[bytes | pa.Buffer]) -> None:
        self.write = parts.append

    def flush(self) -> None:
        """Do nothing: every write is kept at once."""


def _cut_header(parts: list[bytes | pa.Buffer]) -> tuple[bytes, list[bytes | pa.Buffer]]:
    """Return the header of the first message without its length, and the pieces after it."""
    start = b""
    for index, piece in enumerate(parts):
        if len(start) >= 8 and len(start) == 8 + int.from_bytes(start[4:8], "little"):  # noqa: PLR2004
            return start[8:], parts[index:]
        start += piece
    return start[8:], []


def encode_metadata(app_metadata: bytes) -> bytes:
    """Return a message that has metadata only."""
    return b"".join((_METADATA_TAG, _length(len(app_metadata)), app_metadata))
