"""The client: all calls, and transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
from grpc_health.v1 import health_pb2

from jetbridge.catalog import fold
from jetbridge.client.connection import Connection, path_header, printable
from jetbridge.client.ddl import DdlCalls
from jetbridge.client.dml import DmlCalls
from jetbridge.client.errors import reading_answer
from jetbridge.client.listing import (
    SchemaListing,
    TableListing,
    read_listing,
    read_schemas,
    read_tables,
)
from jetbridge.client.scan import ScanCalls
from jetbridge.client.session import ClientSession, named_descriptor
from jetbridge.errors import NotFound, Unavailable
from jetbridge.wire.flight_pb2 import (
    ActionType,
    Criteria,
    Empty,
    FlightInfo,
    HandshakeRequest,
    SchemaResult,
)
from jetbridge.wire.messages import CatalogRequest
from jetbridge.wire.schemas import read_schema

_HEALTH_CHECK = "/grpc.health.v1.Health/Check"


class ActionListing(NamedTuple):
    name: str
    description: str


class CatalogCalls(ClientSession):
    def list_schemas(self) -> list[SchemaListing]:
        """All schemas with their tables."""
        body = self._ask("list_schemas", CatalogRequest(catalog_name=self.catalog))
        return read_schemas(read_listing(body), self.catalog, self._list_flights)

    def tables(self, schema: str) -> list[TableListing]:
        """The tables of one schema, found without regard to case; raises NotFound."""
        for listing in self.list_schemas():
            if fold(listing.name) == fold(schema):
                return list(listing.tables)
        raise NotFound("schema", schema)

    def list_flights(self, schema: str) -> list[TableListing]:
        """The tables of one schema by ListFlights, as clients do for contents sent empty."""
        return list(read_tables(self._list_flights(schema), self.catalog, schema))

    def get_schema(self, schema: str, name: str) -> pa.Schema:
        """The columns as scans deliver them, `rowid` included."""
        descriptor = named_descriptor(schema, name)
        headers = path_header(descriptor.SerializeToString())
        answer = self._connection.single("GetSchema", descriptor, SchemaResult, headers)
        with reading_answer("GetSchema"):
            return read_schema(answer.schema, "the schema")

    def list_actions(self) -> list[ActionListing]:
        with self._connection.stream("ListActions", Empty(), ActionType) as actions:
            return [ActionListing(action.type, action.description) for action in actions]

    def handshake(self) -> bytes:
        """What the server answers to the token, in most servers the token to use from now on."""
        token = (self._connection.token or "").encode()
        request = HandshakeRequest(payload=token).SerializeToString()
        with self._connection.both_ways("Handshake", [request], ()) as answers:
            return b"".join(HandshakeRequest.FromString(answer).payload for answer in answers)

    def health(self) -> str:
        """`SERVING`, or why not; a server that cannot be reached is `UNREACHABLE`."""
        request = health_pb2.HealthCheckRequest()
        try:
            answer = self._connection.single(_HEALTH_CHECK, request, health_pb2.HealthCheckResponse)
        except Unavailable:
            return "UNREACHABLE"
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    def _list_flights(self, schema: str) -> Iterator[FlightInfo]:
        headers = (
            ("airport-list-flights-filter-catalog", self.catalog),
            ("airport-list-flights-filter-schema", printable("schema", schema)),
        )
        with self._connection.stream("ListFlights", Criteria(), FlightInfo, headers) as flights:
            yield from flights


class Client(CatalogCalls, DdlCalls, ScanCalls, DmlCalls):
    """One catalog of one server; safe to use from several threads. Close it when done."""

    @contextmanager
    def transaction(self) -> Iterator["Client"]:
        """A view of this client whose scans all see one version of every table.

        There is no rollback: every statement is published when it ends.
        """
        transaction_id = self.create_transaction()
        yield Client(
            self._connection,
            self.catalog,
            transactions=self._transactions,
            transaction_id=transaction_id,
        )

    def close(self) -> None:
        """Ends all calls; of a transaction's view too, for they share the connection."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    location: str,
    catalog: str,
    token: str | None = None,
    *,
    tls_root_certs: bytes | None = None,
    transactions: bool = True,
) -> Client:
    """Connects to `grpc://HOST:PORT` or `grpc+tls://HOST:PORT`; nothing is sent yet.

    `tls_root_certs`: PEM of the authorities to trust instead of the system's.
    `transactions`: False saves the call with which each statement asks for a transaction id.
    """
    connection = Connection(location, catalog, token, tls_root_certs)
    return Client(connection, catalog, transactions=transactions)
