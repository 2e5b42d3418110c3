"""Decodes and checks Arrow data of the other side: batches of streams, arguments of functions.

Each batch is checked completely before it is used: Arrow's functions trust offsets and indexes, and
read outside the buffers if these are wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.catalog import FunctionInfo
from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.runtime.array_sizes import expands, plain_bytes
from jetbridge.runtime.nested_types import attach_dictionaries, dictionary_types, index_type
from jetbridge.runtime.plain_layout import (
    is_plain_schema,
    plain_schema,
    plain_type,
    with_plain_dictionaries,
    write_plain,
)
from jetbridge.runtime.valid_batches import read_batches
from jetbridge.wire.flatbuffer import Malformed
from jetbridge.wire.flight_data import FlightData
from jetbridge.wire.ipc_headers import (
    DICTIONARY_BATCH,
    SCHEMA,
    Batch,
    check_batch,
    dictionary_ids,
    header_of_values,
    layout_of,
    read_message,
    split_stream,
    too_large,
)
from jetbridge.wire.limits import (
    DICTIONARY_DELTAS,
    DICTIONARY_WORK,
    REQUEST_LIMITS,
    InputLimits,
)
from jetbridge.wire.schemas import as_bad_request, encapsulate, read_schema_header

_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_UNREADABLE = "an Arrow record batch cannot be read"

Piece = bytes | memoryview


class _Group(NamedTuple):
    """Hold batches that have the same dictionaries, one for each field that has one."""

    pieces: list[Piece]
    dictionaries: tuple[pa.Array, ...]


class BatchDecoder:
    """Decode the batches of one stream, many of them in one IPC read.

    The batches have the plain layout: whatever the other side sends, nobody behind the decoder gets
    dictionaries, runs or views.
    """

    def __init__(self, schema_header: memoryview, limits: InputLimits = REQUEST_LIMITS) -> None:
        with as_bad_request("the Arrow schema cannot be read"):
            self._sent = read_schema_header(schema_header)
            self.schema: pa.Schema = plain_schema(self._sent)
            self._dictionaries = _Dictionaries(self._sent, schema_header, limits)
        self._limits, self._layout = limits, layout_of(self._sent)
        # Arrow reads the indexes of dictionaries as numbers.
        self._types = [with_plain_dictionaries(data_type) for data_type in self._sent.types]
        types = [index_type(data_type) for data_type in self._sent.types]
        self._prefix: tuple[Piece, ...] = encapsulate(schema_header)
        if types != self._sent.types:
            fields = [f.with_type(t) for f, t in zip(self._sent, types, strict=True)]
            self._prefix = (pa.schema(fields).serialize().to_pybytes(),)
        self._expanding = [i for i, data_type in enumerate(self._sent.types) if expands(data_type)]
        self._is_plain = is_plain_schema(self._sent)
        self._pending: list[_Group] = []
        self._pending_batches = self._pending_empty = 0
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
        if is_dictionary:
            self._dictionaries.add(batch, header, body)
            return
        if not batch.rows:
            self._pending_empty += 1
            return
        dictionaries = self._dictionaries.current()
        if not self._pending or self._pending[-1].dictionaries is not dictionaries:
            self._pending.append(_Group([], dictionaries))
        self._pending[-1].pieces.extend(encapsulate(header, body, message.body_bytes))
        self._pending_batches += 1
        self.pending_bytes += len(header) + max(len(body), batch.unpacked_bytes)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches that were fed since the last flush, checked completely.

        A single batch without rows is one of them: the client may wait for its answer.
        """
        if self._pending_empty == 1 and not self._pending_batches:
            yield self._empty
        groups, several = self._pending, self._pending_batches > 1
        self._pending, self._pending_batches, self._pending_empty = [], 0, 0
        self.pending_bytes = 0
        with as_bad_request(_UNREADABLE):
            for group in groups:
                stream = b"".join((*self._prefix, *group.pieces, _END_OF_STREAM))
                for batch in read_batches(stream, several):
                    yield self._plain(batch, group.dictionaries)

    @cached_property
    def _empty(self) -> pa.RecordBatch:
        columns = [pa.nulls(0, data_type) for data_type in self.schema.types]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _plain(self, batch: pa.RecordBatch, dictionaries: tuple[pa.Array, ...]) -> pa.RecordBatch:
        """Return the batch in the plain layout.

        Raise LimitExceeded before it is large. Each use of a value that is sent once counts.
        """
        if not self._expanding:
            return batch
        columns, total, used = batch.columns, 0, iter(dictionaries)
        for index in self._expanding:
            columns[index] = attach_dictionaries(columns[index], self._types[index], used)
            total += plain_bytes(columns[index], self.schema.field(index).type)
        if total > self._limits.unpacked_bytes:
            raise too_large(self._limits)
        if self._is_plain:
            return batch
        return pa.RecordBatch.from_arrays(list(map(write_plain, columns)), schema=self.schema)


class _Dictionaries:
    """Decode the dictionaries of a stream, each once, and keep the latest ones."""

    def __init__(self, schema: pa.Schema, header: memoryview, limits: InputLimits) -> None:
        # A dictionary may have more values than a batch may have rows.
        self._limits = replace(limits, batch_rows=2**31 - 1)
        types = [kind for data_type in schema.types for kind in dictionary_types(data_type)]
        self._ids = dictionary_ids(header) if types else []
        self._types: dict[int, pa.Schema] = {}
        for number, data_type in zip(self._ids, types, strict=True):
            values = pa.schema([("values", data_type.value_type)])
            if self._types.setdefault(number, values) != values:
                raise Malformed(f"columns of several types have the dictionary {number}")
        self._parts: dict[int, list[pa.Array]] = {
            number: [pa.nulls(0, plain_type(self._types[number].field(0).type))]
            for number in self._ids
        }
        self._sizes = dict.fromkeys(self._ids, 0)
        self._unused = self._deltas = self._sent = self._work = 0
        self._current: tuple[pa.Array, ...] | None = None

    def add(self, batch: Batch, header: memoryview, body: memoryview) -> None:
        """Decode a dictionary. A delta extends the one before, others replace it."""
        number, size = batch.dictionary, max(batch.unpacked_bytes, len(header) + len(body))
        if number not in self._parts:
            raise Malformed(f"no column has the dictionary {number}")
        self._deltas += batch.is_delta
        if self._deltas > DICTIONARY_DELTAS:
            raise LimitExceeded(
                f"the stream extends its dictionaries more than {DICTIONARY_DELTAS} times; send "
                "the values themselves"
            )
        self._unused += size
        self._sizes[number] = size + (self._sizes[number] if batch.is_delta else 0)
        self._refuse_too_large(max(self._unused, sum(self._sizes.values())))
        self._sent += len(header) + len(body)
        self._count_work(size)
        values = self._read(self._types[number], header_of_values(header), body)
        self._parts[number] = [*(self._parts[number] if batch.is_delta else ()), values]
        self._current = None

    def current(self) -> tuple[pa.Array, ...]:
        """Return the dictionary of each field that has one."""
        if self._current is None:
            for number, parts in self._parts.items():
                if len(parts) > 1:
                    self._count_work(self._sizes[number])
                    self._parts[number] = [pa.concat_arrays(parts)]
            self._current = tuple(self._parts[number][0] for number in self._ids)
        self._unused = 0
        return self._current

    def _read(self, schema: pa.Schema, header: memoryview, body: memoryview) -> pa.Array:
        message = read_message(header)
        check_batch(message, body, layout_of(schema), self._limits)
        pieces = encapsulate(header, body, message.body_bytes)
        stream = b"".join((schema.serialize(), *pieces, _END_OF_STREAM))
        [batch] = read_batches(stream, several=False)
        values = batch.column(0)
        if expands(values.type):
            self._refuse_too_large(plain_bytes(values, plain_type(values.type)))
        return write_plain(values)

    def _refuse_too_large(self, size: int) -> None:
        if size > self._limits.unpacked_bytes:
            raise LimitExceeded(
                f"the dictionaries take more than {self._limits.unpacked_bytes} bytes"
            )

    def _count_work(self, size: int) -> None:
        """Raise LimitExceeded if the server copies far more than is sent."""
        self._work += size
        if self._work > DICTIONARY_WORK * (self._limits.unpacked_bytes + self._sent):
            raise LimitExceeded(
                "the dictionaries of the stream unpack to far more than is sent; send the values "
                "themselves"
            )


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


@lru_cache(maxsize=1024)
def has_boolean_bytes(data_type: pa.DataType) -> bool:
    """Return whether the type is, or contains, `arrow.bool8`."""
    if isinstance(data_type, pa.Bool8Type):
        return True
    if isinstance(data_type, pa.BaseExtensionType):
        return has_boolean_bytes(data_type.storage_type)
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
    (pa.MapArray, lambda array: [array.keys, array.items]),
    (pa.StructArray, lambda array: list(array.flatten())),
    (pa.UnionArray, _members),
)
