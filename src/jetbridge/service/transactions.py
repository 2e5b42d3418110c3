"""Keeps the table versions that transactions read.

The client requests an identifier for each statement or BEGIN block and never ends it, so
identifiers expire. All scans under one identifier see one version of every table. A statement that
writes moves the pin of its table, so that the transaction sees its own changes.
"""

import secrets
import threading
from collections.abc import MutableMapping

from cachetools import TTLCache

from jetbridge.catalog import CanExpire, CanSnapshot, Catalog, Schema, Table, fold, supports
from jetbridge.errors import NotFound
from jetbridge.service.call_context import CallContext, ServedCatalog

_Key = tuple[str, str, str]  # owner, catalog, identifier


class SnapshotPins:
    """Hold the versions that one transaction reads.

    A pin is a snapshot of the catalog, not a table: a snapshot may expire, a table holds its rows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Catalog | None = None
        self._moved: dict[tuple[str, str], Catalog] = {}

    def table(self, live: Catalog, schema: str, name: str) -> Table:
        """Return the table at its pinned version.

        A table that was created or recreated after the pin is returned at its newest version.
        """
        current = live.load_schema(schema).load_table(name)
        with self._lock:
            if self._snapshot is None:
                self._snapshot = _snapshot(live)
            pin = self._moved.get((fold(schema), fold(name)), self._snapshot)
        try:
            pinned = pin.load_schema(schema).load_table(name)
        except NotFound:
            return self.move_pin(live, schema, name)
        if pinned.info().identity != current.info().identity:
            return self.move_pin(live, schema, name)
        return pinned

    def move_pin(self, live: Catalog, schema: str, name: str) -> Table:
        """Move the pin of one table to its newest version, and return it at that version."""
        pin = _snapshot(live)
        table = pin.load_schema(schema).load_table(name)
        with self._lock:
            self._moved[(fold(schema), fold(name))] = pin
        return table


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
        return self._tables.setdefault(fold(name), self._live.load_table(name))


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
