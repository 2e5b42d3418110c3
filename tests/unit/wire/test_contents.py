"""Listings as the client unpacks and checks them."""

import hashlib
from typing import Any

import msgpack
import pyarrow as pa

from jetbridge.catalog import CatalogVersion, SchemaInfo
from jetbridge.wire.contents import Contents, listing, schema_contents


def unpacked(data: bytes | None) -> Any:
    assert data is not None
    length, frame = msgpack.unpackb(data)
    return msgpack.unpackb(
        pa.decompress(frame, decompressed_size=length, codec="zstd", asbytes=True)
    )


def test_contents_hash_to_what_they_say() -> None:
    contents = schema_contents([b"one", b"two"])
    assert contents.serialized is not None
    assert hashlib.sha256(contents.serialized).hexdigest() == contents.sha256
    assert unpacked(contents.serialized) == [b"one", b"two"]


def test_a_changing_catalog_is_listed_schema_by_schema() -> None:
    inner = schema_contents([b"one"])
    answer = unpacked(listing([(SchemaInfo("s", "note", {"k": "v"}), inner)], CatalogVersion(7)))
    assert answer == {
        "contents": {"sha256": "", "url": None, "serialized": None},
        "schemas": [
            {
                "name": "s",
                "description": "note",
                "tags": {"k": "v"},
                "contents": {"sha256": inner.sha256, "url": None, "serialized": inner.serialized},
                "is_default": False,
            }
        ],
        "version_info": {"catalog_version": 7, "is_fixed": False},
    }


def test_a_fixed_catalog_is_listed_whole() -> None:
    schemas = [(SchemaInfo("a"), schema_contents([b"1"])), (SchemaInfo("b"), schema_contents([]))]
    answer = unpacked(listing(schemas, CatalogVersion(1, fixed=True)))
    whole = answer["contents"]
    assert hashlib.sha256(whole["serialized"]).hexdigest() == whole["sha256"]
    assert msgpack.unpackb(whole["serialized"]) == [[c.sha256, c.serialized] for _, c in schemas]
    assert [s["contents"] for s in answer["schemas"]] == [
        Contents(c.sha256).as_map() for _, c in schemas
    ]
