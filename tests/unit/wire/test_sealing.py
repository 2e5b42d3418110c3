"""Seals."""

import pyarrow as pa
import pytest

from jetbridge.errors import BadRequest
from jetbridge.wire.flight_pb2 import FlightDescriptor
from jetbridge.wire.tickets import (
    DescriptorName,
    Ticket,
    TicketSealer,
    fingerprint,
    read_descriptor,
)

SEALER = TicketSealer(lambda: [b"k" * 32])
TICKET = Ticket("cat", "s", "t", version=3, columns=["a"], filters="{}", part="0-4")
NAME = DescriptorName("s", "orders", "table", "AbCdEfGhIjKl")


def path(*parts: str) -> FlightDescriptor:
    return FlightDescriptor(type=FlightDescriptor.PATH, path=parts)


def test_a_ticket_opens_as_it_was_sealed() -> None:
    assert SEALER.open_ticket(SEALER.seal_ticket(TICKET)) == TICKET


def test_a_ticket_of_another_key_is_refused() -> None:
    with pytest.raises(BadRequest, match="this server did not create"):
        TicketSealer(lambda: [b"x" * 32]).open_ticket(SEALER.seal_ticket(TICKET))


def test_a_ticket_with_any_byte_altered_is_refused() -> None:
    sealed = SEALER.seal_ticket(TICKET)
    for position in range(len(sealed)):
        for mask in (0x01, 0x80, 0xFF):
            altered = bytearray(sealed)
            altered[position] ^= mask
            with pytest.raises(BadRequest):
                SEALER.open_ticket(bytes(altered))


@pytest.mark.parametrize("short", [b"", b"x", b"x" * 16])
def test_a_ticket_cut_short_is_refused(short: bytes) -> None:
    with pytest.raises(BadRequest):
        SEALER.open_ticket(short)


def test_a_descriptor_begins_with_schema_and_table_and_opens() -> None:
    descriptor = SEALER.descriptor("cat", NAME)
    assert list(descriptor.path)[:2] == ["s", "orders"]
    assert SEALER.open_descriptor("cat", descriptor) == NAME


def test_a_descriptor_is_good_for_its_catalog_only() -> None:
    with pytest.raises(BadRequest, match="DETACH and ATTACH"):
        SEALER.open_descriptor("other", SEALER.descriptor("cat", NAME))


def test_a_ticket_seal_does_not_seal_descriptors() -> None:
    mac = SEALER.seal_ticket(TICKET)[:16].hex()
    with pytest.raises(BadRequest):
        SEALER.open_descriptor("cat", path("s", "orders", f"table..{mac}"))


@pytest.mark.parametrize("name", ["größe", "a/b", "100%", "a b", "new\nline", "%41", "名前"])
def test_any_name_travels_as_printable_ascii(name: str) -> None:
    descriptor = SEALER.descriptor("cat", DescriptorName(name, name))
    assert all(part.isascii() and part.isprintable() for part in descriptor.path)
    opened = SEALER.open_descriptor("cat", descriptor)
    assert (opened.schema, opened.name) == (name, name)


def test_a_plain_path_is_a_name() -> None:
    assert SEALER.open_descriptor("cat", path("s", "t")) == DescriptorName("s", "t")
    assert SEALER.open_descriptor("cat", path("cat", "s", "table", "t")) == DescriptorName("s", "t")


@pytest.mark.parametrize(
    "descriptor",
    [
        path(),
        path("s"),
        path("s", ""),
        path("a", "b", "c", "d"),
        path("a", "b", "c"),
        path("a", "b", "c", "d", "e"),
        FlightDescriptor(type=FlightDescriptor.CMD, cmd=b"SELECT 1"),
        FlightDescriptor(),
    ],
)
def test_other_descriptors_are_refused(descriptor: FlightDescriptor) -> None:
    with pytest.raises(BadRequest, match="descriptor"):
        SEALER.open_descriptor("cat", descriptor)


def test_bytes_that_are_no_descriptor_are_refused() -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        read_descriptor(b"\xff\xff\xff")


LAID_OUT = pa.schema([("a", pa.int64()), ("b", pa.struct([("x", pa.int32())]))])


@pytest.mark.parametrize(
    "other",
    [
        pa.schema([("a", pa.int32()), LAID_OUT.field("b")]),
        pa.schema([("a", pa.uint64()), LAID_OUT.field("b")]),
        pa.schema([LAID_OUT.field("a"), ("b", pa.struct([("x", pa.int64())]))]),
        pa.schema([LAID_OUT.field("a"), ("b", pa.struct([("y", pa.int32())]))]),
        pa.schema([("c", pa.int64()), LAID_OUT.field("b")]),
        pa.schema([LAID_OUT.field("b"), LAID_OUT.field("a")]),
        pa.schema([LAID_OUT.field("a")]),
    ],
)
def test_a_fingerprint_covers_names_types_and_their_order(other: pa.Schema) -> None:
    assert fingerprint(other) != fingerprint(LAID_OUT)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.timestamp("us"), pa.timestamp("ns")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.uuid(), pa.binary(16)),
        (pa.list_(pa.int8()), pa.list_(pa.int8(), 2)),
    ],
)
def test_a_fingerprint_covers_the_parameters_of_types(one: pa.DataType, other: pa.DataType) -> None:
    assert fingerprint(pa.schema([("a", one)])) != fingerprint(pa.schema([("a", other)]))


def test_a_fingerprint_leaves_out_what_does_not_change_the_rows() -> None:
    field = LAID_OUT.field("a").with_nullable(False).with_metadata({"default": "1"})
    assert fingerprint(LAID_OUT.set(0, field)) == fingerprint(LAID_OUT)
