"""A ticket of AT reads the table for which it was made, and no later table of its name.

Attacked: `DROP TABLE` and `CREATE TABLE` of the same name between the plan of a scan and its DoGet,
on the memory catalog and on a lake; and rows that come between the plan and the DoGet.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import grpc
import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import AsOf, AtUnit, Catalog, CreateTable, SchemaInfo
from jetbridge.client import Client, connect
from jetbridge.errors import Conflict, NotFound
from jetbridge.service import Server
from jetbridge.wire.flight_pb2 import FlightInfo, Ticket
from tests.conformance.harness import insert
from tests.helpers.lakes import new_lake
from tests.helpers.raw import Raw, descriptor, said

COLUMNS = pa.schema({"id": pa.int64()})
LATER = datetime.now(UTC) + timedelta(days=1)
POINTS = {
    "version": {"at_unit": "VERSION", "at_value": "1"},
    "timestamp": {"at_unit": "TIMESTAMP", "at_value": f"{LATER:%F %T}"},
}


@pytest.fixture(params=["memory", pytest.param("lake", marks=pytest.mark.lake)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    catalog: Catalog = MemoryCatalog() if request.param == "memory" else new_lake()
    with Server({"c": catalog}, port=0) as running:
        running.start()
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with connect(server.location, "c") as connected:
        connected.create_schema("s")
        fill(connected, 1)
        yield connected


@pytest.fixture
def raw(server: Server) -> Iterator[Raw]:
    with Raw(server.location) as connected:
        yield connected


def fill(client: Client, *ids: int) -> None:
    client.create_table("s", "t", COLUMNS)
    add(client, *ids)


def add(client: Client, *ids: int) -> None:
    client.insert("s", "t", pa.table({"id": list(ids)}, schema=COLUMNS))


def tickets(raw: Raw, point: dict[str, str]) -> list[Ticket]:
    """Return the tickets of a scan, and the table as it was."""
    [planned] = raw.endpoints(("s", "t"), **point)
    asked = {"descriptor": descriptor("s", "t").SerializeToString(), **point}
    [answer] = raw.action("flight_info", asked)
    return [planned.ticket, FlightInfo.FromString(answer).endpoint[0].ticket]


def ids(raw: Raw, ticket: Ticket) -> list[int]:
    return [row["id"] for row in raw.get(ticket).rows]


@pytest.mark.parametrize("point", POINTS)
def test_a_ticket_of_at_does_not_read_a_table_made_anew(
    client: Client, raw: Raw, point: str
) -> None:
    made = tickets(raw, POINTS[point])
    assert [ids(raw, ticket) for ticket in made] == [[1], [1]]
    client.drop_table("s", "t")
    fill(client, 2)
    for ticket in made:
        with pytest.raises(grpc.RpcError) as refused:
            raw.get(ticket)
        assert refused.value.code().name == Conflict.status
        assert "s.t has changed" in said(refused)
    assert client.read("s", "t", at=AsOf(AtUnit.VERSION, "1"))["id"].to_pylist() == [2]


def test_a_ticket_of_at_reads_the_version_that_was_planned(client: Client, raw: Raw) -> None:
    """A time in the future means the newest version, and the ticket keeps that version."""
    made = tickets(raw, POINTS["timestamp"])
    add(client, 2)
    assert [ids(raw, ticket) for ticket in made] == [[1], [1]]
    assert sorted(client.read("s", "t")["id"].to_pylist()) == [1, 2]


def test_a_handle_of_a_dropped_table_does_not_read_it_as_empty() -> None:
    schema = MemoryCatalog().create_schema(SchemaInfo("s"))
    handle = schema.create_table(CreateTable("t", COLUMNS))
    insert(handle, {"id": pa.array([1])})
    schema.drop_table("t")
    with pytest.raises(NotFound):
        handle.at(AsOf(AtUnit.VERSION, "1"))
