"""The headers of Arrow IPC messages, checked before Arrow reads them.

Arrow checks that a header is a flatbuffer and, when told, that values lie in their buffers. It does
not look at what a header asks for: it allocates what a compressed buffer claims to become, makes a
field for each reference to one, and believes the length of an array that has no buffers. Here a
message is refused for what it asks for, before anything is made of it.
"""

import struct
from collections.abc import Iterator
from operator import add, gt
from typing import NamedTuple

import pyarrow as pa

from jetbridge.errors import LimitExceeded
from jetbridge.wire.flatbuffer import Malformed, Table, root
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

# Numbers of fields, by table, as in Arrow's Message.fbs and Schema.fbs.
_VERSION, _HEADER_TYPE, _HEADER, _BODY_LENGTH, _MESSAGE_METADATA = range(5)
_ENDIANNESS, _FIELDS, _SCHEMA_METADATA = range(3)
_NAME, _, _TYPE_TYPE, _TYPE, _, _CHILDREN, _FIELD_METADATA = range(7)
_KEY, _VALUE = range(2)
_LENGTH, _NODES, _BUFFERS, _COMPRESSION, _VIEW_BUFFERS = range(5)
_ID, _DATA, _IS_DELTA = range(3)
_CODEC, _METHOD = range(2)
_TYPE_EXTRA = 1  # the time zone of a timestamp, the type ids of a union
_NODE_LONGS = _BUFFER_LONGS = 2

# What a pair of empty strings takes in memory, about.
_PAIR_BYTES = 128
_CONTINUATION = b"\xff\xff\xff\xff"
_claim = struct.Struct("<q")
_size = struct.Struct("<i")
_NOT_COMPRESSED = -1
# Arrow 0.17 kept the codec here; later versions believe it in messages of the format V4.
_OLD_COMPRESSION = b"ARROW:experimental_compression"
_EXTENSION_NAME = b"ARROW:extension:name"
# Readers of old versions unpickle its metadata.
_PICKLED = b"arrow.py_extension_type"


class Message(NamedTuple):
    """`table` is the Schema, the RecordBatch or the DictionaryBatch; `kind` tells which."""

    kind: int
    version: int
    body_bytes: int
    table: Table


class Layout(NamedTuple):
    """What a batch of a schema has: nodes, buffers, and those of them that need a second look.

    `more_in_v4` are the arrays with one buffer more in the format V4: their validity.
    `weightless` are the nodes whose arrays may have any length without a byte of their own.
    """

    nodes: int
    buffers: int
    views: int
    more_in_v4: int
    weightless: tuple[int, ...]


class Batch(NamedTuple):
    unpacked_bytes: int
    dictionary: int
    is_delta: bool


def read_message(header: memoryview) -> Message:
    """Raises Malformed."""
    table = root(header)
    version, kind = table.short(_VERSION), table.byte(_HEADER_TYPE)
    if version not in (_V4, _V5):
        raise Malformed("the version of the Arrow format is not V4 or V5")
    if kind not in (SCHEMA, DICTIONARY_BATCH, RECORD_BATCH):
        raise Malformed("the message is neither a schema nor a batch")
    body_bytes = table.long(_BODY_LENGTH)
    if body_bytes < 0:
        raise Malformed("the body has a negative length")
    if table.length(_MESSAGE_METADATA, 4):
        _SchemaCheck().metadata(table, _MESSAGE_METADATA)
    return Message(kind, version, body_bytes, table.required(_HEADER))


def check_schema(message: Message) -> None:
    """Raises Malformed and LimitExceeded."""
    if message.kind != SCHEMA:
        raise Malformed("the message is not a schema")
    if message.table.short(_ENDIANNESS):
        raise Malformed("big-endian data is not supported")
    check = _SchemaCheck()
    check.metadata(message.table, _SCHEMA_METADATA)
    check.children(message.table, _FIELDS, 1)


class _SchemaCheck:
    """Counts what a schema refers to, each time it does."""

    def __init__(self) -> None:
        self._fields = self._text = 0

    def children(self, table: Table, number: int, depth: int) -> None:
        count = table.length(number, 4)
        self._fields += count
        if self._fields > SCHEMA_FIELDS:
            raise LimitExceeded(f"a schema has more than {SCHEMA_FIELDS} fields")
        if count and depth > SCHEMA_DEPTH:
            raise LimitExceeded(f"a schema has types nested deeper than {SCHEMA_DEPTH} levels")
        for field in table.tables(number):
            self._field(field, depth)

    def _field(self, field: Table, depth: int) -> None:
        self._count(len(field.text(_NAME)))
        if field.byte(_TYPE_TYPE) in (_TIMESTAMP, _UNION):
            kind = field.required(_TYPE)
            item_bytes = 1 if field.byte(_TYPE_TYPE) == _TIMESTAMP else 4
            self._count(kind.length(_TYPE_EXTRA, item_bytes) * item_bytes)
        self.metadata(field, _FIELD_METADATA)
        self.children(field, _CHILDREN, depth + 1)

    def metadata(self, table: Table, number: int) -> None:
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
    """What the batch becomes; `layout` None: a dictionary. Raises Malformed and LimitExceeded."""
    batch, dictionary, is_delta = message.table, 0, False
    if message.kind == DICTIONARY_BATCH:
        dictionary, is_delta = batch.long(_ID), bool(batch.byte(_IS_DELTA))
        batch = batch.required(_DATA)
    nodes = batch.longs(_NODES, _NODE_LONGS)
    buffers = batch.longs(_BUFFERS, _BUFFER_LONGS)
    views = batch.longs(_VIEW_BUFFERS, 1)
    _check_rows(batch.long(_LENGTH), message.kind, limits)
    _check_nodes(nodes, limits)
    if layout is not None:
        _check_counts(message.version, nodes, buffers, views, layout)
    _check_places(buffers, message.body_bytes)
    compression = batch.table(_COMPRESSION)
    if compression is None:
        unpacked = sum(buffers[1::2])
    else:
        if not 0 <= compression.byte(_CODEC) <= _ZSTD or compression.byte(_METHOD):
            raise Malformed("the compression is neither LZ4_FRAME nor ZSTD")
        unpacked = _unpacked_bytes(buffers, body)
    unpacked += _weightless_bytes(nodes, layout)
    if unpacked > limits.unpacked_bytes:
        raise too_large(limits)
    return Batch(unpacked, dictionary, is_delta)


def too_large(limits: InputLimits) -> LimitExceeded:
    return LimitExceeded(
        f"a batch unpacks to more than {limits.unpacked_bytes} bytes (limits.message_bytes); "
        "send smaller batches"
    )


def _check_rows(rows: int, kind: int, limits: InputLimits) -> None:
    if rows < 0:
        raise Malformed("a batch has a negative number of rows")
    if kind == RECORD_BATCH and rows > limits.batch_rows:
        raise LimitExceeded(
            f"a batch of {rows} rows is over limits.batch_rows ({limits.batch_rows}); "
            "send smaller batches"
        )


def _check_nodes(nodes: tuple[int, ...], limits: InputLimits) -> None:
    lengths, nulls = nodes[0::2], nodes[1::2]
    if nodes and (min(nodes) < 0 or any(map(gt, nulls, lengths))):
        raise Malformed("an array has a negative length, or more NULLs than values")
    # A bit is the least that a value takes, where it takes anything.
    if nodes and max(lengths) > 8 * limits.unpacked_bytes:
        raise too_large(limits)


def _weightless_bytes(nodes: tuple[int, ...], layout: Layout | None) -> int:
    places = layout.weightless if layout else ()
    return WEIGHTLESS_BYTES * sum(nodes[_NODE_LONGS * place] for place in places)


def _check_counts(
    version: int,
    nodes: tuple[int, ...],
    buffers: tuple[int, ...],
    views: tuple[int, ...],
    layout: Layout,
) -> None:
    expected = layout.buffers + sum(views) + (layout.more_in_v4 if version == _V4 else 0)
    found = (len(nodes) // _NODE_LONGS, len(buffers) // _BUFFER_LONGS, len(views))
    if found != (layout.nodes, expected, layout.views) or any(count < 0 for count in views):
        raise Malformed("a batch has not the arrays and buffers of its schema")


def _check_places(buffers: tuple[int, ...], body_bytes: int) -> None:
    """No buffer is outside of the body, and no two can share all of its bytes."""
    if not buffers:
        return
    offsets, lengths = buffers[0::2], buffers[1::2]
    if min(buffers) < 0 or max(map(add, offsets, lengths)) > body_bytes:
        raise Malformed("a buffer is outside of the body")
    if sum(lengths) > body_bytes:
        raise Malformed("the buffers of a batch overlap")


def _unpacked_bytes(buffers: tuple[int, ...], body: memoryview) -> int:
    """A buffer that is compressed begins with its later size, or with -1 if it is not."""
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
    nodes = [node for field in schema for node in _nodes(field.type)]
    return Layout(
        nodes=len(nodes),
        buffers=sum(buffers for buffers, _ in nodes),
        views=sum(is_view(kind) for _, kind in nodes),
        more_in_v4=sum(_has_more_in_v4(kind) for _, kind in nodes),
        weightless=tuple(i for i, (_, kind) in enumerate(nodes) if _is_weightless(kind)),
    )


def is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _nodes(kind: pa.DataType) -> Iterator[tuple[int, pa.DataType]]:
    """Each array of a type, in the order of the format, with the number of its buffers."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.index_type
    yield _buffer_count(kind), kind
    for index in range(kind.num_fields):
        yield from _nodes(kind.field(index).type)


def _buffer_count(kind: pa.DataType) -> int:
    for is_kind, count in _BUFFER_COUNTS:
        if is_kind(kind):
            return count
    return 2


_BUFFER_COUNTS = (
    (pa.types.is_null, 0),
    (pa.types.is_run_end_encoded, 0),
    (pa.types.is_struct, 1),
    (pa.types.is_fixed_size_list, 1),
    (lambda kind: pa.types.is_union(kind) and kind.mode == "sparse", 1),
    (pa.types.is_string, 3),
    (pa.types.is_large_string, 3),
    (lambda kind: pa.types.is_binary(kind) and not pa.types.is_fixed_size_binary(kind), 3),
    (pa.types.is_large_binary, 3),
    (pa.types.is_list_view, 3),
    (pa.types.is_large_list_view, 3),
)


def _has_more_in_v4(kind: pa.DataType) -> bool:
    return bool(pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind))


def _is_weightless(kind: pa.DataType) -> bool:
    if pa.types.is_null(kind) or pa.types.is_run_end_encoded(kind):
        return True
    if pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width == 0)
    if pa.types.is_fixed_size_list(kind):
        return bool(kind.list_size == 0)
    return bool(pa.types.is_struct(kind) and kind.num_fields == 0)


def split_stream(data: memoryview) -> Iterator[tuple[memoryview, memoryview]]:
    """Header and body of each message of an IPC stream. Raises Malformed."""
    data, at = data.cast("B"), 0  # bytes are not equal to those of another format
    while len(data) - at >= _size.size:
        if data[at : at + 4] == _CONTINUATION:  # older writers leave it out
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
