"""Depth, count and size of a msgpack body are limited before any object is created.

Attacked: 8 MiB of empty maps, of which each is one byte, took 614 MiB.
"""

import struct

import grpc
import msgpack
import pytest

from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.wire.codec import decode, decode_text, unpack
from jetbridge.wire.limits import InputLimits
from jetbridge.wire.messages import CreateSchemaRequest, CreateTableRequest
from tests.helpers.raw import descriptor, said
from tests.security.input.conftest import MIB, grows_by_less_than

MOST = 8 * MIB  # limits.request_bytes
RUN = descriptor("memory", "jetbridge", "table_function", "run")
MARGIN = 64 * MIB
EVERY_FORM = [
    None, True, False, 0, 127, 128, 2**16, 2**32, -1, -32, -33, -(2**15) - 1, -(2**31) - 1, 1.5,
    "", "x" * 31, "x" * 32, "x" * 256, "x" * 65_536, b"", b"x" * 256, b"x" * 65_536,
    [], [1] * 15, [1] * 16, [1] * 65_536, {}, {"a": {"b": [{}]}}, {str(n): n for n in range(16)},
    msgpack.ExtType(1, b"x"), msgpack.ExtType(1, b"xyz"), msgpack.ExtType(1, b"x" * 300),
    msgpack.ExtType(1, b"x" * 70_000), *(msgpack.ExtType(1, b"x" * 2**n) for n in range(1, 5)),
]  # fmt: skip


def bombs() -> dict[str, bytes]:
    size = MOST - 16
    pairs = b"".join(struct.pack(">BI", 0xCE, n) + b"\x80" for n in range(size // 6))
    return {
        "maps in a list": b"\xdd" + struct.pack(">I", size) + b"\x80" * size,
        "lists in a list": b"\xdd" + struct.pack(">I", size) + b"\x90" * size,
        "numbers in a list": b"\xdd" + struct.pack(">I", size) + b"\x01" * size,
        "maps in a map": b"\xdf" + struct.pack(">I", size // 6) + pairs,
        "map in map": b"\x81\xa1x" * (size // 3) + b"\xc0",
        "list in list": b"\x91" * size + b"\xc0",
        "lists of lists": b"\xdc\xff\xff" + (b"\xdc\x00\x80" + b"\x80" * 128) * 65_535,
        "promised items": b"\xdd\xff\xff\xff\xff",
        "promised text": b"\xdb\xff\xff\xff\xff",
        "only maps": b"\x80" * size,
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", bombs())
@pytest.mark.parametrize("within", [False, True])
def test_millions_of_small_items_are_refused_before_decoding(server, raw, name, within):
    body = bombs()[name][: MOST - 16]
    if within:
        body = b"\x81\xa6schema" + body
    with grows_by_less_than(server, MARGIN), pytest.raises(grpc.RpcError) as error:
        raw.action("create_schema", body)
    codes = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert error.value.code() in codes
    assert said(error).startswith("create_schema: the body")


@pytest.mark.parametrize("start", [b"\x81\xa6schema\xdb\x00\x90\x00\x00", b'{"schema": "'])
def test_a_body_over_the_limit_is_refused_with_the_limit(server, raw, start):
    with grows_by_less_than(server, MARGIN), pytest.raises(grpc.RpcError) as error:
        raw.action("set_layout", start + b"x" * 9 * MIB)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"limits.request_bytes ({MOST})" in said(error)


def test_filters_of_millions_of_objects_are_refused_before_decoding(server, raw):
    for item in ("{},", "[],"):
        filters = "[" + item * (7 * MIB // 3) + "0]"
        with grows_by_less_than(server, 2 * MARGIN), pytest.raises(grpc.RpcError) as error:
            raw.endpoints(RUN, json_filters=filters, table_function_parameters="x")
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "json_filters has more than 300000 lists" in said(error)


# --- the check itself


@pytest.mark.parametrize("value", EVERY_FORM, ids=lambda value: repr(value)[:20])
def test_every_form_of_msgpack_is_measured_as_it_is(value):
    body = msgpack.packb([value, "end"], strict_types=False)
    limits = InputLimits()
    assert unpack(body, "x", limits) == msgpack.unpackb(body, raw=True, strict_map_key=False)
    for end in {*range(min(len(body), 40)), len(body) - 1}:
        with pytest.raises(ValueError, match=r"cut short|after its value"):
            unpack(body[:end], "x", limits)
    with pytest.raises(ValueError, match="after its value"):
        unpack(body + b"\xc0", "x", limits)


def test_a_byte_that_msgpack_does_not_use_is_refused():
    with pytest.raises(ValueError, match="0xc1"):
        unpack(b"\x91\xc1", "x", InputLimits())


def test_items_are_counted_to_the_last():
    limits = InputLimits(request_items=10)
    assert unpack(msgpack.packb([[1] * 4, [1] * 4]), "x", limits)
    assert unpack(msgpack.packb([{"a": 1, "b": 2}, {"a": 1, "b": 2}]), "x", limits)
    for value in ([[1] * 4, [1] * 5], [{"a": 1, "b": 2}, {"a": 1, "b": 2}, 3], [1] * 11):
        with pytest.raises(LimitExceeded, match="x: the body has more than 10 items"):
            unpack(msgpack.packb(value), "x", limits)


def test_depth_is_counted():
    value: object = 1
    for _ in range(16):
        value = [value]
    limits = InputLimits(request_depth=16)
    assert unpack(msgpack.packb(value), "x", limits) == value
    with pytest.raises(ValueError, match="nested too deep"):
        unpack(msgpack.packb([value]), "x", limits)


def test_a_table_of_thousands_of_columns_is_within_the_limits():
    names = [f"column_{n}" for n in range(10_000)]
    body = msgpack.packb(
        {"schema_name": "s", "table_name": "t", "arrow_schema": bytes(MIB), "unique_columns": names}
    )
    assert decode(CreateTableRequest, body, "create_table").unique_columns == names


def test_json_is_bounded_too():
    with pytest.raises(LimitExceeded, match="request_bytes"):
        decode_text(CreateSchemaRequest, b" " * 11, "x", InputLimits(request_bytes=10))
    with pytest.raises(BadRequest, match="schema"):
        decode_text(CreateSchemaRequest, b"{}", "x", InputLimits(request_bytes=10))
