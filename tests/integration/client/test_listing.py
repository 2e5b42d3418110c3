"""What a client learns of a catalog when it attaches: schemas, their contents, the version."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, SchemaInfo, UniqueKey
from jetbridge.client import Client
from jetbridge.errors import ServerError
from jetbridge.service import Server
from jetbridge.wire import flight_pb2 as pb
from tests.helpers.wire_calls import (
    Wire,
    as_bytes,
    decompressed,
    flights_of,
    read_schema,
    unpack,
    unpack_listing,
)
from tests.integration.documents.example import parquet_folder

EMPTY = {"sha256": "", "url": None, "serialized": None}
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@pytest.fixture
def catalog() -> MemoryCatalog:
    """Return a catalog of three schemas: tables, a table with every property, and none."""
    made = MemoryCatalog()
    made.create_schema(SchemaInfo("sales", "what was sold", {"owner": "ada"}))
    made.create_schema(SchemaInfo("größe"))
    made.create_schema(SchemaInfo("empty"))
    columns = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("name", pa.string(), metadata={"default": "'none'", "comment": "of whom"}),
            pa.field("qty", pa.int64()),
        ]
    )
    orders = CreateTable(
        "Orders",
        columns,
        checks=("qty > 0",),
        keys=(UniqueKey(("id",), primary=True),),
        comment="all of them",
    )
    made.load_schema("sales").create_table(orders)
    made.load_schema("sales").create_table(CreateTable("empty", pa.schema([("a", pa.int8())])))
    made.load_schema("größe").create_table(CreateTable("länge", pa.schema([("m", pa.float64())])))
    return made


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.location) as raw:
        yield raw


def headers(catalog: str = "memory", schema: str = "") -> list[tuple[str, str]]:
    filters = [
        ("airport-list-flights-filter-catalog", catalog),
        ("airport-list-flights-filter-schema", schema),
    ]
    return [("airport-catalog", catalog), *(filters if schema else [])]


def list_schemas(wire: Wire, catalog: str = "memory") -> dict[str, Any]:
    answer = wire.action("list_schemas", {"catalog_name": catalog}, headers(catalog))
    assert answer.status == "OK", answer.message
    length, frame = msgpack.unpackb(answer.body, raw=True)
    assert frame.startswith(ZSTD_MAGIC)
    assert len(decompressed(answer.body)) == length
    return unpack_listing(answer.body)


def names_in(flights: list[pb.FlightInfo]) -> list[tuple[str, str, str]]:
    abouts = [unpack(flight.app_metadata) for flight in flights]
    return [(about["catalog"], about["schema"], about["name"]) for about in abouts]


# ---- list_schemas ---------------------------------------------------------------------------


def test_schemas_are_listed_with_comment_tags_and_inline_contents(wire: Wire) -> None:
    listing = list_schemas(wire)
    assert listing["contents"] == EMPTY, "a catalog that changes must not fill the client's cache"
    described = [(s["name"], s["description"], s["tags"]) for s in listing["schemas"]]
    assert sorted(described) == [
        ("empty", "", {}),
        ("größe", "", {}),
        ("sales", "what was sold", {"owner": "ada"}),
    ]
    for schema in listing["schemas"]:
        contents = schema["contents"]
        assert contents["url"] is None
        digest = hashlib.sha256(as_bytes(contents["serialized"])).hexdigest()
        assert contents["sha256"] == digest
        assert type(schema["is_default"]) is bool
    assert listing["version_info"]["is_fixed"] is False


def test_contents_of_a_schema_hold_its_tables_as_flights(wire: Wire) -> None:
    found = {s["name"]: flights_of(s["contents"]) for s in list_schemas(wire)["schemas"]}
    assert {name: sorted(names_in(flights)) for name, flights in found.items()} == {
        "empty": [],
        "größe": [("memory", "größe", "länge")],
        "sales": [("memory", "sales", "Orders"), ("memory", "sales", "empty")],
    }


def test_a_table_is_told_with_its_constraints_defaults_and_comments(wire: Wire) -> None:
    listing = list_schemas(wire)
    (contents,) = (s["contents"] for s in listing["schemas"] if s["name"] == "sales")
    (flight,) = (f for f in flights_of(contents) if names_in([f])[0][2] == "Orders")
    about = unpack(flight.app_metadata)
    assert (about["type"], about["comment"]) == ("table", "all of them")
    schema = read_schema(flight.schema)
    assert unpack(schema.metadata[b"check_constraints"]) == {"constraints": ["(qty > 0)"]}
    told = [(f.name, f.type, f.nullable, f.metadata or {}) for f in schema]
    assert told == [
        ("id", pa.int32(), False, {}),
        ("name", pa.string(), True, {b"default": b"'none'", b"comment": b"of whom"}),
        ("qty", pa.int64(), True, {}),
        ("rowid", pa.int64(), True, {b"is_rowid": b"1"}),
    ]


def test_the_catalog_is_told_as_the_client_spells_it(wire: Wire) -> None:
    """Return the name letter by letter: the client compares it with that in its ATTACH."""
    listing = list_schemas(wire, "MeMoRy")
    for schema in listing["schemas"]:
        assert {name[0] for name in names_in(flights_of(schema["contents"]))} <= {"MeMoRy"}


def test_create_schema_answers_the_contents_that_a_listing_will_have(wire: Wire) -> None:
    body: Any = {"catalog_name": "memory", "schema": "Neu", "comment": None, "tags": {}}
    answer = wire.action("create_schema", body, headers())
    assert answer.status == "OK", answer.message
    contents = unpack(answer.body)
    serialized = as_bytes(contents["serialized"])
    assert contents["sha256"] == hashlib.sha256(serialized).hexdigest()
    assert flights_of(contents) == []
    (listed,) = (s for s in list_schemas(wire)["schemas"] if s["name"] == "Neu")
    assert listed["contents"] == contents


# ---- a catalog that never changes -----------------------------------------------------------


@pytest.fixture
def fixed(tmp_path: Path) -> Iterator[Wire]:
    for name in ("north", "south"):
        folder = tmp_path / name
        folder.mkdir()
        for table in ("one", "two"):
            pq.write_table(pa.table({"where": [f"{name}.{table}"]}), folder / f"{table}.parquet")
    with Server({"files": parquet_folder().ParquetFolder(tmp_path)}, port=0) as server:
        server.start()
        with Wire(server.location) as raw:
            yield raw


def test_a_fixed_catalog_is_sent_whole_and_its_schemas_by_hash(fixed: Wire) -> None:
    listing = list_schemas(fixed, "files")
    assert listing["version_info"] == {"catalog_version": 1, "is_fixed": True}
    whole = listing["contents"]
    serialized = as_bytes(whole["serialized"])
    assert whole["sha256"] == hashlib.sha256(serialized).hexdigest()
    parts = {sha.decode(): data for sha, data in msgpack.unpackb(serialized, raw=True)}
    for sha, data in parts.items():
        assert sha == hashlib.sha256(data).hexdigest()
    found = {}
    for schema in listing["schemas"]:
        contents = schema["contents"]
        assert (contents["url"], contents["serialized"]) == (None, None)
        flights = flights_of({"serialized": parts[contents["sha256"]]})
        found[schema["name"]] = names_in(flights)
    assert found == {
        name: [("files", name, "one"), ("files", name, "two")] for name in ("north", "south")
    }


def test_a_fixed_catalog_has_the_same_hash_at_the_next_attach(fixed: Wire) -> None:
    """Keep the client's cache on disk useful: with another hash it would only grow."""
    first, second = (list_schemas(fixed, "files") for _ in range(2))
    assert first["contents"]["sha256"] == second["contents"]["sha256"]


def test_a_table_without_row_ids_has_no_rowid_column(fixed: Wire) -> None:
    answer = fixed.call("ListFlights", b"", headers("files", "north"))
    flights = [pb.FlightInfo.FromString(message) for message in answer.messages]
    assert [read_schema(flight.schema).names for flight in flights] == [["where"], ["where"]]


# ---- ListFlights ----------------------------------------------------------------------------


def list_flights(wire: Wire, sent: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    answer = wire.call("ListFlights", b"", sent)
    assert answer.status == "OK", answer.message
    return sorted(names_in([pb.FlightInfo.FromString(m) for m in answer.messages]))


def test_list_flights_with_both_filters_has_one_schema_only(wire: Wire) -> None:
    assert list_flights(wire, headers(schema="sales")) == [
        ("memory", "sales", "Orders"),
        ("memory", "sales", "empty"),
    ]
    assert list_flights(wire, headers(schema="empty")) == []


def test_list_flights_tells_the_same_as_the_inline_contents(wire: Wire) -> None:
    (contents,) = (s["contents"] for s in list_schemas(wire)["schemas"] if s["name"] == "sales")
    answer = wire.call("ListFlights", b"", headers(schema="sales"))
    assert [pb.FlightInfo.FromString(m) for m in answer.messages] == flights_of(contents)


def test_list_flights_of_an_unknown_schema_or_catalog_is_not_found(wire: Wire) -> None:
    assert wire.call("ListFlights", b"", headers(schema="nope")).status == "NOT_FOUND"
    assert wire.call("ListFlights", b"", headers("nope", "sales")).status == "NOT_FOUND"


def test_list_flights_without_filters_has_every_catalog(catalog: MemoryCatalog) -> None:
    other = MemoryCatalog()
    other.create_schema(SchemaInfo("s"))
    other.load_schema("s").create_table(CreateTable("t", pa.schema([("a", pa.int8())])))
    with Server({"memory": catalog, "other": other}, port=0) as server:
        server.start()
        with Wire(server.location) as wire:
            assert list_flights(wire, []) == [
                ("memory", "größe", "länge"),
                ("memory", "sales", "Orders"),
                ("memory", "sales", "empty"),
                ("other", "s", "t"),
            ]
            assert list_flights(wire, headers("other")) == [("other", "s", "t")]


# ---- catalog_version ------------------------------------------------------------------------

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.int32())])

DDL: dict[str, Callable[[Client], object]] = {
    "create_schema": lambda c: c.create_schema("new"),
    "drop_schema": lambda c: c.drop_schema("empty"),
    "create_table": lambda c: c.create_table("s", "new", pa.schema([("a", pa.int32())])),
    "drop_table": lambda c: c.drop_table("s", "t"),
    "add_column": lambda c: c.add_column("s", "t", pa.field("new", pa.int32())),
    "remove_column": lambda c: c.remove_column("s", "t", "b"),
    "rename_column": lambda c: c.rename_column("s", "t", "b", "c"),
    "rename_table": lambda c: c.rename_table("s", "t", "u"),
    "set_default": lambda c: c.set_default("s", "t", "a", "1"),
    "change_column_type": lambda c: c.change_column_type("s", "t", pa.field("a", pa.int64())),
    "set_not_null": lambda c: c.set_not_null("s", "t", "b"),
    "drop_not_null": lambda c: c.drop_not_null("s", "t", "a"),
    "add_constraint": lambda c: c.add_constraint("s", "t", "CHECK (a > 0)"),
    "add_field": lambda c: c.add_field("s", "t", ["st"], pa.field("z", pa.int32())),
    "remove_field": lambda c: c.remove_field("s", "t", ["st", "x"]),
    "rename_field": lambda c: c.rename_field("s", "t", ["st", "x"], "w"),
}
NO_DDL = {
    *("list_schemas", "catalog_version", "create_transaction", "endpoints", "flight_info"),
    *("table_function_flight_info", "set_layout"),
}


@pytest.fixture
def small(client: Client) -> Client:
    """Return an empty schema, and a table s.t to alter."""
    if not any(schema.name == "s" for schema in client.list_schemas()):
        client.create_schema("s")
        fields = [pa.field("a", pa.int32(), nullable=False), ("b", pa.string()), ("st", STRUCT)]
        client.create_table("s", "t", pa.schema(fields))
    return client


def test_every_action_either_raises_the_version_or_is_known_not_to(client: Client) -> None:
    assert {action.name for action in client.list_actions()} == {*DDL, *NO_DDL}


@pytest.mark.parametrize("action", DDL)
def test_every_ddl_action_raises_the_catalog_version(small: Client, action: str) -> None:
    before = small.catalog_version()
    assert before.fixed is False
    DDL[action](small)
    after = small.catalog_version()
    assert after.number > before.number
    body = small.action("list_schemas", msgpack.packb({"catalog_name": "memory"}))[0]
    assert unpack_listing(body)["version_info"]["catalog_version"] == after.number


def test_rows_and_failed_ddl_leave_the_catalog_version_alone(small: Client) -> None:
    before = small.catalog_version()
    small.insert("s", "t", pa.table({"a": pa.array([1, 2], pa.int32())}))
    small.read("s", "t")
    for failing in (
        lambda: small.create_schema("s"),
        lambda: small.drop_schema("s"),
        lambda: small.drop_table("s", "nope"),
        lambda: small.rename_column("s", "t", "nope", "c"),
        lambda: small.add_column("s", "t", pa.field("a", pa.int32())),
        lambda: small.set_not_null("s", "t", "b"),
        lambda: small.add_constraint("s", "t", "CHECK (a > 1)"),
    ):
        with pytest.raises(ServerError):
            failing()
    assert small.catalog_version() == before
