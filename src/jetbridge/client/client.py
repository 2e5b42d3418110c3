"""Defines the client: calls that read a catalog, and those of its base classes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
from grpc_health.v1 import health_pb2

from jetbridge.catalog import fold
from jetbridge.client.alter import AlterCalls
from jetbridge.client.alter_fields import AlterFieldCalls
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
    """Describe an action that a server offers.

    Attributes:
        name: The name of the action.
        description: What the action does.

    Examples:
        >>> [action.name for action in client.list_actions()][:2]
        ['add_column', 'add_constraint']
    """

    name: str
    description: str


class CatalogCalls(ClientSession):
    """Read what a catalog contains and whether the server works."""

    def list_schemas(self) -> list[SchemaListing]:
        """List all schemas of the catalog with their tables.

        Raises:
            NotFound: The server does not have the catalog.
            NotSupported: The listing refers to another address.

        Examples:
            >>> [(schema.name, len(schema.tables)) for schema in client.list_schemas()]
            [('shop', 1)]
        """
        body = self._ask("list_schemas", CatalogRequest(catalog_name=self.catalog))
        return read_schemas(read_listing(body), self.catalog, self._list_flights)

    def tables(self, schema: str) -> list[TableListing]:
        """List the tables of a schema, from the listing of the whole catalog.

        Args:
            schema: The name of the schema, in upper or lower case.

        Raises:
            NotFound: The schema does not exist.

        Examples:
            >>> [table.name for table in client.tables("shop")]
            ['orders']
        """
        for listing in self.list_schemas():
            if fold(listing.name) == fold(schema):
                return list(listing.tables)
        raise NotFound("schema", schema)

    def list_flights(self, schema: str) -> list[TableListing]:
        """List the tables of a schema with ListFlights, which asks for this schema alone.

        Args:
            schema: The name of the schema.

        Raises:
            NotFound: The schema does not exist.
            ValueError: The name has characters that a gRPC header cannot hold.

        Examples:
            >>> [table.name for table in client.list_flights("shop")]
            ['orders']
        """
        return list(read_tables(self._list_flights(schema), self.catalog, schema))

    def get_schema(self, schema: str, name: str) -> pa.Schema:
        """Return the columns of a table as scans deliver them, with `rowid` if the table has one.

        Args:
            schema: The schema of the table.
            name: The name of the table.

        Raises:
            NotFound: The schema or the table does not exist.

        Examples:
            >>> client.get_schema("shop", "orders").names
            ['id', 'city', 'price', 'rowid']
        """
        descriptor = named_descriptor(schema, name)
        headers = path_header(descriptor.SerializeToString())
        answer = self._connection.single("GetSchema", descriptor, SchemaResult, headers)
        with reading_answer("GetSchema"):
            return read_schema(answer.schema, "the schema")

    def list_actions(self) -> list[ActionListing]:
        """List the actions that the server offers.

        Raises:
            Unavailable: The server cannot be reached.

        Examples:
            >>> "create_table" in [action.name for action in client.list_actions()]
            True
        """
        with self._connection.stream("ListActions", Empty(), ActionType) as actions:
            return [ActionListing(action.type, action.description) for action in actions]

    def handshake(self) -> bytes:
        """Log in with the token, and return the token to use from now on.

        Returns:
            The answer of the server; empty if it needs no token.

        Raises:
            Unauthenticated: The server does not know the token.

        Examples:
            >>> client.handshake()
            b''
        """
        token = (self._connection.token or "").encode()
        request = HandshakeRequest(payload=token).SerializeToString()
        with self._connection.both_ways("Handshake", [request], ()) as answers:
            return b"".join(HandshakeRequest.FromString(answer).payload for answer in answers)

    def health(self) -> str:
        """Ask the server whether it accepts calls.

        Returns:
            `SERVING`, `NOT_SERVING`, or `UNREACHABLE` if the server does not answer.

        Raises:
            Unauthenticated: The server answers this call with a token only.

        Examples:
            >>> client.health()
            'SERVING'
        """
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


class Client(CatalogCalls, DdlCalls, AlterCalls, AlterFieldCalls, ScanCalls, DmlCalls):
    """Work with one catalog of one server; `connect` returns a client.

    Several threads may share a client. Close it when you no longer need it, or use it in a `with`
    block. Every method raises Unavailable if the server cannot be reached, Unauthenticated and
    PermissionDenied if the token does not allow the call, and the other classes of
    `jetbridge.errors` as the server reports them.

    Examples:
        >>> with connect(location, "memory") as client:
        ...     client.insert("shop", "orders", pa.table({"id": [4], "city": ["Bonn"]}))
        ChangeResult(affected_rows=1, returning=None)
    """

    @contextmanager
    def transaction(self) -> Iterator["Client"]:
        """Begin a transaction: all scans in it see one version of every table.

        It cannot be rolled back: each statement is published when it ends.

        Returns:
            A context manager with the client of the transaction.

        Raises:
            NotFound: The server does not have the catalog.

        Examples:
            >>> with client.transaction() as snapshot:
            ...     before = snapshot.read("shop", "orders").num_rows
            ...     inserted = client.insert("shop", "orders", pa.table({"id": [4]}))
            ...     (before, snapshot.read("shop", "orders").num_rows)
            (3, 3)
        """
        transaction_id = self.create_transaction()
        yield Client(
            self._connection,
            self.catalog,
            transactions=self._transactions,
            transaction_id=transaction_id,
        )

    def close(self) -> None:
        """End all calls and close the connection, which clients of transactions share.

        It raises no error, also if the client is closed already.

        Examples:
            >>> client.close()
            >>> client.read("shop", "orders")  # doctest: +ELLIPSIS
            Traceback (most recent call last):
                ...
            jetbridge.errors.Unavailable: this client of grpc://... is closed; connect again
        """
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
    """Return a client of one catalog of a server. The first call of the client connects.

    Args:
        location: The address of the server: `grpc://HOST:PORT`, or `grpc+tls://HOST:PORT` for TLS.
        catalog: The name of the catalog.
        token: The bearer token, if the server needs one.
        tls_root_certs: The certificate authorities to trust instead of the system's, as PEM.
        transactions: Whether each statement asks for a transaction id first, as DuckDB does.
            False saves that call.

    Returns:
        The client.

    Raises:
        ValueError: The location is of another form, or the catalog or the token has characters
            that a gRPC header cannot hold.

    Examples:
        >>> with connect(location, "memory") as client:
        ...     client.health()
        'SERVING'
    """
    connection = Connection(location, catalog, token, tls_root_certs)
    return Client(connection, catalog, transactions=transactions)
