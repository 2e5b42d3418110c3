"""Scans: `endpoints`, then DoGet for each of them."""

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
from jetbridge.client.streams import Batches, EndpointReader, read_parts
from jetbridge.errors import NotFound, NotSupported, ServerError
from jetbridge.expr import Expr, columns_of
from jetbridge.wire.codec import Blob, unpack
from jetbridge.wire.flight_pb2 import FlightEndpoint, FlightInfo
from jetbridge.wire.limits import ANSWER_LIMITS
from jetbridge.wire.messages import EndpointsRequest, FlightInfoRequest, ScanParameters

_ROWID_INDEX = 2**64 - 1
_SAME_CONNECTION = "arrow-flight-reuse-connection://"


class ScanReader:
    """The rows of a scan, with the methods of `pyarrow.RecordBatchReader`.

    Not one itself, because closing that does not end the calls behind it. `pa.table(reader)` and
    DuckDB read it as it is; `to_reader()` is for functions that insist on the class.
    """

    def __init__(
        self, schema: pa.Schema, batches: Batches, parts: Sequence[EndpointReader]
    ) -> None:
        self.schema = schema
        self._batches, self._parts = batches, parts
        self._reader = pa.RecordBatchReader.from_batches(schema, batches)
        self._closed = False

    def read_next_batch(self) -> pa.RecordBatch:
        """Raises StopIteration at the end."""
        return self.to_reader().read_next_batch()

    def read_all(self) -> pa.Table:
        return self.to_reader().read_all()

    def to_reader(self) -> pa.RecordBatchReader:
        if self._closed:
            raise ValueError("the scan is closed")
        return self._reader

    def close(self) -> None:
        """Ends the calls; from another thread too."""
        self._closed = True
        for part in self._parts:
            part.cancel()
        with suppress(ValueError):  # another thread is reading, and will find its call cancelled
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
    """Which columns to ask for, and where they stand in what is delivered."""

    positions: tuple[int, ...]
    output: pa.Schema
    column_ids: tuple[int, ...]
    json_filters: str

    def project(self, batches: Batches) -> Batches:
        """Closes `batches` when closed."""
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
    def scan(
        self,
        schema: str,
        table: str,
        columns: Sequence[str] | None = None,
        filters: str | Expr = "",
        at: AsOf | None = None,
    ) -> ScanReader:
        """The rows as they stream in; of several endpoints in any order.

        `columns`: None for all visible ones; may hold `rowid`; empty gives only numbers of rows.
        `filters`: a predicate, or DuckDB's own JSON for it. It is a hint: rows for which it is
        not true may still come.
        """
        statement = self._statement(schema, table)
        if at is not None:
            statement = Statement(self._as_of(statement.table, at), statement.headers)
        plan = _make_plan(statement.table, columns, filters)
        parts = [self._part(statement, end) for end in self._endpoints(statement, plan, at)]
        return ScanReader(plan.output, plan.project(read_parts(parts)), parts)

    def read(
        self,
        schema: str,
        table: str,
        columns: Sequence[str] | None = None,
        filters: str | Expr = "",
        at: AsOf | None = None,
    ) -> pa.Table:
        """As `scan`, all rows at once."""
        with self.scan(schema, table, columns, filters, at) as reader:
            return reader.read_all()

    def flight_info(self, schema: str, table: str, at: AsOf | None = None) -> TableListing:
        """The table as it was; its columns may have been others."""
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
        found = read_table(flight)
        if found.descriptor != listing.descriptor:
            raise ServerError("the server answered flight_info with another descriptor")
        return found

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

    def _part(self, statement: Statement, endpoint: FlightEndpoint) -> EndpointReader:
        uri = endpoint.location[0].uri if endpoint.location else _SAME_CONNECTION
        if not uri.startswith(_SAME_CONNECTION) and uri != self.location:
            raise NotSupported(
                f"the rows are at {uri}; this client reads from {self.location} only, "
                "and sends its token nowhere else"
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
        found = [listing.position(name) for name in names]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []  # the server is the judge of such a text
    return [i for i in found if i is not None]


def _position(listing: TableListing, column: str) -> int:
    position = listing.position(column)
    if position is None:
        known = ", ".join(listing.announced.names)
        raise NotFound("column", column, f"{listing.schema_name}.{listing.name} has {known}")
    return position


def _column_id(announced: pa.Schema, position: int) -> int:
    """DuckDB counts the visible columns only."""
    if is_rowid(announced.field(position)):
        return _ROWID_INDEX
    return sum(not is_rowid(announced.field(i)) for i in range(position))
