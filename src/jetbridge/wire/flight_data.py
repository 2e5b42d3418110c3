"""FlightData messages: protobuf around Arrow IPC, read and written by hand.

The bodies are large, and protobuf classes would copy them twice more.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.wire.compression import DICTIONARY_BATCH, header_type, unpacked_bytes
from jetbridge.wire.schemas import check_fields

_DESCRIPTOR, _HEADER, _METADATA, _BODY = 1, 2, 3, 1000
_LENGTH_DELIMITED = 2
_HEADER_TAG = b"\x12"
_METADATA_TAG = b"\x1a"
_BODY_TAG = b"\xc2\x3e"
_CONTINUATION = b"\xff\xff\xff\xff"
_END_OF_STREAM = _CONTINUATION + b"\0\0\0\0"
_PADDING = tuple(b"\0" * n for n in range(8))
_MAX_VARINT_BITS = 63
# One batch may not become larger than this, however well it is compressed.
_MOST_UNPACKED = 1024 * 1024 * 1024
_MOST_DICTIONARIES = 64 * 1024 * 1024
_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}


class FlightData(NamedTuple):
    descriptor: memoryview | None
    header: memoryview | None
    app_metadata: memoryview | None
    body: memoryview | None


def split(message: bytes) -> FlightData:
    """The parts of one FlightData message, without copying them."""
    view = memoryview(message)
    end = len(message)
    parts: dict[int, memoryview] = {}
    at = 0
    try:
        while at < end:
            tag, at = _varint(message, at)
            length, at = _varint(message, at)
            if tag & 7 != _LENGTH_DELIMITED:
                continue  # a varint field, unknown here: its value was just read
            if at + length > end:
                raise BadRequest("the FlightData message is cut short")
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
    header = memoryview(schema.serialize())[8:]
    return b"".join((_HEADER_TAG, _length(len(header)), header))


def encode_batch(batch: pa.RecordBatch, app_metadata: bytes = b"") -> bytes:
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
    """Large batches of one schema as FlightData: the values are copied once, into the message.

    `encode_batch` copies them twice, but is quicker for a few thousand rows.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._written: list[bytes | pa.Buffer] = []
        self._writer = pa.ipc.new_stream(pa.PythonFile(_Sink(self._written), "w"), schema)
        self._wrote_schema = False

    def encode(self, batch: pa.RecordBatch, app_metadata: bytes = b"") -> bytes:
        self._written.clear()
        self._writer.write_batch(batch)
        header, body = _cut_header(self._written)
        if not self._wrote_schema:  # it comes before the first batch
            header, body = _cut_header(body)
            self._wrote_schema = True
        size = sum(map(len, body))
        return b"".join((*_before_body(header, app_metadata, size), *body))


class _Sink:
    """A file that keeps what Arrow writes as it is, most of it without a copy."""

    closed = False

    def __init__(self, written: list[bytes | pa.Buffer]) -> None:
        self.write = written.append

    def flush(self) -> None:
        """Nothing is held back."""


def _cut_header(written: list[bytes | pa.Buffer]) -> tuple[bytes, list[bytes | pa.Buffer]]:
    """The header of the first message without its length, and what follows it."""
    start = b""
    for index, piece in enumerate(written):
        if len(start) >= 8 and len(start) == 8 + int.from_bytes(start[4:8], "little"):  # noqa: PLR2004
            return start[8:], written[index:]
        start += piece
    return start[8:], []


def encode_metadata(app_metadata: bytes) -> bytes:
    return b"".join((_METADATA_TAG, _length(len(app_metadata)), app_metadata))


class BatchDecoder:
    """Arrow batches out of FlightData messages, many at a time: one IPC read for all of them."""

    def __init__(self, schema_header: memoryview) -> None:
        self._prefix = _encapsulate(schema_header, memoryview(b""))
        with _as_bad_request("the Arrow schema cannot be read"):
            self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(b"".join(self._prefix)))
            check_fields(self.schema)
        self._has_dictionaries = _mentions_dictionary(self.schema)
        self._dictionaries: list[bytes | memoryview] = []
        self._pending: list[bytes | memoryview] = []
        self.pending_bytes = 0

    def feed(self, data: FlightData) -> None:
        if data.header is None:
            raise BadRequest("a FlightData message without an Arrow header came between batches")
        body = data.body if data.body is not None else memoryview(b"")
        if unpacked_bytes(data.header, body) > _MOST_UNPACKED:
            raise LimitExceeded(f"a batch unpacks to more than {_MOST_UNPACKED} bytes")
        pieces = _encapsulate(data.header, body)
        if self._has_dictionaries and header_type(data.header) == DICTIONARY_BATCH:
            # Later reads start afresh and need every dictionary sent so far.
            self._dictionaries.extend(pieces)
            if sum(map(len, self._dictionaries)) > _MOST_DICTIONARIES:
                raise LimitExceeded(f"the dictionaries take more than {_MOST_DICTIONARIES} bytes")
        self._pending.extend(pieces)
        self.pending_bytes += len(data.header) + len(body)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The batches fed since the last flush, checked: broken offsets would crash readers."""
        if not self._pending:
            return
        known = self._dictionaries if self._has_dictionaries else ()
        stream = b"".join((*self._prefix, *known, *self._pending, _END_OF_STREAM))
        several = len(self._pending) > len(self._prefix)
        self._pending, self.pending_bytes = [], 0
        with _as_bad_request("an Arrow record batch cannot be read"):
            reader = pa.ipc.open_stream(pa.py_buffer(stream))
            if several:
                yield from _read_many(reader)
            else:  # also one without rows: it may be waiting for its answer
                for batch in reader:
                    _validate(batch)
                    yield batch


def _read_many(reader: pa.ipc.RecordBatchStreamReader) -> list[pa.RecordBatch]:
    """All batches in three calls: each gives up Python's lock, and waits to get it back."""
    table = reader.read_all()
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        for batch in table.to_batches():
            _validate(batch)
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches


def _validate(batch: pa.RecordBatch) -> None:
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        # TIME '24:00:00' is a value of DuckDB, and out of range to Arrow.
        for column in batch.columns:
            _without_last_moment(column).validate(full=True)


def _without_last_moment(column: pa.Array) -> pa.Array:
    """A column of times with NULL for 24:00:00; any other as it is."""
    if not pa.types.is_time64(column.type):
        return column
    column.validate()
    numbers = column.view(pa.int64())
    last = pa.scalar(_DAY[column.type.unit], pa.int64())
    kept = pc.if_else(pc.equal(numbers, last), pa.scalar(None, pa.int64()), numbers)
    return kept.view(column.type)


def _encapsulate(header: memoryview, body: memoryview) -> tuple[bytes | memoryview, ...]:
    padding = -len(header) % 8
    size = (len(header) + padding).to_bytes(4, "little")
    return (_CONTINUATION + size, header, _PADDING[padding], body, _PADDING[-len(body) % 8])


def _mentions_dictionary(schema: pa.Schema) -> bool:
    return any(_has_dictionary(field.type) for field in schema)


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


class _as_bad_request:  # noqa: N801
    """Arrow's own errors as one sentence; a contextmanager would cost more per batch."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (pa.ArrowException, OSError, ValueError, MemoryError, TypeError)):
            raise BadRequest(f"{self._sentence}: {str(error).splitlines()[0][:200]}") from error
