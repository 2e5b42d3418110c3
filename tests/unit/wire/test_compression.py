"""What compressed batches claim."""

import pyarrow as pa
import pytest

from jetbridge.errors import LimitExceeded
from jetbridge.wire.compression import (
    DICTIONARY_BATCH,
    RECORD_BATCH,
    header_type,
    unpacked_bytes,
)
from jetbridge.wire.flight_data import BatchDecoder, FlightData

SCHEMA = 1


def messages(batch: pa.RecordBatch, compression: str | None) -> list[pa.ipc.Message]:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write(batch)
    return list(pa.ipc.MessageReader.open_stream(sink.getvalue()))


def parts(message: pa.ipc.Message) -> tuple[memoryview, memoryview]:
    return memoryview(message.metadata), memoryview(message.body or b"")


ZEROS = pa.record_batch({"n": pa.array([0] * 100_000), "s": pa.array(["x" * 10] * 100_000)})


def test_the_kind_of_a_message_is_read() -> None:
    words = pa.record_batch({"d": pa.array(["a", "b"]).dictionary_encode()})
    kinds = [header_type(parts(message)[0]) for message in messages(words, None)]
    assert kinds == [SCHEMA, DICTIONARY_BATCH, RECORD_BATCH]


def test_a_plain_batch_claims_nothing() -> None:
    assert unpacked_bytes(*parts(messages(ZEROS, None)[1])) == 0


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_batch_claims_its_size(codec: str) -> None:
    header, body = parts(messages(ZEROS, codec)[1])
    assert len(body) < ZEROS.nbytes / 5
    assert ZEROS.nbytes <= unpacked_bytes(header, body) < ZEROS.nbytes + 100


def test_a_compressed_dictionary_claims_its_size() -> None:
    words = pa.record_batch({"d": pa.array(["x" * 100_000, "y"]).dictionary_encode()})
    assert unpacked_bytes(*parts(messages(words, "zstd")[1])) > 100_000


def test_broken_metadata_claims_nothing() -> None:
    header, body = parts(messages(ZEROS, "zstd")[1])
    for end in range(0, len(header), 3):
        assert unpacked_bytes(header[:end], body) >= 0
    for position in range(len(header)):
        altered = bytearray(header)
        altered[position] ^= 0xFF
        assert unpacked_bytes(memoryview(altered), body) >= 0


def test_a_batch_that_claims_too_much_is_refused_before_it_is_unpacked() -> None:
    schema, batch = messages(ZEROS, "zstd")
    header, body = parts(batch)
    bomb = (2**40).to_bytes(8, "little") * (len(body) // 8 + 1)
    decoder = BatchDecoder(memoryview(schema.metadata))
    with pytest.raises(LimitExceeded, match="unpacks to more than"):
        decoder.feed(FlightData(None, header, None, memoryview(bomb)))
