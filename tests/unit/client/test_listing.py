import hashlib

import msgpack
import pyarrow as pa
import pytest

from jetbridge.catalog import CatalogVersion, SchemaInfo, TableInfo
from jetbridge.client.listing import read_listing, read_schemas, read_table, read_tables
from jetbridge.errors import NotSupported, ServerError
from jetbridge.wire.codec import encode
from jetbridge.wire.contents import Contents, compress, listing, schema_contents
from jetbridge.wire.flight_pb2 import FlightDescriptor, FlightInfo
from jetbridge.wire.schemas import wire_schema

COLUMNS = pa.schema([pa.field("id", pa.int32(), nullable=False), ("Name", pa.string())])


def flight(name="t", schema="s", catalog="cat", item_type="table", **info):
    table = TableInfo(name, COLUMNS, row_id=pa.int64(), **info)
    item = {"type": item_type, "catalog": catalog, "schema": schema, "name": name, "comment": None}
    return FlightInfo(
        schema=wire_schema(table).serialize().to_pybytes(),
        flight_descriptor=FlightDescriptor(type=FlightDescriptor.PATH, path=[schema, name]),
        total_records=7,
        app_metadata=encode(item),
    )


def refuse(schema):
    raise AssertionError(f"ListFlights was asked for {schema}")


def packed(*schemas, fixed=False):
    entries = [
        (SchemaInfo(name, f"about {name}", {"k": name}), schema_contents(flights))
        for name, flights in schemas
    ]
    return listing(entries, CatalogVersion(3, fixed))


def hand_made(contents, whole=None):
    empty = {"sha256": "", "url": None, "serialized": None}
    entry = {"name": "s", "description": "", "tags": {}, "contents": contents}
    body = {
        "contents": whole or empty,
        "schemas": [entry],
        "version_info": {"catalog_version": 1, "is_fixed": False},
    }
    return compress(encode(body))


@pytest.mark.parametrize("fixed", [False, True], ids=["by schema", "whole catalog"])
def test_schemas_and_tables_are_read_from_the_listing(fixed):
    flights = [flight("a").SerializeToString(), flight("b").SerializeToString()]
    body = packed(("s", flights), ("empty", []), fixed=fixed)
    first, second = read_schemas(read_listing(body), "cat", refuse)
    assert (first.name, first.comment, first.tags) == ("s", "about s", {"k": "s"})
    assert [table.name for table in first.tables] == ["a", "b"]
    assert second.tables == ()


def test_schema_without_contents_is_asked_for_by_list_flights():
    requested = []

    def list_flights(schema):
        requested.append(schema)
        return [flight("a"), FlightInfo(), flight("f", item_type="scalar_function")]

    body = hand_made(Contents().as_map())
    (schema,) = read_schemas(read_listing(body), "cat", list_flights)
    assert requested == ["s"]
    assert [table.name for table in schema.tables] == ["a"]


def test_table_listing_tells_columns_row_id_checks_and_descriptor():
    announced = flight(checks=("id > 0",))
    table = read_table(announced)
    assert table.schema.equals(COLUMNS)
    assert table.announced.names == ["id", "Name", "rowid"]
    assert table.row_id == pa.int64()
    assert table.checks == ("id > 0",)
    assert table.descriptor == announced.flight_descriptor.SerializeToString()
    assert table.total_records == 7
    assert [table.position(name) for name in ("ID", "name", "ROWID", "x")] == [0, 1, 2, None]


def test_contents_that_do_not_match_their_hash_are_refused():
    good = schema_contents([flight().SerializeToString()])
    body = hand_made(Contents("0" * 64, good.serialized).as_map())
    with pytest.raises(ServerError, match="SHA-256"):
        read_schemas(read_listing(body), "cat", refuse)


def test_whole_catalog_that_does_not_match_its_hash_is_refused():
    whole = Contents("0" * 64, encode([])).as_map()
    with pytest.raises(ServerError, match="the catalog do not match"):
        read_schemas(read_listing(hand_made(Contents().as_map(), whole)), "cat", refuse)


def test_schema_in_the_whole_catalog_that_does_not_match_its_hash_is_refused():
    data = encode([["0" * 64, b"x"]])
    whole = Contents(hashlib.sha256(data).hexdigest(), data).as_map()
    with pytest.raises(ServerError, match="a schema in the catalog do not match"):
        read_schemas(read_listing(hand_made(Contents().as_map(), whole)), "cat", refuse)


def test_contents_by_hash_alone_that_nobody_sent_are_refused():
    body = hand_made(Contents("0" * 64).as_map())
    with pytest.raises(ServerError, match="not in the listing"):
        read_schemas(read_listing(body), "cat", refuse)


def test_contents_on_a_web_page_are_not_supported():
    body = hand_made({"sha256": "0" * 64, "url": "http://x/y", "serialized": None})
    with pytest.raises(NotSupported, match="http://x/y"):
        read_schemas(read_listing(body), "cat", refuse)


@pytest.mark.parametrize("stray", [{"schema": "other"}, {"catalog": "other"}])
def test_table_of_another_schema_or_catalog_is_refused(stray):
    with pytest.raises(ServerError, match="the server lists"):
        list(read_tables([flight(**stray)], "cat", "s"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        encode([5, b"not zstd"]),
        encode(["x"]),
        encode([3, pa.compress(b"four", codec="zstd", asbytes=True)]),
        encode([9, pa.compress(b"four", codec="zstd", asbytes=True)]),
        compress(encode({"schemas": []})),
        compress(msgpack.packb([1])),
    ],
)
def test_malformed_listing_is_the_servers_error(body):
    with pytest.raises(ServerError, match="the server's answer to list_schemas"):
        read_listing(body)


@pytest.mark.parametrize("part", ["schema", "app_metadata"])
def test_malformed_flight_info_is_the_servers_error(part):
    broken = flight()
    setattr(broken, part, b"\xff")
    with pytest.raises(ServerError, match="FlightInfo"):
        read_table(broken)
