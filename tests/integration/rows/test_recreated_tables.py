"""DROP and CREATE of the same name make another table, whatever its version number."""

from typing import Any

import grpc
import msgpack
import pyarrow as pa
import pytest

from jetbridge.client import Client, connect
from jetbridge.errors import Conflict, NotFound
from jetbridge.service import Server
from jetbridge.wire.codec import encode
from jetbridge.wire.flight_pb2 import FlightEndpoint

COLUMNS = pa.schema({"id": pa.int64()})


def fill(client: Client, *ids: int) -> None:
    client.create_table("s", "t", COLUMNS)
    client.insert("s", "t", pa.table({"id": list(ids)}, schema=COLUMNS))


def planned_ticket(client: Client) -> bytes:
    descriptor = client.table("s", "t").descriptor
    [answer] = client.action("endpoints", encode({"descriptor": descriptor}))
    endpoint = FlightEndpoint.FromString(_first(answer))
    return endpoint.ticket.SerializeToString()


def _first(answer: bytes) -> bytes:

    endpoints: list[bytes] = msgpack.unpackb(answer)
    return endpoints[0]


def test_a_ticket_of_the_old_table_does_not_read_the_new_one(
    client: Client, server: Server
) -> None:
    client.create_schema("s")
    fill(client, 1)
    ticket = planned_ticket(client)
    client.drop_table("s", "t")
    fill(client, 2)
    with grpc.insecure_channel(server.location.removeprefix("grpc://")) as channel:
        do_get: Any = channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")
        with pytest.raises(grpc.RpcError) as refused:
            list(do_get(ticket, metadata=(("airport-catalog", "memory"),)))
    assert refused.value.code().name == Conflict.status
    assert "s.t has changed" in str(refused.value.details())


def test_a_transaction_reads_no_other_table_under_the_same_name(client: Client) -> None:
    client.create_schema("s")
    fill(client, 1)
    with client.transaction() as transaction:
        assert transaction.read("s", "t")["id"].to_pylist() == [1]
        client.drop_table("s", "t")
        fill(client, 2)
        with pytest.raises(Conflict, match=r"s\.t was replaced .* start a new transaction"):
            transaction.read("s", "t")
        transaction.insert("s", "t", pa.table({"id": [3]}, schema=COLUMNS))
        assert transaction.read("s", "t")["id"].to_pylist() == [2, 3]


def test_a_transaction_reads_the_renamed_table_and_changes_no_other(
    client: Client, server: Server
) -> None:
    client.create_schema("s")
    fill(client, 1)
    with client.transaction() as transaction, connect(server.location, "memory") as other:
        assert transaction.read("s", "t")["id"].to_pylist() == [1]
        other.rename_table("s", "t", "u")
        fill(other, 2)
        assert transaction.read("s", "t")["id"].to_pylist() == [1]
        with pytest.raises(Conflict, match=r"s\.t was replaced .* start a new transaction"):
            transaction.delete("s", "t", [0])
        assert [other.read("s", name)["id"].to_pylist() for name in ("t", "u")] == [[2], [1]]


def test_a_dropped_table_is_gone_for_transactions_too(client: Client, server: Server) -> None:

    client.create_schema("s")
    fill(client, 1)
    with client.transaction() as transaction, connect(server.location, "memory") as other:
        assert transaction.read("s", "t")["id"].to_pylist() == [1]
        other.drop_table("s", "t")
        with pytest.raises(NotFound):
            transaction.read("s", "t")
