"""What all calls share: the connection, the transaction, and the tables looked up so far."""

import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgpack
import msgspec

from jetbridge.catalog import CatalogVersion, fold
from jetbridge.client.connection import Connection, Headers, new_trace, path_header
from jetbridge.client.errors import reading_answer
from jetbridge.client.listing import TableListing, VersionInfo, read_table
from jetbridge.errors import ServerError
from jetbridge.wire.codec import decode
from jetbridge.wire.flight_pb2 import Action, FlightDescriptor, FlightInfo, Result
from jetbridge.wire.messages import CatalogRequest

# The client copies a path into a header, so names are percent-encoded where gRPC refuses them.
_PATH_SAFE = "".join(char for char in map(chr, range(32, 127)) if char != "%")


class _Transaction(msgspec.Struct, frozen=True):
    identifier: str | None = None


@dataclass(frozen=True)
class Statement:
    """The table a statement works on, and the headers that all its calls carry."""

    table: TableListing
    headers: Headers

    @property
    def path_headers(self) -> Headers:
        return self.headers + path_header(self.table.descriptor)


class KnownTables:
    """Tables looked up at one version of the catalog."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: CatalogVersion | None = None
        self._tables: dict[tuple[str, str], TableListing] = {}

    def get(self, version: CatalogVersion | None, schema: str, table: str) -> TableListing | None:
        with self._lock:
            if version != self._version:
                self._version, self._tables = version, {}
            return self._tables.get((fold(schema), fold(table)))

    def put(self, version: CatalogVersion | None, listing: TableListing) -> None:
        with self._lock:
            if version == self._version:
                key = (fold(listing.schema_name), fold(listing.name))
                self._tables[key] = listing

    def clear(self) -> None:
        with self._lock:
            self._tables = {}


class ClientSession:
    """`transaction_id`: the transaction all statements belong to; without, each has its own."""

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
        return self._connection.location.uri

    def action(self, name: str, body: bytes = b"", headers: Headers = ()) -> list[bytes]:
        """One raw action; the bodies of all its results."""
        headers = (("airport-action-name", name), *headers)
        action = Action(type=name, body=body)
        with self._connection.stream("DoAction", action, Result, headers) as results:
            return [result.body for result in results]

    def catalog_version(self) -> CatalogVersion:
        body = self._ask("catalog_version", CatalogRequest(catalog_name=self.catalog))
        with reading_answer("catalog_version"):
            answer = decode(VersionInfo, body, "catalog_version")
        return CatalogVersion(answer.catalog_version, answer.is_fixed)

    def create_transaction(self) -> str:
        """An id for `airport-transaction-id`; empty if the server has no transactions."""
        body = self._ask("create_transaction", CatalogRequest(catalog_name=self.catalog))
        with reading_answer("create_transaction"):
            return decode(_Transaction, body, "create_transaction").identifier or ""

    def get_flight_info(self, schema: str, name: str) -> FlightInfo:
        return self._flight_info(schema, name, self._transaction_headers(self.transaction_id))

    def table(self, schema: str, name: str) -> TableListing:
        """One table as it is now; raises NotFound."""
        return read_table(self.get_flight_info(schema, name))

    def _ask(self, action: str, request: msgspec.Struct, headers: Headers = ()) -> bytes:
        """An action that is answered by one result."""
        results = self.action(action, pack(request), headers)
        if not results:
            raise ServerError(f"the server answered nothing to {action}")
        return results[0]

    def _statement(self, schema: str, table: str) -> Statement:
        """As DuckDB begins one: a transaction, the catalog's version, then the table."""
        transaction_id = self.transaction_id
        if not transaction_id and self._transactions:
            transaction_id = self.create_transaction()
        headers = self._transaction_headers(transaction_id)
        # A transaction keeps to the tables as it saw them first.
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


def named_descriptor(schema: str, name: str) -> FlightDescriptor:
    path = [quote(part, safe=_PATH_SAFE) for part in (schema, name)]
    return FlightDescriptor(type=FlightDescriptor.PATH, path=path)


def pack(request: msgspec.Struct) -> bytes:
    """As msgpack-c packs a std::string: binary goes as str too."""
    packed: bytes = msgpack.packb(_plain(request), use_bin_type=False)
    return packed


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {key: _plain(item) for key, item in msgspec.structs.asdict(value).items()}
    return value
