"""FlightData without protobuf: the same bytes as those of pyarrow and protobuf."""

import pyarrow as pa
import pytest

from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.wire.arrow_input import BatchDecoder
from jetbridge.wire.flight_data import (
    BatchEncoder,
    encode_batch,
    encode_metadata,
    encode_schema,
    split,
)
from jetbridge.wire.flight_data import (
    FlightData as FlightParts,
)
from jetbridge.wire.flight_pb2 import FlightData, FlightDescriptor

BATCH = pa.RecordBatch.from_pydict({"id": [1, 2, None], "name": ["a", None, "ü" * 300]})


def decoder_for(message: bytes) -> BatchDecoder:
    header = split(message).header
    assert header is not None
    return BatchDecoder(header)


def decode(schema: bytes, *messages: bytes) -> list[pa.RecordBatch]:
    decoder = decoder_for(schema)
    for message in messages:
        decoder.feed(split(message))
    return list(decoder.flush())


def test_a_batch_comes_back_as_it_went() -> None:
    assert decode(encode_schema(BATCH.schema), encode_batch(BATCH)) == [BATCH]


def test_a_slice_is_sent_without_the_rest() -> None:
    large = pa.RecordBatch.from_pydict({"n": list(range(10_000))})
    message = encode_batch(large.slice(5000, 3))
    assert len(message) < 1000
    assert decode(encode_schema(large.schema), message) == [large.slice(5000, 3)]


def test_protobuf_reads_what_is_written_by_hand() -> None:
    read = FlightData.FromString(encode_batch(BATCH, b"note"))
    assert read.app_metadata == b"note"
    assert read.data_header
    assert read.data_body
    assert FlightData.FromString(encode_metadata(b"only")) == FlightData(app_metadata=b"only")


def test_what_protobuf_writes_is_read_by_hand() -> None:
    descriptor = FlightDescriptor(type=FlightDescriptor.PATH, path=["s", "t"])
    message = FlightData(
        flight_descriptor=descriptor, data_header=b"h", app_metadata=b"m", data_body=b"b" * 200
    ).SerializeToString()
    parts = split(message)
    assert [bytes(part or b"") for part in parts] == [
        descriptor.SerializeToString(),
        b"h",
        b"m",
        b"b" * 200,
    ]


def test_an_unknown_field_is_passed_over() -> None:
    assert bytes(split(b"\x28\x07" + encode_metadata(b"x")).app_metadata or b"") == b"x"


@pytest.mark.parametrize(
    "message", [b"\x12", b"\x12\xff", b"\x12\x05ab", b"\x12" + b"\xff" * 12, b"\xff" * 20]
)
def test_a_broken_message_is_refused(message: bytes) -> None:
    with pytest.raises(BadRequest, match="FlightData message"):
        split(message)


def test_fields_that_flight_does_not_have_are_dropped_and_counted() -> None:
    assert split(b"\x2a\x01x" + encode_metadata(b"x")) == split(encode_metadata(b"x"))
    assert split(b"\x28\x07" * 64) == FlightParts(None, None, None, None)
    with pytest.raises(BadRequest, match="malformed"):
        split(b"\x28\x07" * 65)


def test_dictionaries_last_from_one_flush_to_the_next() -> None:
    values = pa.array(["x", "y", "x"]).dictionary_encode()
    batch = pa.record_batch({"d": values})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    schema, dictionary, rows = (
        FlightData(data_header=bytes(m.metadata), data_body=bytes(m.body or b""))
        for m in (reader.read_next_message() for _ in range(3))
    )
    decoder = decoder_for(schema.SerializeToString())
    decoder.feed(split(dictionary.SerializeToString()))
    decoder.feed(split(rows.SerializeToString()))
    first = list(decoder.flush())
    decoder.feed(split(rows.SerializeToString()))
    second = list(decoder.flush())
    assert first == second == [pa.record_batch({"d": ["x", "y", "x"]})]


def test_a_message_without_a_header_between_batches_is_refused() -> None:
    with pytest.raises(BadRequest, match="has no Arrow header"):
        decode(encode_schema(BATCH.schema), encode_metadata(b"x"))


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(BadRequest, match="the Arrow schema cannot be read"):
        BatchDecoder(memoryview(b"\x00" * 24))


def test_offsets_that_lead_outside_are_refused_before_anyone_reads_them() -> None:
    offsets = pa.array([0, 1000, 3, 4], pa.int32()).buffers()[1]
    broken = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"abcd"))
    batch = pa.RecordBatch.from_arrays([broken], names=["s"])
    with pytest.raises(BadRequest, match="record batch cannot be read"):
        decode(encode_schema(batch.schema), encode_batch(batch))


def test_text_that_is_not_utf8_is_refused() -> None:
    offsets = pa.array([0, 2], pa.int32()).buffers()[1]
    broken = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff\xfe"))
    batch = pa.RecordBatch.from_arrays([broken], names=["s"])
    with pytest.raises(BadRequest, match="record batch cannot be read"):
        decode(encode_schema(batch.schema), encode_batch(batch))


def wide_batches() -> list[pa.RecordBatch]:
    rows = pa.RecordBatch.from_pydict(
        {
            "n": list(range(1000)),
            "s": [None if i % 7 == 0 else f"text {i}" for i in range(1000)],
            "l": [[i, None] for i in range(1000)],
        }
    )
    return [rows, rows.slice(10, 5), rows.slice(0, 0), rows.slice(999)]


def test_the_encoder_of_many_batches_says_the_same_as_that_of_one() -> None:
    batches = wide_batches()
    encoder = BatchEncoder(batches[0].schema)
    for batch in batches:
        assert encoder.encode(batch, b"note") == encode_batch(batch, b"note")
        assert encoder.encode(batch) == encode_batch(batch)


def test_a_batch_without_columns_keeps_its_rows() -> None:
    batch = wide_batches()[0].select([])
    [read] = decode(encode_schema(batch.schema), BatchEncoder(batch.schema).encode(batch))
    assert read.num_rows == 1000


def test_several_batches_are_read_at_once() -> None:
    batches = wide_batches()
    schema = encode_schema(batches[0].schema)
    read = decode(schema, *(encode_batch(batch) for batch in batches))
    assert pa.Table.from_batches(read) == pa.Table.from_batches(batches)


def test_the_end_of_the_day_is_a_time() -> None:
    times = pa.array([0, 86_400 * 10**6, None], pa.int64()).view(pa.time64("us"))
    batch = pa.record_batch({"t": times, "s": ["a", "b", "c"]})
    message = encode_batch(batch)
    for copies in (1, 3):
        read = decode(encode_schema(batch.schema), *[message] * copies)
        assert [b.column(0).view(pa.int64()).to_pylist() for b in read] == [
            [0, 86_400 * 10**6, None]
        ] * copies


def test_a_time_after_the_end_of_the_day_is_refused() -> None:
    times = pa.array([86_400 * 10**6 + 1], pa.int64()).view(pa.time64("us"))
    batch = pa.record_batch({"t": times})
    with pytest.raises(BadRequest, match="record batch cannot be read"):
        decode(encode_schema(batch.schema), encode_batch(batch))


def test_dictionaries_are_kept_up_to_a_limit() -> None:
    words = pa.record_batch({"d": pa.array(["x" * 1_000_000]).dictionary_encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, words.schema) as writer:
        writer.write(words)
    schema, dictionary, _ = list(pa.ipc.MessageReader.open_stream(sink.getvalue()))
    decoder = BatchDecoder(memoryview(schema.metadata))
    data = FlightParts(None, memoryview(dictionary.metadata), None, memoryview(dictionary.body))
    with pytest.raises(LimitExceeded, match="dictionaries"):
        for _ in range(100):
            decoder.feed(data)
