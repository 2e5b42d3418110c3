"""Schemas as clients see them."""

import msgpack
import pyarrow as pa
import pytest

from jetbridge.catalog import TableInfo
from jetbridge.errors import BadRequest
from jetbridge.wire.schemas import read_schema, read_single_field, wire_schema, wire_type

ENUM = pa.dictionary(pa.uint8(), pa.string())


@pytest.mark.parametrize(
    ("data_type", "sent"),
    [
        (ENUM, pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.int64()), pa.int64()),
        (pa.list_(pa.field("l", ENUM)), pa.list_(pa.field("l", pa.string()))),
        (pa.large_list(ENUM), pa.large_list(pa.string())),
        (pa.list_(pa.field("", ENUM), 3), pa.list_(pa.field("", pa.string()), 3)),
        (pa.struct({"a": ENUM, "b": pa.int8()}), pa.struct({"a": pa.string(), "b": pa.int8()})),
        (pa.map_(pa.string(), ENUM), pa.map_(pa.string(), pa.string())),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.uuid(), pa.uuid()),
    ],
)
def test_dictionaries_are_sent_as_their_values(data_type: pa.DataType, sent: pa.DataType) -> None:
    assert wire_type(data_type) == sent


def test_the_row_id_is_the_last_column_and_marked() -> None:
    info = TableInfo("t", pa.schema([pa.field("a", pa.int32(), nullable=False)]), row_id=pa.int64())
    sent = wire_schema(info)
    assert sent.names == ["a", "rowid"]
    assert not sent.field("a").nullable
    assert sent.field("rowid").metadata == {b"is_rowid": b"1"}
    assert sent.metadata is None


def test_checks_are_told_to_the_client() -> None:
    sent = wire_schema(TableInfo("t", pa.schema({"a": pa.int32()}), checks=("(a > 0)",)))
    assert msgpack.unpackb(sent.metadata[b"check_constraints"]) == {"constraints": ["(a > 0)"]}
    assert sent.names == ["a"]


def test_a_schema_is_read_or_refused() -> None:
    schema = pa.schema({"a": pa.int32()})
    assert read_schema(schema.serialize().to_pybytes(), "x") == schema
    for broken in (b"", b"\xff" * 40, schema.serialize().to_pybytes()[:20]):
        with pytest.raises(BadRequest, match="^x is not an Arrow IPC schema"):
            read_schema(broken, "x")


def test_exactly_one_field_is_wanted() -> None:
    one = pa.schema({"a": pa.int32()})
    assert read_single_field(one.serialize().to_pybytes(), "x") == one.field(0)
    for fields in ({}, {"a": pa.int32(), "b": pa.int32()}):
        with pytest.raises(BadRequest, match="exactly one field"):
            read_single_field(pa.schema(fields).serialize().to_pybytes(), "x")
