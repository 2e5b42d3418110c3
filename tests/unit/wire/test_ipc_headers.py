"""Checks of headers before Arrow reads the message."""

import struct
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.runtime.plain_layout import plain_batch, plain_schema
from jetbridge.wire.arrow_input import BatchDecoder, read_stream
from jetbridge.wire.flatbuffer import OUTSIDE, FlatTable, Malformed, root
from jetbridge.wire.flight_data import FlightData
from jetbridge.wire.ipc_headers import (
    DICTIONARY_BATCH,
    RECORD_BATCH,
    SCHEMA,
    Batch,
    check_batch,
    check_schema,
    layout_of,
    read_message,
    split_stream,
)
from jetbridge.wire.limits import REQUEST_LIMITS, InputLimits
from jetbridge.wire.schemas import read_schema
from tests.security.input.corpus import batches, fits, options, stream

ZEROS = pa.record_batch({"n": pa.array([0] * 100_000), "s": pa.array(["x" * 10] * 100_000)})
SMALL = pa.record_batch({"n": [1, 2], "s": ["a", None]})


def parts(batch: pa.RecordBatch, codec: str | None) -> list[tuple[memoryview, memoryview]]:
    how = pa.ipc.IpcWriteOptions(compression=codec)
    return list(split_stream(memoryview(stream(batch, how, copies=1))))


def checked(batch: pa.RecordBatch, codec: str | None, limits: InputLimits = REQUEST_LIMITS) -> Any:
    """Return the header of the first batch or dictionary, checked."""
    header, body = parts(batch, codec)[1]
    message = read_message(header)
    layout = layout_of(batch.schema) if message.type == RECORD_BATCH else None
    return check_batch(message, body, layout, limits)


def test_the_kind_of_a_message_is_read() -> None:
    words = pa.record_batch({"d": pa.array(["a", "b"]).dictionary_encode()})
    kinds = [read_message(header).type for header, _ in parts(words, None)]
    assert kinds == [SCHEMA, DICTIONARY_BATCH, RECORD_BATCH]


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_a_batch_becomes_its_size(codec: str | None) -> None:
    assert ZEROS.nbytes <= checked(ZEROS, codec).unpacked_bytes < ZEROS.nbytes + 100
    least = InputLimits(unpacked_bytes=ZEROS.nbytes - 100)
    with pytest.raises(LimitExceeded, match=f"unpacks to more than {ZEROS.nbytes - 100} bytes"):
        checked(ZEROS, codec, least)


def test_a_dictionary_becomes_its_size() -> None:
    words = pa.record_batch({"d": pa.array(["x" * 100_000, "y"]).dictionary_encode()})
    batch = checked(words, "zstd")
    assert batch.unpacked_bytes > 100_000
    assert batch == Batch(batch.unpacked_bytes, rows=2, dictionary=0, is_delta=False)


@pytest.mark.parametrize("how", options(), ids=lambda how: f"{how.metadata_version}")
def test_every_type_is_read_as_arrow_reads_it(how: pa.ipc.IpcWriteOptions) -> None:
    for batch in batches():
        if not fits(batch, how):
            continue
        data = stream(batch, how)
        sent = pa.ipc.open_stream(data)
        plain = plain_schema(sent.schema)
        assert read_stream(data, REQUEST_LIMITS) == [plain_batch(each, plain) for each in sent]


def test_values_without_bytes_count() -> None:
    free = [
        pa.nulls(1000),
        pa.array([{}] * 1000, pa.struct([])),
        pa.array([b""] * 1000, pa.binary(0)),
        pa.array([[]] * 1000, pa.list_(pa.int8(), 0)),
        pa.RunEndEncodedArray.from_arrays(pa.array([1000], pa.int32()), pa.array([1])),
    ]
    for array in free:
        assert checked(pa.record_batch({"c": array}), None).unpacked_bytes >= 8000


def test_broken_headers_are_malformed_or_refused() -> None:
    for batch, codec in ((SMALL, None), (SMALL, "zstd")):
        (schema, _), (header, body) = parts(batch, codec)
        layout = layout_of(batch.schema)
        for changed in _changes(schema):
            with suppress(Malformed, OUTSIDE, LimitExceeded):
                check_schema(read_message(changed))
        for changed in _changes(header):
            with suppress(Malformed, OUTSIDE, LimitExceeded):
                check_batch(read_message(changed), body, layout, REQUEST_LIMITS)


def _changes(data: memoryview) -> list[memoryview]:
    damaged = [data[:end] for end in range(len(data))]
    for at in range(len(data)):
        for byte in (0, 0x7F, 0xFF):
            altered = bytearray(data)
            altered[at] = byte
            damaged.append(memoryview(altered))
    return damaged


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", OUTSIDE),
        (b"\x10\0\0\0", OUTSIDE),
        (b"\x04\0\0\0\x40\0\0\0", Malformed),  # the fields would be before the message
        (b"\x08\0\0\0\x02\0\0\0\x04\0\0\0", Malformed),  # a list shorter than its own length
        (b"\x08\0\0\0\xff\xff\0\0\x04\0\0\0", Malformed),  # a list of 32,765 fields
    ],
)
def test_a_table_that_is_not_inside_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        root(memoryview(data))


def test_a_vector_that_is_not_inside_is_refused() -> None:
    table = struct.pack("<IHHHxxiII", 12, 6, 8, 4, 8, 4, 1_000)
    vector = root(memoryview(table))
    assert isinstance(vector, FlatTable)
    with pytest.raises(Malformed, match="vector ends outside"):
        vector.text(0)
    assert vector.length(3, 1) == vector.long(3) == vector.byte(3) == vector.short(3) == 0
    with pytest.raises(Malformed, match="required part"):
        vector.require(2)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        ("version", 2, "not V4 or V5"),
        ("version", 5, "not V4 or V5"),
        ("type", 4, "neither a schema nor a batch"),
        ("type", 0, "neither a schema nor a batch"),
        ("body", -8, "negative length"),
    ],
)
def test_messages_of_other_kinds_are_malformed(place: str, value: int, reason: str) -> None:
    header = bytearray(parts(SMALL, None)[1][0])
    number, form = {"version": (0, "<h"), "type": (1, "<b"), "body": (3, "<q")}[place]
    struct.pack_into(form, header, _field(header, number), value)
    with pytest.raises(Malformed, match=reason):
        read_message(memoryview(header))


def _field(header: bytearray, number: int) -> int:
    (table,) = struct.unpack_from("<I", header)
    vtable = table - struct.unpack_from("<i", header, table)[0]
    place: int = table + struct.unpack_from("<H", header, vtable + 4 + 2 * number)[0]
    return place


def test_a_batch_is_no_schema() -> None:
    with pytest.raises(Malformed, match="not a schema"):
        check_schema(read_message(parts(SMALL, None)[1][0]))


def test_big_endian_data_is_refused() -> None:
    header = bytearray(pa.schema([("a", pa.int8())]).serialize().to_pybytes())[8:]
    position = _field(header, 2)
    schema = position + struct.unpack_from("<I", header, position)[0]
    vtable = schema - struct.unpack_from("<i", header, schema)[0]
    # Little-endian is the default and not written, so the field is given the position of another.
    struct.pack_into("<H", header, vtable + 4, struct.unpack_from("<H", header, vtable + 6)[0])
    with pytest.raises(Malformed, match="big-endian"):
        check_schema(read_message(memoryview(header)))


def test_another_codec_is_refused() -> None:
    header, body = parts(ZEROS, "zstd")[1]
    altered = bytearray(header)
    (table,) = struct.unpack_from("<I", altered)
    place = _field(altered, 2)
    batch = place + struct.unpack_from("<I", altered, place)[0]
    vtable = batch - struct.unpack_from("<i", altered, batch)[0]
    place = batch + struct.unpack_from("<H", altered, vtable + 4 + 2 * 3)[0]
    compression = place + struct.unpack_from("<I", altered, place)[0]
    vtable = compression - struct.unpack_from("<i", altered, compression)[0]
    codec = compression + struct.unpack_from("<H", altered, vtable + 4)[0]
    assert altered[codec] == 1
    altered[codec] = 2
    with pytest.raises(Malformed, match="neither LZ4_FRAME nor ZSTD"):
        check_batch(
            read_message(memoryview(altered)), body, layout_of(ZEROS.schema), REQUEST_LIMITS
        )


def test_a_compressed_buffer_that_is_cut_is_refused() -> None:
    header, body = parts(ZEROS, "zstd")[1]
    message, layout = read_message(header), layout_of(ZEROS.schema)
    with pytest.raises(Malformed, match="compressed buffer is cut short"):
        check_batch(message, body[:4], layout, REQUEST_LIMITS)


def test_a_batch_of_another_schema_is_refused() -> None:
    header, body = parts(SMALL, None)[1]
    for kinds in ([pa.int64()], [pa.int64(), pa.int64()], [pa.int64(), pa.string_view()]):
        other = layout_of(pa.schema([(f"c{n}", data_type) for n, data_type in enumerate(kinds)]))
        with pytest.raises(Malformed, match="are not those of its schema"):
            check_batch(read_message(header), body, other, REQUEST_LIMITS)


@pytest.mark.parametrize("cut", [2, 6, 100])
def test_a_stream_that_is_cut_is_refused(cut: int) -> None:
    data = stream(SMALL, None, copies=1)
    whole = list(split_stream(memoryview(data)))
    assert len(whole) == 2
    old = b"".join(struct.pack("<i", len(header)) + header + body for header, body in whole)
    assert list(split_stream(memoryview(old))) == whole  # older writers
    assert list(split_stream(memoryview(old + b"\0\0\0\0rest"))) == whole
    with pytest.raises((Malformed, OUTSIDE)):
        list(split_stream(memoryview(b"\xff\xff\xff\xff" + data[4 : 4 + cut])))
    with pytest.raises(Malformed, match="cut short"):
        list(split_stream(memoryview(data)[:-20]))


def test_a_batch_that_claims_too_much_is_refused_before_it_is_unpacked() -> None:
    (schema, _), (header, body) = parts(ZEROS, "zstd")
    bomb = (2**40).to_bytes(8, "little") * (len(body) // 8 + 1)
    decoder = BatchDecoder(schema)
    with pytest.raises(LimitExceeded, match="unpacks to more than"):
        decoder.feed(FlightData(None, header, None, memoryview(bomb)))


def test_several_batches_of_arguments_count_together() -> None:
    data = stream(ZEROS, pa.ipc.IpcWriteOptions(compression="zstd"), copies=3)
    with pytest.raises(LimitExceeded, match="unpacks to more than"):
        read_stream(data, InputLimits(unpacked_bytes=2 * ZEROS.nbytes))


def test_a_body_that_is_cut_is_refused() -> None:
    (schema, _), (header, body) = parts(ZEROS, None)
    decoder = BatchDecoder(schema)
    with pytest.raises(BadRequest, match="its body is cut short"):
        decoder.feed(FlightData(None, header, None, body[:-16]))


def test_a_dictionary_waits_for_its_batch() -> None:
    words = pa.record_batch({"a": ["x", "y"], "b": ["z", "x"]})
    sent = pa.record_batch({n: words[n].dictionary_encode() for n in words.schema.names})
    (schema, _), *messages = parts(sent, None)
    decoder = BatchDecoder(schema)
    batches: list[pa.RecordBatch] = []
    for header, body in messages:
        decoder.feed(FlightData(None, header, None, body))
        batches += decoder.flush()
    assert batches == [words]


def test_additions_to_a_dictionary_are_kept_with_it() -> None:
    first = pa.array(["a", "b"]).dictionary_encode()
    more = pa.DictionaryArray.from_arrays(pa.array([2, 0], pa.int32()), pa.array(["a", "b", "c"]))
    sink = pa.BufferOutputStream()
    how = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, pa.schema([("d", first.type)]), options=how) as writer:
        for array in (first, more, more):
            writer.write_batch(pa.record_batch({"d": array}))
    (schema, _), *messages = split_stream(memoryview(sink.getvalue().to_pybytes()))
    decoder = BatchDecoder(schema)
    batches = []
    for header, body in messages:
        decoder.feed(FlightData(None, header, None, body))
        batches += [batch.column(0).to_pylist() for batch in decoder.flush()]
    assert batches == [["a", "b"], ["c", "a"], ["c", "a"]]


@pytest.mark.parametrize("copies", [1, 3])
def test_values_that_are_meant_often_count_each_time(copies: int) -> None:
    often = pa.DictionaryArray.from_arrays(pa.array([0] * 1000), pa.array(["x" * 1000]))
    data = stream(pa.record_batch({"d": often}), None, copies)
    assert len(read_stream(data, InputLimits(unpacked_bytes=1_200_000))) == copies
    with pytest.raises(LimitExceeded, match="unpacks to more than 900000"):
        read_stream(data, InputLimits(unpacked_bytes=900_000))


def test_a_node_longer_than_all_its_bits_is_refused() -> None:
    header, body = parts(SMALL, None)[1]
    limits = InputLimits(unpacked_bytes=1000)
    long = bytes(header).replace(struct.pack("<qq", 2, 1), struct.pack("<qq", 8001, 1))
    assert long != bytes(header)
    with pytest.raises(LimitExceeded, match="unpacks to more than 1000"):
        check_batch(read_message(memoryview(long)), body, layout_of(SMALL.schema), limits)


def test_metadata_of_a_message_is_read() -> None:
    batch = SMALL.replace_schema_metadata({"ARROW:experimental_compression": "zstd"})
    with pytest.raises(BadRequest, match="Arrow 0.17"):
        read_schema(batch.schema.serialize().to_pybytes(), "x")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SMALL.schema) as writer:
        writer.write_batch(SMALL, custom_metadata={"some": "value"})
    assert read_stream(sink.getvalue().to_pybytes(), REQUEST_LIMITS) == [SMALL]


def test_names_of_types_must_be_utf8() -> None:
    zone = pa.schema([("t", pa.timestamp("s", "ABCDEF"))]).serialize().to_pybytes()
    with pytest.raises(BadRequest, match="not an Arrow IPC schema"):
        read_schema(zone.replace(b"ABCDEF", b"AB\xff\xfeEF"), "x")
