"""msgpack as msgpack-c packs it."""

import msgpack
import pytest

from jetbridge.errors import BadRequest
from jetbridge.wire.codec import Blob, decode, decode_text, encode, is_text
from jetbridge.wire.messages import (
    AddFieldRequest,
    ColumnRequest,
    CreateSchemaRequest,
    CreateTableRequest,
    SetLayoutRequest,
)

TABLE = {"schema_name": "s", "table_name": "t", "on_conflict": "error"}


@pytest.mark.parametrize("as_text", [True, False])
def test_binary_arrives_whole_however_it_was_packed(as_text: bool) -> None:
    binary = bytes(range(256))
    if as_text:
        packed = msgpack.packb(
            {**TABLE, "arrow_schema": binary.decode("utf-8", "surrogateescape")},
            unicode_errors="surrogateescape",
        )
    else:
        packed = msgpack.packb({**TABLE, "arrow_schema": binary})
    assert decode(CreateTableRequest, packed, "create_table").arrow_schema == Blob(binary)


def test_unknown_keys_are_passed_over_and_a_key_may_come_twice() -> None:
    # set_not_null packs ignore_not_found twice
    body = b"\x85" + b"".join(
        msgpack.packb(part)
        for part in ("schema", "s", "name", "t", "column_name", "c")
        + ("ignore_not_found", False, "ignore_not_found", True)
    )
    assert decode(ColumnRequest, body, "set_not_null").ignore_not_found is True
    assert (
        decode(CreateSchemaRequest, msgpack.packb({"schema": "s", "new": [1]}), "x").schema == "s"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not the expected msgpack map"),
        (b"\xc1", "not the expected msgpack map"),
        (b"\x80", "field 'schema' is required"),
        (b"\x80\x80", "not the expected msgpack map"),
        (msgpack.packb([]), "Expected 'object'"),
        (msgpack.packb({"schema": ""}), "field 'schema' must not be empty"),
        (msgpack.packb({"schema": 7}), "Expected 'str', got 'int' - at '$.schema'"),
        (msgpack.packb({"schema": b"bin"}), "at '$.schema'"),
        (msgpack.packb({"schema": "s", "tags": {"k": 1}}), "at '$.tags[...]'"),
        (b"\x81\xa6schema\xa2\xff\xfe", "not valid UTF-8"),
        (b"\x81" * 5000, "not the expected msgpack map"),
    ],
)
def test_a_wrong_body_is_refused_with_the_field(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode(CreateSchemaRequest, body, "create_schema")
    assert str(refused.value).startswith("create_schema: ")
    assert words in str(refused.value)


def test_broken_text_is_found_inside_lists() -> None:
    body = msgpack.packb(
        {"schema": "s", "name": "t", "column_path": ["a", "\udcff"], "column_schema": b""},
        unicode_errors="surrogateescape",
    )
    with pytest.raises(BadRequest, match="UTF-8"):
        decode(AddFieldRequest, body, "add_field")


def test_a_blob_takes_no_number() -> None:
    with pytest.raises(BadRequest, match="arrow_schema"):
        decode(CreateTableRequest, msgpack.packb({**TABLE, "arrow_schema": 3}), "create_table")


def test_json_is_told_from_msgpack_and_decoded():
    body = b' {"schema": "s", "name": "t", "partition_by": "region", "unknown": 1}'
    assert is_text(body)
    assert not is_text(encode({"schema": "s"}))
    assert decode_text(SetLayoutRequest, body, "set_layout") == SetLayoutRequest(
        schema="s", name="t", partition_by="region"
    )


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"{", "set_layout"),
        (b'{"schema": "s"}', "field 'name' is required"),
        (b'{"schema": "s", "name": ""}', "field 'name' must not be empty"),
        (b'{"schema": "s", "name": 5}', "name"),
        (b'{"schema": "\xff", "name": "t"}', "set_layout"),
        (b"{" * 100_000, "set_layout"),
    ],
)
def test_json_that_does_not_fit_is_refused(body, word):
    with pytest.raises(BadRequest, match=word):
        decode_text(SetLayoutRequest, body, "set_layout")
