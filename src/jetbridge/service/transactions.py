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

from jetbridge.catalog import CanSnapshot, Catalog, Table
from jetbridge.errors import NotFound
from jetbridge.service.calls import Call, Served


class Transaction:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Catalog | None = None
        self._tables: dict[tuple[str, str], Table] = {}

    def table(self, live: Catalog, schema: str, name: str) -> Table:
        """The table at the pinned version; one made since then, or made anew, at its newest."""
        key = (schema.casefold(), name.casefold())
        current = _load_or_none(live, schema, name)
        with self._lock:
            if key not in self._tables:
                self._tables[key] = self._load(live, schema, name)
            pinned = self._tables[key]
            if current is not None and current.info().identity != pinned.info().identity:
                pinned = self._tables[key] = current
            return pinned

    def move_pin(self, live: Catalog, schema: str, name: str) -> Table:
        """Moves the pin of one table to its newest version."""
        table = live.load_schema(schema).load_table(name)
        with self._lock:
            self._tables[(schema.casefold(), name.casefold())] = table
        return table

    def _load(self, live: Catalog, schema: str, name: str) -> Table:
        if self._snapshot is None:
            self._snapshot = live.snapshot() if isinstance(live, CanSnapshot) else live
        try:
            return self._snapshot.load_schema(schema).load_table(name)
        except NotFound:
            return live.load_schema(schema).load_table(name)


def _load_or_none(live: Catalog, schema: str, name: str) -> Table | None:
    try:
        return live.load_schema(schema).load_table(name)
    except NotFound:
        return None


class Transactions:
    def __init__(
        self, idle_seconds: float, at_most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle_seconds, self._at_most, self._clock = idle_seconds, at_most, clock
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, str, str], tuple[float, Transaction]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def create(self, call: Call, served: Served) -> str:
        identifier = secrets.token_hex(16)
        self._touch((call.owner, served.name, identifier), Transaction())
        return identifier

    def of(self, call: Call, served: Served) -> Transaction:
        """That of the call's header; an unknown or expired id starts afresh, no id lasts a call."""
        identifier = call.transaction_id
        if not identifier:
            return Transaction()
        key = (call.owner, served.name, identifier)
        with self._lock:
            last_used, known = self._open.get(key, (0.0, None))
        if known is None or self._clock() - last_used > self._idle_seconds:
            known = Transaction()
        return self._touch(key, known)

    def _touch(self, key: tuple[str, str, str], transaction: Transaction) -> Transaction:
        """Also drops what has expired and, over the limit, what was unused for longest."""
        now = self._clock()
        with self._lock:
            self._open[key] = (now, transaction)
            self._open.move_to_end(key)
            while self._open:
                last_used, _ = next(iter(self._open.values()))
                if len(self._open) <= self._at_most and now - last_used <= self._idle_seconds:
                    break
                self._open.popitem(last=False)
        return transaction
