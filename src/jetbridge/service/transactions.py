"""Transaction ids and the versions they pin.

The client asks for an id per statement or BEGIN block and never ends one, so ids age out. All
scans under one id see one version of every table. A statement that writes under the id moves the
pin of the table it wrote, so that a transaction sees its own changes.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from jetbridge.catalog import CanSnapshot, Catalog, Schema, Table, fold, supports
from jetbridge.errors import NotFound
from jetbridge.service.call_context import Call, ServedCatalog


class SnapshotPins:
    """Pins are snapshots, not tables: a snapshot may forget, and then holds no rows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Catalog | None = None
        self._moved: dict[tuple[str, str], Catalog] = {}

    def table(self, live: Catalog, schema: str, name: str) -> Table:
        """The table at the pinned version; one made since then, or made anew, at its newest."""
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
        """Moves the pin of one table to its newest version."""
        pin = _snapshot(live)
        table = pin.load_schema(schema).load_table(name)
        with self._lock:
            self._moved[(fold(schema), fold(name))] = pin
        return table


@runtime_checkable
class CanExpire(Protocol):
    """A snapshot that holds something dear, and gives it back when it is left alone for long."""

    def may_lapse(self) -> None:
        """Nobody will say that it is no longer needed."""


def _snapshot(live: Catalog) -> Catalog:
    if not supports(live, CanSnapshot):
        return _PinnedCatalog(live)
    made = live.snapshot()
    if isinstance(made, CanExpire):
        made.may_lapse()
    return made


class _PinnedCatalog:
    """A catalog without snapshots: each table stays as it was when it was first asked for."""

    def __init__(self, live: Catalog) -> None:
        self.list_schemas, self.version = live.list_schemas, live.version
        self._live = live
        self._schemas: dict[str, _HeldSchema] = {}

    def load_schema(self, name: str) -> Schema:
        return self._schemas.setdefault(fold(name), _HeldSchema(self._live.load_schema(name)))


class _HeldSchema:
    def __init__(self, live: Schema) -> None:
        self.info, self.list_tables = live.info, live.list_tables
        self._live = live
        self._tables: dict[str, Table] = {}

    def load_table(self, name: str) -> Table:
        return self._tables.setdefault(fold(name), self._live.load_table(name))


Key = tuple[str, str, str]


class Transactions:
    def __init__(
        self, idle_seconds: float, at_most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle_seconds, self._at_most, self._clock = idle_seconds, at_most, clock
        self._lock = threading.Lock()
        self._open: OrderedDict[Key, tuple[float, SnapshotPins]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def create(self, call: Call, served: ServedCatalog) -> str:
        identifier = secrets.token_hex(16)
        self._use((call.owner, served.name, identifier))
        return identifier

    def of(self, call: Call, served: ServedCatalog) -> SnapshotPins:
        """That of the call's header; an unknown or expired id starts afresh, no id lasts a call."""
        identifier = call.transaction_id
        if not identifier:
            return SnapshotPins()
        return self._use((call.owner, served.name, identifier))

    def _use(self, key: Key) -> SnapshotPins:
        """Also drops what has expired and, over the limit, what was unused for longest."""
        now = self._clock()
        with self._lock:
            last_used, known = self._open.get(key, (now, None))
            if known is None or now - last_used > self._idle_seconds:
                known = SnapshotPins()
            self._open[key] = (now, known)
            self._open.move_to_end(key)
            while True:  # ends at the latest with the one just used
                last_used, _ = next(iter(self._open.values()))
                if len(self._open) <= self._at_most and now - last_used <= self._idle_seconds:
                    return known
                self._open.popitem(last=False)
