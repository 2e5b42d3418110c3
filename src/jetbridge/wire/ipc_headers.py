"""Checks the headers of Arrow IPC messages before Arrow reads them.

Arrow checks that a header is a flatbuffer and, on request, that values are inside their buffers. It
does not check how much memory a header makes it use: it allocates the size that a compressed buffer
claims, creates a field for each reference to one, and trusts the length of an array without
buffers. Here a message is refused by its header, before Arrow reads it.
"""

import struct
from collections.abc import Iterator
from operator import add, gt
from typing import NamedTuple

import pyarrow as pa

from jetbridge.errors import LimitExceeded
from jetbridge.wire.flatbuffer import FlatTable, Malformed, root
from jetbridge.wire.limits import (
    SCHEMA_DEPTH,
    SCHEMA_FIELDS,
    SCHEMA_TEXT_BYTES,
    WEIGHTLESS_BYTES,
    InputLimits,
)

SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3  # values of header_type
_V4, _V5 = 3, 4  # values of version
_ZSTD = 1  # the last value of codec, after LZ4_FRAME
_TIMESTAMP, _UNION = 10, 14  # values of type_type

# The numbers of fields in each table of Arrow's Message.fbs and Schema.fbs.
_VERSION, _HEADER_TYPE, _HEADER, _BODY_LENGTH, _MESSAGE_METADATA = range(5)
_ENDIANNESS, _FIELDS, _SCHEMA_METADATA = range(3)
_NAME, _, _TYPE_TYPE, _TYPE, _DICTIONARY, _CHILDREN, _FIELD_METADATA = range(7)
_KEY, _VALUE = range(2)
_LENGTH, _NODES, _BUFFERS, _COMPRESSION, _VIEW_BUFFERS = range(5)
_ID, _DATA, _IS_DELTA = range(3)
_CODEC, _METHOD = range(2)
_TYPE_EXTRA = 1  # the time zone of a timestamp, the type ids of a union
_NODE_LONGS = _BUFFER_LONGS = 2

# The approximate memory of a pair of empty strings.
_PAIR_BYTES = 128
_CONTINUATION = b"\xff\xff\xff\xff"
_claim = struct.Struct("<q")
_size = struct.Struct("<i")
_NOT_COMPRESSED = -1
# The key under which Arrow 0.17 wrote the codec; later versions still read it in messages of V4.
_OLD_COMPRESSION = b"ARROW:experimental_compression"
_EXTENSION_NAME = b"ARROW:extension:name"
# Old versions of pyarrow unpickle the metadata of such a type.
_PICKLED = b"arrow.py_extension_type"


class Message(NamedTuple):
    """Hold a message. Its `type` is that of `table`: Schema, RecordBatch or DictionaryBatch."""

    type: int
    version: int
    body_bytes: int
    table: FlatTable


class Layout(NamedTuple):
    """Count the nodes and buffers of a batch.

    `views` is the number of nodes with view buffers. `more_in_v4` is the number of arrays with one
    more buffer, their validity, in the format V4. `weightless` has the positions of nodes whose
    arrays may have any length without bytes of their own.
    """

    nodes: int
    buffers: int
    views: int
    more_in_v4: int
    weightless: tuple[int, ...]


class Batch(NamedTuple):
    """Hold what the header of a batch says: its size, and the dictionary that it belongs to."""

    unpacked_bytes: int
    rows: int
    dictionary: int
    is_delta: bool


def read_message(header: memoryview) -> Message:
    """Read the header of a message. Raises Malformed."""
    table = root(header)
    version, message_type = table.short(_VERSION), table.byte(_HEADER_TYPE)
    if version not in (_V4, _V5):
        raise Malformed("the version of the Arrow format is not V4 or V5")
    if message_type not in (SCHEMA, DICTIONARY_BATCH, RECORD_BATCH):
        raise Malformed("the message is neither a schema nor a batch")
    body_bytes = table.long(_BODY_LENGTH)
    if body_bytes < 0:
        raise Malformed("the body has a negative length")
    if table.length(_MESSAGE_METADATA, 4):
        _SchemaCheck().metadata(table, _MESSAGE_METADATA)
    return Message(message_type, version, body_bytes, table.require(_HEADER))


def check_schema(message: Message) -> None:
    """Check the header of a schema. Raises Malformed and LimitExceeded."""
    if message.type != SCHEMA:
        raise Malformed("the message is not a schema")
    if message.table.short(_ENDIANNESS):
        raise Malformed("big-endian data is not supported")
    check = _SchemaCheck()
    check.metadata(message.table, _SCHEMA_METADATA)
    check.children(message.table, _FIELDS, 1)


def dictionary_ids(header: memoryview) -> list[int]:
    """Return the number of each dictionary of a checked schema, in the order of the fields."""
    return list(_dictionary_ids(read_message(header).table.tables(_FIELDS)))


def _dictionary_ids(fields: list[FlatTable]) -> Iterator[int]:
    for field in fields:
        dictionary = field.table(_DICTIONARY)
        if dictionary is not None:
            yield dictionary.long(_ID)
        else:
            yield from _dictionary_ids(field.tables(_CHILDREN))


def header_of_values(header: memoryview) -> memoryview:
    """Return the header of a dictionary as that of a batch, whose only column are its values.

    Check it again: a header that is not proper may change in other parts, too.
    """
    message, copy = root(header), bytearray(header)
    message.replace_table(copy, _HEADER, message.require(_HEADER).require(_DATA))
    message.replace_byte(copy, _HEADER_TYPE, RECORD_BATCH)
    return memoryview(bytes(copy))


class _SchemaCheck:
    """Count the fields and texts of a schema; one that it refers to twice counts twice."""

    def __init__(self) -> None:
        self._fields = self._text = 0

    def children(self, table: FlatTable, number: int, depth: int) -> None:
        count = table.length(number, 4)
        self._fields += count
        if self._fields > SCHEMA_FIELDS:
            raise LimitExceeded(f"a schema has more than {SCHEMA_FIELDS} fields")
        if count and depth > SCHEMA_DEPTH:
            raise LimitExceeded(f"a schema has types nested deeper than {SCHEMA_DEPTH} levels")
        for field in table.tables(number):
            self._field(field, depth)

    def _field(self, field: FlatTable, depth: int) -> None:
        self._count(len(field.text(_NAME)))
        if field.byte(_TYPE_TYPE) in (_TIMESTAMP, _UNION):
            table = field.require(_TYPE)
            item_bytes = 1 if field.byte(_TYPE_TYPE) == _TIMESTAMP else 4
            self._count(table.length(_TYPE_EXTRA, item_bytes) * item_bytes)
        self.metadata(field, _FIELD_METADATA)
        self.children(field, _CHILDREN, depth + 1)

    def metadata(self, table: FlatTable, number: int) -> None:
        self._count(_PAIR_BYTES * table.length(number, 4))
        for pair in table.tables(number):
            key, value = pair.text(_KEY), pair.text(_VALUE)
            self._count(len(key) + len(value))
            if key == _OLD_COMPRESSION:
                raise Malformed("compression of Arrow 0.17 is not supported; use a newer Arrow")
            if key == _EXTENSION_NAME and value == _PICKLED:
                raise Malformed("extension types that are pickled are not supported")

    def _count(self, text_bytes: int) -> None:
        self._text += text_bytes
        if self._text > SCHEMA_TEXT_BYTES:
            raise LimitExceeded(
                f"names and metadata of a schema take more than {SCHEMA_TEXT_BYTES} bytes"
            )


def check_batch(
    message: Message, body: memoryview, layout: Layout | None, limits: InputLimits
) -> Batch:
    """Check a batch, or a dictionary if `layout` is None. Raises Malformed and LimitExceeded."""
    batch, dictionary, is_delta = message.table, 0, False
    if message.type == DICTIONARY_BATCH:
        dictionary, is_delta = batch.long(_ID), bool(batch.byte(_IS_DELTA))
        batch = batch.require(_DATA)
    nodes = batch.longs(_NODES, _NODE_LONGS)
    buffers = batch.longs(_BUFFERS, _BUFFER_LONGS)
    views = batch.longs(_VIEW_BUFFERS, 1)
    rows = batch.long(_LENGTH)
    _check_rows(rows, message.type, limits)
    _check_nodes(nodes, limits)
    if layout is not None:
        _check_counts(message.version, nodes, buffers, views, layout)
    _check_buffers(buffers, message.body_bytes)
    compression = batch.table(_COMPRESSION)
    if compression is None:
        unpacked = sum(buffers[1::2])
    else:
        if not 0 <= compression.byte(_CODEC) <= _ZSTD or compression.byte(_METHOD):
            raise Malformed("the compression is neither LZ4_FRAME nor ZSTD")
        unpacked = _count_unpacked_bytes(buffers, body)
    unpacked += _weightless_bytes(nodes, layout)
    if unpacked > limits.unpacked_bytes:
        raise too_large(limits)
    return Batch(unpacked, rows, dictionary, is_delta)


def too_large(limits: InputLimits) -> LimitExceeded:
    """Return the error for a batch that needs too much memory."""
    return LimitExceeded(
        f"a batch unpacks to more than {limits.unpacked_bytes} bytes (limits.message_bytes); "
        "send smaller batches"
    )


def _check_rows(rows: int, message_type: int, limits: InputLimits) -> None:
    if rows < 0:
        raise Malformed("a batch has a negative number of rows")
    if message_type == RECORD_BATCH and rows > limits.batch_rows:
        raise LimitExceeded(
            f"a batch of {rows} rows is over limits.batch_rows ({limits.batch_rows}); "
            "send smaller batches"
        )


def _check_nodes(nodes: tuple[int, ...], limits: InputLimits) -> None:
    lengths, nulls = nodes[0::2], nodes[1::2]
    if nodes and (min(nodes) < 0 or any(map(gt, nulls, lengths))):
        raise Malformed("an array has a negative length, or more NULLs than values")
    # A value that takes any memory takes at least a bit.
    if nodes and max(lengths) > 8 * limits.unpacked_bytes:
        raise too_large(limits)


def _weightless_bytes(nodes: tuple[int, ...], layout: Layout | None) -> int:
    positions = layout.weightless if layout else ()
    return WEIGHTLESS_BYTES * sum(nodes[_NODE_LONGS * position] for position in positions)


def _check_counts(
    version: int,
    nodes: tuple[int, ...],
    buffers: tuple[int, ...],
    views: tuple[int, ...],
    layout: Layout,
) -> None:
    expected = layout.buffers + sum(views) + (layout.more_in_v4 if version == _V4 else 0)
    counts = (len(nodes) // _NODE_LONGS, len(buffers) // _BUFFER_LONGS, len(views))
    if counts != (layout.nodes, expected, layout.views) or any(count < 0 for count in views):
        raise Malformed("the arrays and buffers of a batch are not those of its schema")


def _check_buffers(buffers: tuple[int, ...], body_bytes: int) -> None:
    """Raise Malformed for buffers outside the body, and for buffers that overlap."""
    if not buffers:
        return
    offsets, lengths = buffers[0::2], buffers[1::2]
    if min(buffers) < 0 or max(map(add, offsets, lengths)) > body_bytes:
        raise Malformed("a buffer is outside the body")
    if sum(lengths) > body_bytes:
        raise Malformed("the buffers of a batch overlap")


def _count_unpacked_bytes(buffers: tuple[int, ...], body: memoryview) -> int:
    """Return the size of all buffers. Each begins with its unpacked size; -1 if not compressed."""
    total = 0
    for offset, length in zip(buffers[0::2], buffers[1::2], strict=True):
        if not length:
            continue
        if length < _claim.size or offset + _claim.size > len(body):
            raise Malformed("a compressed buffer is cut short")
        claim: int = _claim.unpack_from(body, offset)[0]
        if claim < _NOT_COMPRESSED:
            raise Malformed("a compressed buffer claims a negative size")
        total += length if claim == _NOT_COMPRESSED else claim
    return total


def layout_of(schema: pa.Schema) -> Layout:
    """Return the layout that batches of a schema have."""
    nodes = [node for field in schema for node in _nodes(field.type)]
    return Layout(
        nodes=len(nodes),
        buffers=sum(buffers for buffers, _ in nodes),
        views=sum(is_view(data_type) for _, data_type in nodes),
        more_in_v4=sum(_has_more_in_v4(data_type) for _, data_type in nodes),
        weightless=tuple(i for i, (_, data_type) in enumerate(nodes) if _is_weightless(data_type)),
    )


def is_view(data_type: pa.DataType) -> bool:
    """Return whether an array of the type has view buffers."""
    return bool(pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type))


def _nodes(data_type: pa.DataType) -> Iterator[tuple[int, pa.DataType]]:
    """Yield each array of a type with the number of its buffers, in the order of the format."""
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    if pa.types.is_dictionary(data_type):
        data_type = data_type.index_type
    yield _buffer_count(data_type), data_type
    for index in range(data_type.num_fields):
        yield from _nodes(data_type.field(index).type)


def _buffer_count(data_type: pa.DataType) -> int:
    for matches, count in _BUFFER_COUNTS:
        if matches(data_type):
            return count
    return 2


_BUFFER_COUNTS = (
    (pa.types.is_null, 0),
    (pa.types.is_run_end_encoded, 0),
    (pa.types.is_struct, 1),
    (pa.types.is_fixed_size_list, 1),
    (lambda data_type: pa.types.is_union(data_type) and data_type.mode == "sparse", 1),
    (pa.types.is_string, 3),
    (pa.types.is_large_string, 3),
    (
        lambda data_type: (
            pa.types.is_binary(data_type) and not pa.types.is_fixed_size_binary(data_type)
        ),
        3,
    ),
    (pa.types.is_large_binary, 3),
    (pa.types.is_list_view, 3),
    (pa.types.is_large_list_view, 3),
)


def _has_more_in_v4(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_union(data_type) or pa.types.is_run_end_encoded(data_type))


def _is_weightless(data_type: pa.DataType) -> bool:
    if pa.types.is_null(data_type) or pa.types.is_run_end_encoded(data_type):
        return True
    if pa.types.is_fixed_size_binary(data_type):
        return bool(data_type.byte_width == 0)
    if pa.types.is_fixed_size_list(data_type):
        return bool(data_type.list_size == 0)
    return bool(pa.types.is_struct(data_type) and data_type.num_fields == 0)


def split_stream(data: memoryview) -> Iterator[tuple[memoryview, memoryview]]:
    """Yield header and body of each message of an IPC stream. Raises Malformed."""
    data, at = data.cast("B"), 0  # memory of another format never equals bytes
    while len(data) - at >= _size.size:
        if data[at : at + 4] == _CONTINUATION:  # older writers omit it
            at += 4
        if len(data) - at < _size.size:
            raise Malformed("the stream is cut short")
        size: int = _size.unpack_from(data, at)[0]
        at += _size.size
        if size == 0:
            return
        header = data[at : at + size] if size > 0 else data[:0]
        at += size
        end = at + read_message(header).body_bytes
        if end > len(data):
            raise Malformed("the stream is cut short")
        yield header, data[at:end]
        at = end
