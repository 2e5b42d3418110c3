"""Several catalogs, for callers that name none: plain Flight clients send no header."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, DMLOptions, SchemaInfo
from jetbridge.service import Server, Token
from jetbridge.wire import flight_pb2 as pb
from tests.helpers.wire_calls import (
    Wire,
    flights_of,
    read_rows,
    read_schema,
    tickets_in,
    unpack,
    unpack_listing,
)

COLUMNS = pa.schema({"id": pa.int64()})


def filled(value: int) -> MemoryCatalog:
    catalog = MemoryCatalog()
    table = catalog.create_schema(SchemaInfo("s")).create_table(CreateTable("t", COLUMNS))
    with table.inserting(DMLOptions()) as write:
        write(pa.record_batch({"id": [value]}, schema=COLUMNS))
    return catalog


@pytest.fixture
def plain():
    with Server({"one": filled(1), "two": filled(2)}, port=0) as server:
        server.start()
        with flight.connect(server.location) as client:
            yield client


def read(client: flight.FlightClient, info: flight.FlightInfo) -> list[int]:
    found: list[int] = client.do_get(info.endpoints[0].ticket).read_all()["id"].to_pylist()
    return found


def test_every_listed_flight_can_be_asked_for_and_read(plain) -> None:
    listed = list(plain.list_flights())
    again = [plain.get_flight_info(info.descriptor) for info in listed]
    assert [read(plain, info) for info in listed] == [[1], [2]]
    assert [read(plain, info) for info in again] == [[1], [2]]


def test_a_plain_path_means_the_first_catalog(plain) -> None:
    info = plain.get_flight_info(flight.FlightDescriptor.for_path("s", "t"))
    assert read(plain, info) == [1]


def test_a_path_may_begin_with_the_catalog(plain) -> None:
    for name, value in (("one", 1), ("two", 2), ("TWO", 2)):
        path = flight.FlightDescriptor.for_path(name, "s", "table", "t")
        assert read(plain, plain.get_flight_info(path)) == [value]
    with pytest.raises(pa.ArrowInvalid, match="path"):
        plain.get_flight_info(flight.FlightDescriptor.for_path("three", "s", "table", "t"))


# --- ATTACH '' and airport_databases, as DuckDB's client sends them

DUCKDB = [("airport-user-agent", "airport/20250723")]  # an empty catalog has no header


@pytest.fixture
def two() -> Iterator[Server]:
    tokens = [Token("all", "a" * 32), Token("second", "b" * 32, frozenset({"two"}))]
    with Server({"one": filled(1), "two": filled(2)}, port=0, tokens=tokens) as server:
        server.start()
        yield server


def with_token(token: str) -> list[tuple[str, str]]:
    return [*DUCKDB, ("authorization", f"Bearer {token * 32}")]


def scan_of(descriptor: pb.FlightDescriptor) -> dict[str, Any]:
    parameters = {"json_filters": "", "column_ids": [0], "at_unit": "", "at_value": ""}
    return {"descriptor": descriptor.SerializeToString(), "parameters": parameters}


@pytest.mark.parametrize(("token", "value"), [("a", 1), ("b", 2)])
def test_an_empty_name_means_the_first_catalog_and_is_the_name_of_its_items(two, token, value):
    headers = with_token(token)
    with Wire(two.location) as wire:
        for action in ("create_transaction", "catalog_version"):
            assert wire.action(action, {"catalog_name": ""}, headers).status == "OK"
        listing = unpack_listing(wire.action("list_schemas", {"catalog_name": ""}, headers).body)
        (schema,) = listing["schemas"]
        (table,) = flights_of(schema["contents"])
        assert unpack(table.app_metadata)["catalog"] == ""
        filters = [("airport-list-flights-filter-catalog", "")]
        (listed,) = wire.call("ListFlights", b"", [*headers, *filters]).messages
        assert unpack(pb.FlightInfo.FromString(listed).app_metadata)["catalog"] == ""
        answer = wire.action("endpoints", scan_of(table.flight_descriptor), headers)
        rows = read_rows(wire.get(tickets_in(answer), headers)).to_pydict()
    assert rows["id"] == [value]


def test_what_is_made_in_a_catalog_without_a_name_has_none(two):
    headers = with_token("b")
    schema = pa.schema({"a": pa.int32()}).serialize().to_pybytes()
    table = {"catalog_name": "", "schema_name": "s", "table_name": "n", "arrow_schema": schema}
    column = {"catalog": "", "schema": "s", "name": "n", "new_name": "b", "old_name": "a"}
    with Wire(two.location) as wire:
        created = wire.action("create_table", table, headers)
        altered = wire.action("rename_column", column, headers)
        names = [unpack(pb.FlightInfo.FromString(a.body).app_metadata) for a in (created, altered)]
        assert [(name["catalog"], name["name"]) for name in names] == [("", "n")] * 2
        listed = wire.call("ListFlights", b"", headers).messages
    items = [unpack(pb.FlightInfo.FromString(message).app_metadata) for message in listed]
    assert [(item["catalog"], item["name"]) for item in items] == [("two", "n"), ("two", "t")]


@pytest.mark.parametrize(("token", "names"), [("a", ["one", "two"]), ("b", ["two"])])
def test_airport_databases_lists_the_catalogs_that_the_token_allows(two, token, names):
    headers = with_token(token)
    asked = pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=["__databases"])
    with Wire(two.location) as wire:
        answer = wire.call("GetFlightInfo", asked.SerializeToString(), headers)
        info = pb.FlightInfo.FromString(answer.messages[0])
        assert info.flight_descriptor == asked
        assert read_schema(info.schema) == pa.schema(
            [pa.field("name", pa.string(), nullable=False)]
        )
        assert info.total_records == len(names)
        endpoints = wire.action("endpoints", scan_of(info.flight_descriptor), headers)
        rows = read_rows(wire.get(tickets_in(endpoints), headers))
        # A ticket gives nobody more than his own token does.
        others = read_rows(wire.get(tickets_in(endpoints), with_token("b")))
    assert rows.to_pydict() == {"name": names}
    assert others.to_pydict() == {"name": ["two"]}


def test_airport_databases_for_a_plain_client(plain):
    info = plain.get_flight_info(flight.FlightDescriptor.for_path("__databases"))
    assert plain.do_get(info.endpoints[0].ticket).read_all().to_pydict() == {"name": ["one", "two"]}
