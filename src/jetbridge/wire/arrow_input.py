"""Decodes and checks Arrow data of the other side: batches of streams, arguments of functions.

Each batch is checked completely before it is used: Arrow's functions trust offsets and indexes, and
read outside the buffers if these are wrong.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.catalog import FunctionInfo
from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.runtime.array_sizes import expands, plain_bytes
from jetbridge.wire.flight_data import FlightData
from jetbridge.wire.ipc_headers import (
    DICTIONARY_BATCH,
    SCHEMA,
    Batch,
    check_batch,
    layout_of,
    read_message,
    split_stream,
    too_large,
)
from jetbridge.wire.limits import REQUEST_LIMITS, InputLimits
from jetbridge.wire.schemas import as_bad_request, encapsulate, read_schema_header, wire_type

_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_UNREADABLE = "an Arrow record batch cannot be read"

Pieces = tuple[bytes | memoryview, ...]


class BatchDecoder:
    """Decode the batches of one stream, many of them in one IPC read."""

    def __init__(self, schema_header: memoryview, limits: InputLimits = REQUEST_LIMITS) -> None:
        with as_bad_request("the Arrow schema cannot be read"):
            self.schema: pa.Schema = read_schema_header(schema_header)
        self._limits, self._layout = limits, layout_of(self.schema)
        self._prefix = encapsulate(schema_header)
        self._expanding = [i for i, data_type in enumerate(self.schema.types) if expands(data_type)]
        self._dictionaries = _Dictionaries(limits)
        self._pending: list[bytes | memoryview] = []
        self._pending_batches = 0
        self.pending_bytes = 0  # their size once they are unpacked

    def feed(self, data: FlightData) -> None:
        """Take the next message. Raises BadRequest or LimitExceeded if it is not valid."""
        if data.header is None:
            raise BadRequest("a FlightData message between batches has no Arrow header")
        with as_bad_request(_UNREADABLE):
            self.feed_message(data.header, data.body if data.body is not None else memoryview(b""))

    def feed_message(self, header: memoryview, body: memoryview) -> None:
        """Take the header and body of the next message. Raises Arrow's errors, too."""
        message = read_message(header)
        if message.type == SCHEMA:
            raise BadRequest("the stream has a second Arrow schema between batches")
        if message.body_bytes > len(body) + -len(body) % 8:
            raise BadRequest(f"{_UNREADABLE}: its body is cut short")
        is_dictionary = message.type == DICTIONARY_BATCH
        batch = check_batch(message, body, None if is_dictionary else self._layout, self._limits)
        pieces = encapsulate(header, body, message.body_bytes)
        if is_dictionary:
            self._dictionaries.add(batch, pieces)
        self._pending.extend(pieces)
        self._pending_batches += not is_dictionary
        self.pending_bytes += len(header) + max(len(body), batch.unpacked_bytes)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches that were fed since the last flush, checked completely."""
        if not self._pending_batches:  # a dictionary waits for its batch
            return
        # A table without columns has no batches either.
        several = self._pending_batches > 1 and bool(self.schema.names)
        stream = b"".join(
            (*self._prefix, *self._dictionaries.dictionaries(), *self._pending, _END_OF_STREAM)
        )
        self._pending, self._pending_batches, self.pending_bytes = [], 0, 0
        self._dictionaries.settle()
        with as_bad_request(_UNREADABLE):
            reader = pa.ipc.open_stream(pa.py_buffer(stream))
            if several:
                for batch in _read_many(reader):
                    self._refuse_too_large(batch)
                    yield batch
            else:  # also a batch without rows: the client may wait for its answer
                for batch in reader:
                    _validate(batch)
                    self._refuse_too_large(batch)
                    yield batch

    def _refuse_too_large(self, batch: pa.RecordBatch) -> None:
        """Raise LimitExceeded for a large batch. Each use of a value that is sent once counts."""
        total = 0
        for index in self._expanding:
            column = batch.column(index)
            total += plain_bytes(column, wire_type(column.type))
        if total > self._limits.unpacked_bytes:
            raise too_large(self._limits)


class _Dictionaries:
    """Keep the dictionaries of a stream, because each IPC read needs all of them again."""

    def __init__(self, limits: InputLimits) -> None:
        self._most_bytes = limits.unpacked_bytes
        self._known: dict[int, list[tuple[Pieces, int]]] = {}
        self._pending: list[tuple[Batch, Pieces]] = []
        self._bytes = 0

    def add(self, batch: Batch, pieces: Pieces) -> None:
        self._bytes += self._size(pieces, batch)
        if self._bytes > self._most_bytes:
            raise LimitExceeded(f"the dictionaries take more than {self._most_bytes} bytes")
        self._pending.append((batch, pieces))

    def dictionaries(self) -> Iterator[bytes | memoryview]:
        """Yield the dictionaries as they were before the pending messages."""
        for parts in self._known.values():
            for pieces, _ in parts:
                yield from pieces

    def settle(self) -> None:
        """Keep the pending dictionaries. A delta extends the one before, others replace it."""
        for batch, pieces in self._pending:
            if not batch.is_delta:
                self._bytes -= sum(size for _, size in self._known.pop(batch.dictionary, ()))
            parts = self._known.setdefault(batch.dictionary, [])
            parts.append((pieces, self._size(pieces, batch)))
        self._pending = []

    @staticmethod
    def _size(pieces: Pieces, batch: Batch) -> int:
        return max(batch.unpacked_bytes, sum(map(len, pieces)))


def read_stream(data: bytes | memoryview, limits: InputLimits) -> list[pa.RecordBatch]:
    """Return the batches of an IPC stream. Raises Arrow's errors, too."""
    messages = split_stream(memoryview(data))
    header, _ = next(messages, (memoryview(b""), None))
    decoder = BatchDecoder(header, limits)
    for header, body in messages:
        decoder.feed_message(header, body)
        if decoder.pending_bytes > limits.unpacked_bytes:
            raise too_large(limits)
    return list(decoder.flush())


def read_arguments(data: bytes, limits: InputLimits = REQUEST_LIMITS) -> pa.RecordBatch:
    """Return the one row of arguments in an IPC stream; empty without arguments.

    Raises BadRequest and LimitExceeded.
    """
    sentence = "the function's arguments are not an Arrow IPC stream"
    try:
        with as_bad_request(sentence):
            batches = read_stream(data, limits) if data else []
    except BadRequest as error:
        reason = str(error)
        if reason.startswith(sentence):
            raise
        raise BadRequest(f"{sentence}: {reason}") from error
    with_rows = [batch for batch in batches if batch.num_rows]
    rows = sum(batch.num_rows for batch in with_rows)
    if rows == 1:
        return with_rows[0]
    if any(batch.num_columns for batch in batches):
        raise BadRequest(f"the function's arguments must be one row, not {rows}")
    return pa.RecordBatch.from_pydict({})


def cast_arguments(arguments: pa.RecordBatch, info: FunctionInfo) -> pa.RecordBatch:
    """Return the arguments with the types of the parameters; a client may send string views."""
    types = {parameter.name: parameter.type for parameter in info.parameters}
    columns = [
        _cast_argument(column, types.get(name), f"argument {name!r} of function {info.name!r}")
        for name, column in zip(arguments.schema.names, arguments.columns, strict=True)
    ]
    # Rebuild the batch only if a type differs, because a rebuilt batch without columns has no rows.
    if all(new is old for new, old in zip(columns, arguments.columns, strict=True)):
        return arguments
    return pa.RecordBatch.from_arrays(columns, arguments.schema.names)


def _cast_argument(column: pa.Array, data_type: pa.DataType | None, title: str) -> pa.Array:
    if data_type is None or column.type == data_type or isinstance(column, pa.ExtensionArray):
        return column
    try:
        if _is_text(column.type) is not _is_text(data_type):
            raise pa.ArrowNotImplementedError("a string is not a number")
        return column.cast(data_type)
    except pa.ArrowException as error:
        raise BadRequest(f"{title} must be {data_type}, not {str(column.type)[:100]}") from error


def _is_text(data_type: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(data_type) for test in tests)


def _read_many(reader: pa.ipc.RecordBatchStreamReader) -> list[pa.RecordBatch]:
    """Read all batches in three calls. Each releases Python's lock and waits to get it back."""
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
        # TIME '24:00:00' is a value in DuckDB, and out of range in Arrow.
        for column in batch.columns:
            _without_last_moment(column).validate(full=True)


def _without_last_moment(column: pa.Array) -> pa.Array:
    """Return a column of times with NULL for 24:00:00, and any other column as it is."""
    if not pa.types.is_time64(column.type):
        return column
    column.validate()
    numbers = column.view(pa.int64())
    last = pa.scalar(_DAY[column.type.unit], pa.int64())
    others = pc.if_else(pc.equal(numbers, last), pa.scalar(None, pa.int64()), numbers)
    return others.view(column.type)


@lru_cache(maxsize=1024)
def has_boolean_bytes(data_type: pa.DataType) -> bool:
    """Return whether the type is, or contains, `arrow.bool8`."""
    if isinstance(data_type, pa.Bool8Type):
        return True
    if isinstance(data_type, pa.BaseExtensionType):
        return has_boolean_bytes(data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return has_boolean_bytes(data_type.value_type)
    return any(has_boolean_bytes(data_type.field(i).type) for i in range(data_type.num_fields))


def check_boolean_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch. Raises BadRequest for a BOOLEAN that is neither true nor false.

    With `arrow_lossless_conversion`, DuckDB sends a BOOLEAN as a byte (`arrow.bool8`). For
    constants and defaults it sends the first byte and then random memory: the values are lost.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for values in _boolean_bytes(column):
            largest = pc.max(values.view(pa.uint8())).as_py()
            if largest is not None and largest > 1:
                raise BadRequest(
                    f"column {name!r}: the client sent the byte {largest} for a BOOLEAN, as DuckDB "
                    "does for constants and defaults; run SET arrow_lossless_conversion = false, "
                    "then the statement again"
                )
    return batch


def _boolean_bytes(array: Any) -> Iterator[pa.Array]:
    """Yield the bytes of an array and of all arrays in it, without those inside of NULLs."""
    if not has_boolean_bytes(array.type):
        return
    if isinstance(array.type, pa.Bool8Type):
        yield array.storage
        return
    children = next(
        (read for array_type, read in _CHILDREN if isinstance(array, array_type)), _elements
    )
    for child in children(array):
        yield from _boolean_bytes(child)


def _elements(array: Any) -> list[Any]:
    return [array.flatten()]


def _members(array: Any) -> list[Any]:
    members = [array.field(i) for i in range(array.type.num_fields)]
    if array.type.mode == "dense":
        return members
    type_codes = array.type_codes
    codes = array.type.type_codes
    return [
        member.filter(pc.equal(type_codes, pa.scalar(code, pa.int8())))
        for member, code in zip(members, codes, strict=True)
    ]


_CHILDREN: tuple[tuple[type, Callable[[Any], list[Any]]], ...] = (
    (pa.ExtensionArray, lambda array: [array.storage]),
    (pa.DictionaryArray, lambda array: [array.dictionary]),
    (pa.RunEndEncodedArray, lambda array: [array.values]),
    (pa.MapArray, lambda array: [array.keys, array.items]),
    (pa.StructArray, lambda array: list(array.flatten())),
    (pa.UnionArray, _members),
)
