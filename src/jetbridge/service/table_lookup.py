"""From the names in a request to the table at the version the caller may see."""

from dataclasses import dataclass

from jetbridge.catalog import AsOf, AtUnit, CanTravel, Table, supports
from jetbridge.errors import BadRequest, FailedPrecondition, NotSupported
from jetbridge.service.call_context import Call, ServedCatalog
from jetbridge.service.transactions import SnapshotPins, Transactions
from jetbridge.wire.flight_pb2 import FlightDescriptor
from jetbridge.wire.schemas import wire_schema
from jetbridge.wire.tickets import DescriptorName, TicketSealer, fingerprint


@dataclass(frozen=True)
class LocatedTable:
    served: ServedCatalog
    name: DescriptorName
    table: Table
    transaction: SnapshotPins


@dataclass(frozen=True)
class TableLookup:
    sealer: TicketSealer
    transactions: Transactions

    def name(
        self, call: Call, descriptor: FlightDescriptor
    ) -> tuple[ServedCatalog, DescriptorName]:
        """A caller without the catalog header may mean any catalog: the seal tells which."""
        refusal: BadRequest | None = None
        for served in call.meant_catalogs():
            try:
                return served, self.sealer.open_descriptor(served.name, descriptor)
            except BadRequest as error:
                refusal = refusal or error
        raise refusal or BadRequest("the descriptor names no catalog")

    def to_read(
        self, call: Call, descriptor: FlightDescriptor, point: AsOf | None = None
    ) -> LocatedTable:
        served, name = self.name(call, descriptor)
        transaction = self.transactions.of(call, served)
        if point is None:
            return LocatedTable(
                served, name, self._as_known(served, name, transaction), transaction
            )
        live = served.catalog.load_schema(name.schema).load_table(name.name)
        return LocatedTable(served, name, travel(live, point, name), transaction)

    def to_write(self, call: Call, descriptor: FlightDescriptor, operation: str) -> LocatedTable:
        """Columns are written by name, so one who knows fewer of them may still write.

        An insert goes to the table as it is now: it never conflicts, and the transaction may have
        altered the table, or dropped it and made it anew, since it first saw it.
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

    def _as_known(
        self, served: ServedCatalog, name: DescriptorName, transaction: SnapshotPins
    ) -> Table:
        """The pinned table, provided it has the columns that the caller knows.

        The client lays the rows out by the schema it was told when it attached, and crashes on
        any other; so a table that was altered since is refused, not sent.
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
    if not supports(table, CanTravel):
        raise NotSupported(f"table {name.schema}.{name.name} keeps no history to travel in")
    return table.at(point)


def read_point(unit: str, value: str) -> AsOf | None:
    if not unit and not value:
        return None
    try:
        return AsOf(AtUnit(unit.upper()), value)
    except ValueError:
        raise BadRequest(f"AT takes VERSION or TIMESTAMP, not {unit!r}") from None


def _has_known_columns(table: Table, name: DescriptorName) -> bool:
    return not name.fingerprint or name.fingerprint == fingerprint(wire_schema(table.info()))
