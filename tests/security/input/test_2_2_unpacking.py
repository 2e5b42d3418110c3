"""The unpacked size of a message is limited before it is unpacked.

Attacked: 169 KB of compressed batches became 4.8 GiB, because each was below a limit of 1 GiB and
2 MiB of compressed data were decoded at once; in the format V4 of Arrow no limit held. Values that
are sent once and meant a million times (dictionaries, views, runs, NULLs) do the same.
"""

import struct
from collections.abc import Iterable
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from jetbridge.client import connect
from jetbridge.wire.arrow_input import BatchDecoder
from jetbridge.wire.flight_data import split
from jetbridge.wire.flight_pb2 import Action, FlightDescriptor, FlightInfo, SchemaResult
from tests.helpers.peers import ServerProcess
from tests.helpers.raw import SERVICE, Raw, opening, said
from tests.security.input.conftest import MIB, grows_by_less_than
from tests.security.input.corpus import stream
from tests.security.input.crafted import COMPRESSED, as_stream, in_format_v4, messages
from tests.security.input.test_2_1_arrow_input import bind

LIMIT = 16 * MIB  # limits.message_bytes of the server
# What is unpacked is there once or twice more on its way: in Arrow, in a spill, in a copy.
MARGIN = 4 * LIMIT
TOO_MUCH = grpc.StatusCode.RESOURCE_EXHAUSTED
WRONG = grpc.StatusCode.INVALID_ARGUMENT
ZEROS = pa.record_batch({"n": np.zeros(LIMIT // 8 // 2, np.int64)})
LONG = "x" * 1_000_000


def insert(raw: Raw, name: str, kind: pa.DataType, sent: Iterable[bytes]) -> Any:
    """Return the error of an INSERT of these messages into a column of this type."""
    first = opening(("s", "t"), pa.schema([(name, kind)]))
    headers = (("airport-operation", "insert"), ("return-chunks", "0"))
    with pytest.raises(grpc.RpcError) as error:
        list(raw.both_ways("DoExchange", [first, *sent], *headers))
    return error.value


def test_many_small_batches_that_become_large_are_unpacked_one_by_one(server, raw):
    _, message = messages(ZEROS, COMPRESSED)
    sent = [message] * 200
    assert sum(map(len, sent)) < MIB
    assert 200 * ZEROS.nbytes > 1_500 * MIB
    with grows_by_less_than(server, MARGIN):
        error = insert(raw, "n", pa.int64(), sent)
    assert error.code() is TOO_MUCH
    assert "the statement sent more than" in error.details()


def test_a_batch_that_unpacks_to_more_than_a_message_is_refused_before_unpacking(server, raw):
    large = pa.record_batch({"s": ["x" * MIB] * 64})
    _, message = messages(large, COMPRESSED)
    assert len(message) < MIB
    with grows_by_less_than(server, LIMIT):
        error = insert(raw, "s", pa.string(), [message])
    assert error.code() is TOO_MUCH
    assert f"unpacks to more than {LIMIT} bytes (limits.message_bytes)" in error.details()


def test_rows_without_columns_are_counted_as_the_rows_they_become(server, raw):
    """Attacked: 400 messages of 74 bytes, of a million rows each, took 6 GB."""
    rows = pa.StructArray.from_buffers(pa.struct([]), 2**20, [None])
    _, message = messages(pa.RecordBatch.from_struct_array(rows), pa.ipc.IpcWriteOptions())
    first = opening(("s", "t"), pa.schema([]))
    headers = (("airport-operation", "insert"), ("return-chunks", "0"))
    with grows_by_less_than(server, MARGIN), pytest.raises(grpc.RpcError) as error:
        list(raw.both_ways("DoExchange", [first, *[message] * 400], *headers))
    assert error.value.code() is TOO_MUCH
    assert "the most this server stages" in said(error)


@pytest.mark.parametrize("claim", [2**62, 2**31, -2])
def test_the_size_that_a_buffer_claims_is_checked(server, raw, claim):
    _, message = messages(ZEROS, COMPRESSED)
    size = struct.pack("<q", ZEROS.nbytes)
    assert message.count(size) == 1
    with grows_by_less_than(server, LIMIT):
        error = insert(raw, "n", pa.int64(), [message.replace(size, struct.pack("<q", claim))])
    assert error.code() is (TOO_MUCH if claim > 0 else WRONG)


@pytest.mark.parametrize("codec", [b"zstd", b"lz4"])
def test_compression_of_the_format_v4_is_refused(server, raw, codec):
    schema, message = messages(ZEROS, COMPRESSED)
    old = in_format_v4(message, codec)
    if codec == b"zstd":  # Arrow itself would unpack it
        parts = [split(each) for each in (schema, old)]
        empty = memoryview(b"")
        data = as_stream((part.header or empty, part.body or empty) for part in parts)
        assert pa.ipc.open_stream(data).read_all().num_rows == ZEROS.num_rows
    with grows_by_less_than(server, LIMIT):
        error = insert(raw, "n", pa.int64(), [old])
    assert error.code() is WRONG
    assert "compression of Arrow 0.17 is not supported" in error.details()


def repeated() -> dict[str, pa.Array]:
    """Return small arrays that represent a gigabyte."""
    many = pa.array([0] * 1_000, pa.int32())
    texts = pa.array([LONG], pa.string_view()).buffers()
    view = bytes(texts[1])[:16] * 1_000
    views = pa.Array.from_buffers(pa.string_view(), 1_000, [None, pa.py_buffer(view), texts[2]])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1_000], pa.int32()), pa.array([LONG]))
    text_lists = pa.ListViewArray.from_arrays(
        many.take(many), pa.array([1_000] * 1_000, pa.int32()), pa.array(["x" * 1_000] * 1_000)
    )
    null_lists = pa.ListArray.from_arrays(pa.array([0, 200 * MIB], pa.int32()), pa.nulls(200 * MIB))
    nulls = [pa.nulls(1_000_000)] * 9
    return {
        "dictionary": pa.DictionaryArray.from_arrays(many, pa.array([LONG])),
        "views": views,
        "runs": runs,
        "list views": text_lists,
        "list of NULLs": null_lists,
        "NULLs in a struct": pa.StructArray.from_arrays(nulls, list("abcdefghi")),
    }


@pytest.mark.parametrize("name", repeated())
def test_values_that_are_used_many_times_count_each_time(server, raw, name):
    array = repeated()[name]
    *_, message = sent = messages(pa.record_batch({"s": array}), pa.ipc.IpcWriteOptions())
    assert sum(map(len, sent)) < LIMIT
    with grows_by_less_than(server, MARGIN):
        error = insert(raw, "s", array.type, sent[1:])
        with pytest.raises(grpc.RpcError) as arguments:
            bind(raw, stream(pa.record_batch({"s": array}), None, copies=1))
    assert error.code() is arguments.value.code() is TOO_MUCH
    assert message


def test_dictionaries_of_one_exchange_count_together(server, raw):
    kind = pa.dictionary(pa.int32(), pa.string())
    array = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([LONG]))
    _, dictionary, _ = messages(pa.record_batch({"s": array}), COMPRESSED)
    assert len(dictionary) < 10_000
    with grows_by_less_than(server, MARGIN):
        error = insert(raw, "s", kind, [dictionary] * 1_000)
    assert error.code() is TOO_MUCH
    assert "dictionaries" in error.details()


def test_a_message_that_grpc_would_unpack_is_refused(server):
    body = Action(type="create_schema", body=bytes(400 * MIB)).SerializeToString()
    with (
        grpc.insecure_channel(
            server.location.removeprefix("grpc://"),
            options=(("grpc.max_send_message_length", -1),),
            compression=grpc.Compression.Gzip,
        ) as channel,
        grows_by_less_than(server, MARGIN),
        pytest.raises(grpc.RpcError) as error,
    ):
        call: Any = channel.unary_stream(SERVICE + "DoAction", None, None)
        list(call(body))
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_path_of_millions_of_names_is_refused_before_decoding(server, raw):
    path = FlightDescriptor(type=FlightDescriptor.PATH, path=[""] * (7 * MIB))
    with grows_by_less_than(server, MARGIN):
        for method, answer in (("GetFlightInfo", FlightInfo), ("GetSchema", SchemaResult)):
            with pytest.raises(grpc.RpcError) as error:
                raw.single(method, path, answer)
            assert error.value.code() is WRONG
            assert "over 65536 bytes" in said(error)


def test_a_message_of_millions_of_fields_is_refused_before_decoding(server, raw):
    fields = b"".join(_tag(number) + b"\0" for number in range(2_000, 400_000))
    headers = (("airport-operation", "insert"), ("return-chunks", "0"))
    with grows_by_less_than(server, 2 * LIMIT), pytest.raises(grpc.RpcError) as error:
        list(raw.both_ways("DoExchange", [fields * 5], *headers))
    assert error.value.code() is WRONG
    assert "FlightData message is malformed" in said(error)


def _tag(number: int) -> bytes:
    value, out = number << 3 | 2, b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def test_a_dictionary_that_is_replaced_does_not_change_batches_before_it():
    """Two flushes have a batch each; the second flush replaces the dictionary."""
    one, two = (
        messages(pa.record_batch({"s": pa.array([text]).dictionary_encode()}), COMPRESSED)
        for text in ("first", "second")
    )
    header = split(one[0]).header
    assert header is not None
    decoder = BatchDecoder(header)
    found = []
    for group in ([*one[1:]], [one[2], *two[1:]], [two[2]]):
        for message in group:
            decoder.feed(split(message))
        found += [batch.column(0).to_pylist() for batch in decoder.flush()]
    assert found == [["first"], ["first"], ["second"], ["second"]]


def test_compressed_batches_within_the_limits_are_stored(server: ServerProcess):
    with connect(server.location, "memory") as client:
        client.create_table("s", "packed", ZEROS.schema)
        with Raw(server.location, ("airport-catalog", "memory")) as raw:
            headers = (("airport-operation", "insert"), ("return-chunks", "0"))
            sent = [opening(("s", "packed"), ZEROS.schema), messages(ZEROS, COMPRESSED)[1]]
            list(raw.both_ways("DoExchange", sent, *headers))
        assert client.read("s", "packed").num_rows == ZEROS.num_rows
        client.drop_table("s", "packed")
