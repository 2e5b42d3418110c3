"""Several catalogs, for callers that name none: plain Flight clients send no header."""

import pyarrow as pa
import pytest
from pyarrow import flight

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, DMLOptions, SchemaInfo
from jetbridge.service import Server

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
