"""Finds the table of a request, at the version that the caller and its transaction see.

The client requests an identifier for each statement or BEGIN block and never ends it, so
identifiers expire. All scans under one identifier see one version of every table. A statement that
writes moves the pin of its table, so that the transaction sees its own changes.
"""

import secrets
import threading
from collections.abc import MutableMapping
from dataclasses import dataclass

from cachetools import TTLCache

from jetbridge.catalog import (
    AsOf,
    AtUnit,
    CanExpire,
    CanSnapshot,
    CanTravel,
    Catalog,
    Schema,
    Table,
    fold,
    supports,
)
from jetbridge.errors import BadRequest, Conflict, FailedPrecondition, NotFound, NotSupported
from jetbridge.service.call_context import CallContext, ServedCatalog
from jetbridge.wire.flight_pb2 import FlightDescriptor
from jetbridge.wire.schemas import wire_schema
from jetbridge.wire.tickets import DescriptorName, TicketSealer, fingerprint

_Key = tuple[str, str, str]  # owner, catalog, identifier
_Table = tuple[str, str]  # folded schema, folded name


class SnapshotPins:
    """Hold the versions that one transaction reads.

    A pin is a snapshot of the catalog, not a table: a snapshot may expire, a table holds its rows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Catalog | None = None
        self._moved: dict[_Table, Catalog] = {}
        self._identities: dict[_Table, str] = {}

    def table(self, live: Catalog, schema: str, name: str) -> Table:
        """Return the table at its pinned version.

        A table that was created after the pin is returned at its newest version. Raises NotFound
        for a table that was dropped, and Conflict if another table has its name now and the pinned
        version is not kept.
        """
        key = _key(schema, name)
        with self._lock:
            if self._snapshot is None:
                self._snapshot = _snapshot(live)
            pin, known = self._moved.get(key, self._snapshot), self._identities.get(key)
        try:
            pinned = pin.load_schema(schema).load_table(name)
        except NotFound:
            live.load_schema(schema).load_table(name)
            if known is None:
                return self.move_pin(live, schema, name)
            raise _replaced(schema, name) from None
        with self._lock:
            known = self._identities.setdefault(key, pinned.info().identity)
        if pinned.info().identity != known:
            raise _replaced(schema, name)
        return pinned

    def move_pin(self, live: Catalog, schema: str, name: str) -> Table:
        """Move the pin of one table to its newest version, and return it at that version."""
        pin = _snapshot(live)
        table = pin.load_schema(schema).load_table(name)
        with self._lock:
            self._moved[_key(schema, name)] = pin
            self._identities[_key(schema, name)] = table.info().identity
        return table


def _key(schema: str, name: str) -> _Table:
    return fold(schema), fold(name)


def _replaced(schema: str, name: str) -> Conflict:
    return Conflict(
        f"table {schema}.{name} was replaced by another table since this transaction first read "
        "it; start a new transaction"
    )


def _snapshot(live: Catalog) -> Catalog:
    if not supports(live, CanSnapshot):
        return _PinnedCatalog(live)
    created = live.snapshot()
    if supports(created, CanExpire):
        created.allow_expiry()
    return created


class _PinnedCatalog:
    """Keep each table of a catalog without snapshots as it was when it was first loaded."""

    def __init__(self, live: Catalog) -> None:
        self.list_schemas, self.version = live.list_schemas, live.version
        self._live = live
        self._schemas: dict[str, _PinnedSchema] = {}

    def load_schema(self, name: str) -> Schema:
        return self._schemas.setdefault(fold(name), _PinnedSchema(self._live.load_schema(name)))


class _PinnedSchema:
    def __init__(self, live: Schema) -> None:
        self.info, self.list_tables = live.info, live.list_tables
        self._live = live
        self._tables: dict[str, Table] = {}

    def load_table(self, name: str) -> Table:
        """Return the table as it was first loaded. Raises NotFound if it is another one now."""
        current = self._live.load_table(name)
        pinned = self._tables.setdefault(fold(name), current)
        if pinned.info().identity != current.info().identity:
            raise NotFound("table", name)
        return pinned


class Transactions:
    """Keep the pins of each transaction until it is idle for too long, or there are too many.

    The client never ends a transaction. An unknown identifier starts a new one.
    """

    def __init__(self, idle_seconds: float, at_most: int) -> None:
        self._lock = threading.Lock()
        self._pins: MutableMapping[_Key, SnapshotPins] = TTLCache(at_most, idle_seconds)

    def __len__(self) -> int:
        with self._lock:
            return len(self._pins)

    def create(self, call: CallContext, served: ServedCatalog) -> str:
        """Begin a transaction and return its identifier."""
        identifier = secrets.token_hex(16)
        self._use((call.owner, served.name, identifier))
        return identifier

    def of(self, call: CallContext, served: ServedCatalog) -> SnapshotPins:
        """Return the pins of the transaction that the call names, or pins for this call alone."""
        identifier = call.transaction_id
        if not identifier:
            return SnapshotPins()
        return self._use((call.owner, served.name, identifier))

    def _use(self, key: _Key) -> SnapshotPins:
        with self._lock:
            pins = self._pins.get(key) or SnapshotPins()
            self._pins[key] = pins  # restarts its idle time
            return pins


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
        if table.info().identity != live.info().identity:
            raise _replaced(name.schema, name.name)
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
