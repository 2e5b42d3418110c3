"""Holds what all calls share: the connection, the transaction, and known tables."""

import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgpack
import msgspec
import pyarrow as pa

from jetbridge.catalog import CatalogVersion, fold
from jetbridge.client.connection import Connection, Headers, new_trace, path_header
from jetbridge.client.errors import reading_answer
from jetbridge.client.listing import TableListing, VersionInfo, read_table
from jetbridge.errors import ServerError
from jetbridge.wire.codec import Blob, decode
from jetbridge.wire.flight_pb2 import Action, FlightDescriptor, FlightInfo, Result
from jetbridge.wire.messages import CatalogRequest

# Headers repeat the paths, so characters that gRPC refuses there are percent-encoded.
_PATH_SAFE = "".join(char for char in map(chr, range(32, 127)) if char != "%")


class _Transaction(msgspec.Struct, frozen=True):
    identifier: str | None = None


@dataclass(frozen=True)
class Statement:
    """Hold the table of one statement, and the headers that all calls of the statement carry."""

    table: TableListing
    headers: Headers

    @property
    def path_headers(self) -> Headers:
        """Return the headers with the path of the table."""
        return self.headers + path_header(self.table.descriptor)


class KnownTables:
    """Remember the tables that were looked up at one version of the catalog."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: CatalogVersion | None = None
        self._tables: dict[tuple[str, str], TableListing] = {}

    def get(self, version: CatalogVersion | None, schema: str, table: str) -> TableListing | None:
        """Return a table that is known at this version; forget those of other versions."""
        with self._lock:
            if version != self._version:
                self._version, self._tables = version, {}
            return self._tables.get((fold(schema), fold(table)))

    def put(self, version: CatalogVersion | None, listing: TableListing) -> None:
        """Remember a table, unless the version has changed in the meantime."""
        with self._lock:
            if version == self._version:
                key = (fold(listing.schema_name), fold(listing.name))
                self._tables[key] = listing

    def clear(self) -> None:
        """Forget all tables, because the client changed one."""
        with self._lock:
            self._tables = {}


class ClientSession:
    """Run actions and statements on one catalog, over a connection that clients share.

    Attributes:
        catalog: The name of the catalog.
        transaction_id: The transaction of all statements; empty if each has its own.
    """

    def __init__(
        self,
        connection: Connection,
        catalog: str,
        *,
        transactions: bool = True,
        transaction_id: str = "",
    ) -> None:
        self._connection = connection
        self._transactions = transactions
        self._known = KnownTables()
        self.catalog = catalog
        self.transaction_id = transaction_id

    @property
    def location(self) -> str:
        """Return the address of the server.

        Examples:
            >>> client.location == location
            True
        """
        return self._connection.location.uri

    def action(self, name: str, body: bytes = b"", headers: Headers = ()) -> list[bytes]:
        """Run an action of the server with a body of your own.

        Args:
            name: The name of the action.
            body: The body, as the action expects it.
            headers: gRPC headers to send besides those of every call.

        Returns:
            The bodies of all results.

        Raises:
            NotSupported: The action does not exist.
            BadRequest: The server cannot read the body.

        Examples:
            >>> client.action("drop_table", b"{}")
            Traceback (most recent call last):
                ...
            jetbridge.errors.BadRequest: drop_table: the body is not the expected msgpack map
        """
        headers = (("airport-action-name", name), *headers)
        action = Action(type=name, body=body)
        with self._connection.stream("DoAction", action, Result, headers) as results:
            return [result.body for result in results]

    def catalog_version(self) -> CatalogVersion:
        """Return the number that rises with every change of schemas and tables.

        Raises:
            NotFound: The server does not have the catalog.

        Examples:
            >>> before = client.catalog_version().number
            >>> client.create_schema("archive")
            >>> client.catalog_version().number > before
            True
        """
        body = self._ask("catalog_version", CatalogRequest(catalog_name=self.catalog))
        with reading_answer("catalog_version"):
            answer = decode(VersionInfo, body, "catalog_version")
        return CatalogVersion(answer.catalog_version, answer.is_fixed)

    def create_transaction(self) -> str:
        """Begin a transaction and return its id; `transaction` does that for you.

        Returns:
            The id for the header `airport-transaction-id`; empty if the server has none.

        Raises:
            NotFound: The server does not have the catalog.

        Examples:
            >>> len(client.create_transaction())
            32
        """
        body = self._ask("create_transaction", CatalogRequest(catalog_name=self.catalog))
        with reading_answer("create_transaction"):
            return decode(_Transaction, body, "create_transaction").identifier or ""

    def get_flight_info(self, schema: str, name: str) -> FlightInfo:
        """Return Flight's own description of a table.

        Args:
            schema: The schema of the table.
            name: The name of the table.

        Raises:
            NotFound: The schema or the table does not exist.

        Examples:
            >>> client.get_flight_info("shop", "orders").total_records
            3
        """
        return self._flight_info(schema, name, self._transaction_headers(self.transaction_id))

    def table(self, schema: str, name: str) -> TableListing:
        """Return the columns and constraints of a table.

        Args:
            schema: The schema of the table.
            name: The name of the table.

        Raises:
            NotFound: The schema or the table does not exist.

        Examples:
            >>> client.table("shop", "orders").schema.names
            ['id', 'city', 'price']
        """
        return read_table(self.get_flight_info(schema, name))

    def _ask(self, action: str, request: msgspec.Struct, headers: Headers = ()) -> bytes:
        """Run an action that has one result, and return the body of that."""
        results = self.action(action, pack(request), headers)
        if not results:
            raise ServerError(f"the server sent no result for the action {action}")
        return results[0]

    def _statement(self, schema: str, table: str) -> Statement:
        """Begin a statement as DuckDB does: a transaction, the catalog's version, the table."""
        transaction_id = self.transaction_id
        if not transaction_id and self._transactions:
            transaction_id = self.create_transaction()
        headers = self._transaction_headers(transaction_id)
        # A transaction reads its tables as they were when it first read them.
        version = None if self.transaction_id else self.catalog_version()
        listing = self._known.get(version, schema, table)
        if listing is None:
            listing = read_table(self._flight_info(schema, table, headers))
            self._known.put(version, listing)
        return Statement(listing, new_trace() + headers)

    def _flight_info(self, schema: str, name: str, headers: Headers) -> FlightInfo:
        descriptor = named_descriptor(schema, name)
        headers += path_header(descriptor.SerializeToString())
        info: FlightInfo = self._connection.single("GetFlightInfo", descriptor, FlightInfo, headers)
        return info

    def _transaction_headers(self, transaction_id: str) -> Headers:
        return (("airport-transaction-id", transaction_id),) if transaction_id else ()

    def _change(self, action: str, request: msgspec.Struct) -> TableListing:
        """Run an action that creates or alters a table, and return the changed table."""
        body = self._ask(action, request)
        with reading_answer(action):
            flight = FlightInfo.FromString(body)
        listing = read_table(flight)
        self._known.clear()
        if self.transaction_id:
            # The new descriptor names the new columns, so the transaction sees them.
            self._known.put(None, listing)
        return listing


def named_descriptor(schema: str, name: str) -> FlightDescriptor:
    """Return the descriptor of a table by its name, for which the server has no seal."""
    path = [quote(part, safe=_PATH_SAFE) for part in (schema, name)]
    return FlightDescriptor(type=FlightDescriptor.PATH, path=path)


def field_schema(field: pa.Field) -> Blob:
    """Serialize one column as the Arrow schema that ALTER TABLE actions carry."""
    return Blob(pa.schema([field]).serialize().to_pybytes())


def pack(request: msgspec.Struct) -> bytes:
    """Pack a request as msgpack-c packs a `std::string`: binary data has the type of text."""
    packed: bytes = msgpack.packb(_plain(request), use_bin_type=False)
    return packed


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {key: _plain(item) for key, item in msgspec.structs.asdict(value).items()}
    return value
