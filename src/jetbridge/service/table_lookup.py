"""Finds the table of a request, at the version that the caller sees."""

from dataclasses import dataclass

from jetbridge.catalog import AsOf, AtUnit, CanTravel, Table, supports
from jetbridge.errors import BadRequest, FailedPrecondition, NotSupported
from jetbridge.service.call_context import CallContext, ServedCatalog
from jetbridge.service.transactions import SnapshotPins, Transactions
from jetbridge.wire.flight_pb2 import FlightDescriptor
from jetbridge.wire.schemas import wire_schema
from jetbridge.wire.tickets import DescriptorName, TicketSealer, fingerprint


@dataclass(frozen=True)
class LocatedTable:
    """Hold a table, its catalog and name, and the pins of the caller's transaction."""

    served: ServedCatalog
    name: DescriptorName
    table: Table
    transaction: SnapshotPins


@dataclass(frozen=True)
class TableLookup:
    """Find tables by sealed descriptors."""

    sealer: TicketSealer
    transactions: Transactions

    def name(
        self, call: CallContext, descriptor: FlightDescriptor
    ) -> tuple[ServedCatalog, DescriptorName]:
        """Return the catalog and the name in a descriptor. Raises BadRequest.

        A caller without the catalog header may use any catalog: the seal shows which one it is.
        """
        refusal: BadRequest | None = None
        for served in call.requested_catalogs():
            try:
                return served, self.sealer.open_descriptor(served.name, descriptor)
            except BadRequest as error:
                refusal = refusal or error
        raise refusal or BadRequest("the descriptor belongs to no catalog of this server")

    def to_read(
        self, call: CallContext, descriptor: FlightDescriptor, point: AsOf | None = None
    ) -> LocatedTable:
        """Return the table as the caller's transaction sees it, or as it was at `point`."""
        served, name = self.name(call, descriptor)
        transaction = self.transactions.of(call, served)
        if point is None:
            table = self._with_known_columns(served, name, transaction)
            return LocatedTable(served, name, table, transaction)
        live = served.catalog.load_schema(name.schema).load_table(name.name)
        return LocatedTable(served, name, travel(live, point, name), transaction)

    def to_write(
        self, call: CallContext, descriptor: FlightDescriptor, operation: str
    ) -> LocatedTable:
        """Return the table to write to.

        Columns are written by name, so a caller that knows only some of them may write. INSERT
        writes to the current table: it never conflicts, and the transaction may have altered or
        recreated the table since it first read it.
        """
        served, name = self.name(call, descriptor)
        transaction = self.transactions.of(call, served)
        live = served.catalog.load_schema(name.schema).load_table(name.name)
        if operation == "insert":
            return LocatedTable(served, name, live, transaction)
        table = transaction.table(served.catalog, name.schema, name.name)
        if not _has_known_columns(table, name) and _has_known_columns(live, name):
            table = transaction.move_pin(served.catalog, name.schema, name.name)
        return LocatedTable(served, name, table, transaction)

    def _with_known_columns(
        self, served: ServedCatalog, name: DescriptorName, transaction: SnapshotPins
    ) -> Table:
        """Return the pinned table. Raises FailedPrecondition if the caller knows other columns.

        The client reads rows by the schema that it got at ATTACH, and crashes on any other one. So
        a table that was altered in the meantime is refused.
        """
        table = transaction.table(served.catalog, name.schema, name.name)
        if _has_known_columns(table, name):
            return table
        table = transaction.move_pin(served.catalog, name.schema, name.name)
        if _has_known_columns(table, name):
            return table
        raise FailedPrecondition(
            f"table {name.schema}.{name.name} was altered since you attached; "
            "DETACH and ATTACH again to see its new columns"
        )


def travel(table: Table, point: AsOf, name: DescriptorName) -> Table:
    """Return the table as it was at `point`. Raises NotSupported."""
    if not supports(table, CanTravel):
        raise NotSupported(
            f"table {name.schema}.{name.name} has no earlier versions; read it without AT"
        )
    return table.at(point)


def read_point(unit: str, value: str) -> AsOf | None:
    """Return the version or time that a request names; None if it names none."""
    if not unit and not value:
        return None
    try:
        return AsOf(AtUnit(unit.upper()), value)
    except ValueError:
        raise BadRequest(f"AT accepts VERSION or TIMESTAMP, not {unit!r}") from None


def _has_known_columns(table: Table, name: DescriptorName) -> bool:
    return not name.fingerprint or name.fingerprint == fingerprint(wire_schema(table.info()))
