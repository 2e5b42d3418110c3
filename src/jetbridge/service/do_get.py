"""Answers DoGet: yields the rows that a ticket names."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import (
    AsOf,
    AtUnit,
    CanCount,
    CanSnapshot,
    CanTravel,
    Scan,
    Table,
    TableFunction,
    supports,
)
from jetbridge.config.model import Limits
from jetbridge.duckdb_syntax.filters import parse_filters
from jetbridge.errors import Conflict
from jetbridge.service.admission.concurrency import ConcurrencyLimit
from jetbridge.service.batch_layout import in_layout
from jetbridge.service.call_context import CallContext, ServedCatalog, input_limits
from jetbridge.service.flight_info import DATABASES, read_databases
from jetbridge.service.functions import find_function
from jetbridge.service.table_lookup import Transactions, read_point, travel
from jetbridge.wire.arrow_input import cast_arguments, read_arguments
from jetbridge.wire.codec import encode
from jetbridge.wire.flight_data import BatchEncoder, encode_batch, encode_schema
from jetbridge.wire.flight_pb2 import Ticket as TicketMessage
from jetbridge.wire.schemas import wire_schema
from jetbridge.wire.tickets import DescriptorName, Ticket, TicketSealer


@dataclass(frozen=True)
class DoGet:
    """Yield the rows of a table, of a table function or of `airport_databases`."""

    sealer: TicketSealer
    transactions: Transactions
    gate: ConcurrencyLimit
    limits: Limits

    def __call__(self, message: TicketMessage, call: CallContext) -> Iterator[bytes]:
        ticket = self.sealer.open_ticket(message.ticket)
        if ticket.kind == DATABASES:
            yield from read_databases(call)
            return
        served = call.catalog(ticket.catalog)
        with self.gate.enter(call.owner):
            if ticket.kind == "table_function":
                yield from self._function_rows(call, served, ticket)
                return
            table = self._table(call, served, ticket)
            schema = wire_schema(table.info())
            yield encode_schema(schema)
            yield from self._rows(table, schema, ticket)

    def _function_rows(
        self, call: CallContext, served: ServedCatalog, ticket: Ticket
    ) -> Iterator[bytes]:
        name = DescriptorName(ticket.schema, ticket.name)
        function = find_function(served, name, TableFunction)
        arguments = cast_arguments(
            read_arguments(ticket.parameters, input_limits(self.limits)), function.info()
        )
        schema = function.bind(arguments)
        yield encode_schema(schema)
        may_use = call.token.catalogs if call.token else None
        request = Scan(filter=parse_filters(ticket.filters), may_use=may_use, owner=call.owner)
        rows = function.rows(arguments, request)
        for batch in in_layout(rows, schema, self.limits.batch_rows_out):
            yield encode_batch(batch)

    def _rows(self, table: Table, schema: pa.Schema, ticket: Ticket) -> Iterator[bytes]:
        columns = None if ticket.columns is None else tuple(ticket.columns)
        scan = Scan(columns, parse_filters(ticket.filters), ticket.part)
        expected = table.count_rows() / ticket.parts if supports(table, CanCount) else 0
        encoder = BatchEncoder(schema)
        sent = 0
        for batch in in_layout(table.scan(scan), schema, self.limits.batch_rows_out):
            sent += batch.num_rows
            progress = encode({"progress": min(1.0, sent / expected)}) if expected else b""
            yield encoder.encode(batch, progress)

    def _table(self, call: CallContext, served: ServedCatalog, ticket: Ticket) -> Table:
        """Return the table at the version that the ticket names."""
        name = DescriptorName(ticket.schema, ticket.name)
        point = read_point(ticket.at_unit, ticket.at_value)
        pins = ticket.version is not None or supports(served.catalog, CanSnapshot)
        if point is None and pins:
            transaction = self.transactions.of(call, served)
            pinned = transaction.table(served.catalog, name.schema, name.name)
            if _matches(pinned, ticket):
                return pinned
        live = served.catalog.load_schema(ticket.schema).load_table(ticket.name)
        table = live if point is None else travel(live, point, name)
        if ticket.version is None and not ticket.identity:
            return table
        return table if _matches(table, ticket) else _at_version(live, ticket)


def _matches(table: Table, ticket: Ticket) -> bool:
    """Return whether the ticket was created for this table at this version."""
    info = table.info()
    return (info.identity, info.version) == (ticket.identity, ticket.version)


def _at_version(live: Table, ticket: Ticket) -> Table:
    """Return the table at the version of the ticket. Raises Conflict if that is not possible."""
    if live.info().identity != ticket.identity or not supports(live, CanTravel):
        raise Conflict(
            f"table {ticket.schema}.{ticket.name} has changed since the scan was planned; "
            "run the query again"
        )
    return live.at(AsOf(AtUnit.VERSION, str(ticket.version)))
