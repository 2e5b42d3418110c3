"""Scans tables by the typed client: the action `endpoints`, then a DoGet for each endpoint."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge.catalog import ROWID, AsOf, fold
from jetbridge.client.errors import reading_answer
from jetbridge.client.filters import encode_filter
from jetbridge.client.listing import TableListing, is_rowid, read_table
from jetbridge.client.session import ClientSession, Statement
from jetbridge.client.streams import Batches, EndpointReader, read_endpoints
from jetbridge.errors import NotFound, NotSupported, ServerError
from jetbridge.expr import Expr, columns_of
from jetbridge.wire.codec import Blob, unpack
from jetbridge.wire.flight_pb2 import FlightEndpoint, FlightInfo
from jetbridge.wire.limits import ANSWER_LIMITS
from jetbridge.wire.messages import EndpointsRequest, FlightInfoRequest, ScanParameters
from jetbridge.wire.wide_integers import decimal_table

_ROWID_INDEX = 2**64 - 1
_SAME_CONNECTION = "arrow-flight-reuse-connection://"


class ScanReader:
    """Read the rows of a scan; it has the methods of `pyarrow.RecordBatchReader`.

    Closing it ends the calls behind it, which closing a `RecordBatchReader` does not. DuckDB and
    `pa.table(reader)` read it as it is. Use `to_reader()` for a function that needs the class.

    Attributes:
        schema: The columns of the rows.

    Examples:
        >>> with client.scan("shop", "orders", ["id"]) as reader:
        ...     sum(batch.num_rows for batch in reader)
        3
    """

    def __init__(
        self, schema: pa.Schema, batches: Batches, endpoints: Sequence[EndpointReader]
    ) -> None:
        self.schema = schema
        self._batches, self._endpoint_readers = batches, endpoints
        self._reader = pa.RecordBatchReader.from_batches(schema, batches)
        self._closed = False

    def read_next_batch(self) -> pa.RecordBatch:
        """Return the next batch of rows.

        Raises:
            StopIteration: All rows were read.
            ValueError: The scan is closed.
            FailedPrecondition: The table was altered while the scan began.

        Examples:
            >>> with client.scan("shop", "orders", ["id"]) as reader:
            ...     reader.read_next_batch().num_rows
            3
        """
        return self.to_reader().read_next_batch()

    def read_all(self) -> pa.Table:
        """Return all rows that are left.

        Raises:
            ValueError: The scan is closed.
            FailedPrecondition: The table was altered while the scan began.

        Examples:
            >>> with client.scan("shop", "orders", ["id"]) as reader:
            ...     reader.read_all().num_rows
            3
        """
        return self.to_reader().read_all()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a `RecordBatchReader`.

        Raises:
            ValueError: The scan is closed.

        Examples:
            >>> with client.scan("shop", "orders", ["id"]) as reader:
            ...     isinstance(reader.to_reader(), pa.RecordBatchReader)
            True
        """
        if self._closed:
            raise ValueError("the scan is closed; begin another one")
        return self._reader

    def close(self) -> None:
        """End the scan and its calls. Another thread may do that.

        Examples:
            >>> reader = client.scan("shop", "orders")
            >>> reader.close()
            >>> reader.read_all()
            Traceback (most recent call last):
                ...
            ValueError: the scan is closed; begin another one
        """
        self._closed = True
        for endpoint in self._endpoint_readers:
            endpoint.cancel()
        with suppress(ValueError):  # another thread is reading: its call is cancelled
            self._batches.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def __enter__(self) -> "ScanReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class _ScanPlan:
    """Hold the columns to request, and their positions in the received batches."""

    positions: tuple[int, ...]
    output: pa.Schema
    column_ids: tuple[int, ...]
    json_filters: str

    def project(self, batches: Batches) -> Batches:
        """Yield the batches with the columns of the scan; close `batches` at the end."""
        try:
            for batch in batches:
                if not self.positions:
                    yield batch.select([])  # keeps the number of rows
                    continue
                columns = [batch.column(i) for i in self.positions]
                yield pa.RecordBatch.from_arrays(columns, schema=self.output)
        finally:
            batches.close()


class ScanCalls(ClientSession):
    """Read the rows of tables."""

    def scan(
        self,
        schema: str,
        table: str,
        columns: Sequence[str] | None = None,
        filters: str | Expr = "",
        at: AsOf | None = None,
    ) -> ScanReader:
        """Scan a table and return its rows as they arrive.

        The rows of several endpoints arrive in any order. HUGEINT and UHUGEINT have DuckDB's
        extension type; `read` converts them.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            columns: The columns to read; `rowid` is one of them. None reads all columns but
                `rowid`, an empty list only the number of rows.
            filters: A predicate, or DuckDB's JSON of one. It is a hint: the result may contain
                rows for which it is not true.
            at: An earlier version or time to read the table at.

        Returns:
            The reader of the rows; close it, or use it in a `with` block.

        Raises:
            NotFound: The schema, the table, the column or the version does not exist.
            NotSupported: The predicate has a node that DuckDB does not push down, or the table has
                no earlier versions.
            FailedPrecondition: The table was altered while the scan began.

        Examples:
            >>> from jetbridge.expr import Column, Comparison, Constant
            >>> cheap = Comparison("<", Column("price"), Constant("DOUBLE", 10.0))
            >>> with client.scan("shop", "orders", ["id"], filters=cheap) as reader:
            ...     reader.read_all().to_pylist()
            [{'id': 1}]
        """
        statement = self._statement(schema, table)
        if at is not None:
            statement = Statement(self._as_of(statement.table, at), statement.headers)
        plan = _make_plan(statement.table, columns, filters)
        readers = [self._reader(statement, end) for end in self._endpoints(statement, plan, at)]
        return ScanReader(plan.output, plan.project(read_endpoints(readers)), readers)

    def read(
        self,
        schema: str,
        table: str,
        columns: Sequence[str] | None = None,
        filters: str | Expr = "",
        at: AsOf | None = None,
        *,
        exact_hugeint: bool = False,
    ) -> pa.Table:
        """Scan a table and return all of its rows at once.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            columns: The columns to read, as for `scan`.
            filters: A predicate, as for `scan`.
            at: An earlier version or time to read the table at.
            exact_hugeint: Keep the extension type of DuckDB for HUGEINT and UHUGEINT, whose values
                are 16 bytes: `int.from_bytes(value, "little", signed=True)`, without `signed` for
                UHUGEINT. By default they become decimal128(38, 0), also in nested values.

        Raises:
            NotFound: The schema, the table, the column or the version does not exist.
            NotSupported: The table has no earlier versions.
            BadRequest: A HUGEINT has 39 digits, too many for a decimal.

        Examples:
            >>> client.read("shop", "orders")["city"].to_pylist()
            ['Ulm', 'Bonn', 'Ulm']
        """
        with self.scan(schema, table, columns, filters, at) as reader:
            rows = reader.read_all()
        return rows if exact_hugeint else decimal_table(rows)

    def flight_info(self, schema: str, table: str, at: AsOf | None = None) -> TableListing:
        """Return the columns of a table now, or at an earlier version or time.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            at: An earlier version or time; None for the current table.

        Raises:
            NotFound: The schema, the table or the version does not exist.
            NotSupported: The table has no earlier versions.

        Examples:
            >>> client.flight_info("shop", "orders").schema.names
            ['id', 'city', 'price']
        """
        listing = self.table(schema, table)
        return self._as_of(listing, at)

    def _as_of(self, listing: TableListing, at: AsOf | None) -> TableListing:
        request = FlightInfoRequest(
            descriptor=Blob(listing.descriptor),
            at_unit=str(at.unit) if at else "",
            at_value=at.value if at else "",
        )
        body = self._ask("flight_info", request)
        with reading_answer("flight_info"):
            flight = FlightInfo.FromString(body)
        described = read_table(flight)
        if described.descriptor != listing.descriptor:
            raise ServerError("the server answered flight_info with another descriptor")
        return described

    def _endpoints(
        self, statement: Statement, plan: _ScanPlan, at: AsOf | None
    ) -> list[FlightEndpoint]:
        parameters = ScanParameters(
            json_filters=plan.json_filters,
            column_ids=list(plan.column_ids),
            at_unit=str(at.unit) if at else "",
            at_value=at.value if at else "",
        )
        request = EndpointsRequest(
            descriptor=Blob(statement.table.descriptor), parameters=parameters
        )
        body = self._ask("endpoints", request, statement.path_headers)
        with reading_answer("endpoints"):
            ends = unpack(body, "endpoints", ANSWER_LIMITS)
            return [FlightEndpoint.FromString(end) for end in ends]

    def _reader(self, statement: Statement, endpoint: FlightEndpoint) -> EndpointReader:
        uri = endpoint.location[0].uri if endpoint.location else _SAME_CONNECTION
        if not uri.startswith(_SAME_CONNECTION) and uri != self.location:
            raise NotSupported(
                f"the rows are at {uri}; this client reads from {self.location} only, and sends "
                "its token to no other server"
            )
        connection, headers = self._connection, statement.path_headers
        return EndpointReader(
            lambda: connection.stream("DoGet", endpoint.ticket, None, headers),
            statement.table.announced,
        )


def _make_plan(
    listing: TableListing, columns: Sequence[str] | None, filters: str | Expr
) -> _ScanPlan:
    names = listing.schema.names if columns is None else columns
    positions = tuple(_position(listing, name) for name in names)
    scanned = list(dict.fromkeys((*positions, *_filter_positions(listing, filters))))
    bound = [listing.announced.field(i).name for i in scanned]
    if not isinstance(filters, str):
        types = {fold(f.name): f.type for f in listing.announced}
        filters = encode_filter(filters, bound, types)
    if not scanned:  # as DuckDB counts rows
        scanned = [_position(listing, ROWID) if listing.row_id is not None else 0]
    return _ScanPlan(
        positions,
        pa.schema([listing.announced.field(i) for i in positions]),
        tuple(_column_id(listing.announced, i) for i in scanned),
        filters,
    )


def _filter_positions(listing: TableListing, filters: str | Expr) -> list[int]:
    if not isinstance(filters, str):
        return [_position(listing, name) for name in sorted(columns_of(filters))]
    try:
        names = json.loads(filters)["column_binding_names_by_index"]
        positions = [listing.position(name) for name in names]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []  # the server refuses the text
    return [i for i in positions if i is not None]


def _position(listing: TableListing, column: str) -> int:
    position = listing.position(column)
    if position is None:
        known = ", ".join(listing.announced.names)
        raise NotFound("column", column, f"{listing.schema_name}.{listing.name} has {known}")
    return position


def _column_id(announced: pa.Schema, position: int) -> int:
    """Return the number of a column as DuckDB counts: without `rowid`."""
    if is_rowid(announced.field(position)):
        return _ROWID_INDEX
    return sum(not is_rowid(announced.field(i)) for i in range(position))
