"""Finds the tables of a lake and their current states, and counts versions of the catalog."""

import threading
import time
from contextlib import suppress

from jetbridge.backends.lake.errors import MESSAGE_CHARACTERS
from jetbridge.backends.lake.files import Files
from jetbridge.backends.lake.metadata.pointers import (
    Key,
    LakeListing,
    MetadataPointer,
    Pointers,
)
from jetbridge.backends.lake.metadata.state_cache import StateCache
from jetbridge.backends.lake.metadata.table_state import TableState, read_state
from jetbridge.errors import Conflict, NotFound, ServerError, Unavailable

# Others may commit all the time, so that each metadata file is gone before it can be read.
_MOST_READS = 10


class Superseded(Conflict):
    """Report that the metadata file of a version is gone, and the table has another one."""


class TableStore:
    """Own the names of tables, their states, and the version of the catalog."""

    def __init__(self, pointers: Pointers, files: Files, state_bytes: int) -> None:
        self.pointers = pointers
        self.states = StateCache(state_bytes)
        self._files = files
        self._versions = _VersionCounter(self)

    def listing(self) -> LakeListing:
        """Return all tables, as they are now."""
        return self.pointers.listing()

    def version(self, listing: LakeListing) -> int:
        """Return the version of the catalog, which rises whenever a listing shows DDL."""
        return self._versions.number(listing)

    def find(self, namespace: str, name: str) -> TableState | None:
        """Return the current state of a table; None if there is no table of this name."""
        for _ in range(_MOST_READS):
            pointer = self.pointers.find(namespace, name)
            try:
                return None if pointer is None else self.state(pointer)
            except Superseded as error:
                # Others committed after the first step, and the file was removed as too old.
                superseded = error
        raise superseded

    def load(self, namespace: str, name: str) -> TableState:
        """Return the current state of a table; raises NotFound."""
        state = self.find(namespace, name)
        if state is None:
            raise NotFound("table", f"{namespace}.{name}")
        return state

    def state(self, pointer: MetadataPointer) -> TableState:
        """Return the state that a metadata file describes; raises Unavailable or Superseded."""
        known = self.states.get(pointer)
        if known is not None:
            return known
        try:
            state = read_state(pointer, self._files.read(pointer.location))
        except OSError as error:
            raise self._missing_metadata(pointer, error) from error
        self.states.put(state)
        return state

    def _missing_metadata(self, pointer: MetadataPointer, error: OSError) -> ServerError:
        """Return Superseded for an old metadata file that is gone, else Unavailable."""
        is_gone = isinstance(error, FileNotFoundError)
        if is_gone and self.pointers.find(pointer.namespace, pointer.name) != pointer:
            return Superseded(
                f"the metadata of table {pointer.title()!r} is gone: {pointer.location}; "
                "start a new transaction"
            )
        problem = f"its metadata file {pointer.location}: {error.strerror or error}"
        message = f"table {pointer.title()!r} cannot be read: {problem}"
        return Unavailable(message[:MESSAGE_CHARACTERS])

    def current(self, state: TableState) -> TableState:
        """Return the current state of the same table, also if it was renamed.

        Raises NotFound if it was dropped, even if another table has its name.
        """
        current = self.find(state.pointer.namespace, state.pointer.name)
        if current is not None and current.identity == state.identity:
            return current
        for pointer in self.pointers.listing().tables.values():
            with suppress(ServerError, OSError):  # the metadata of another table is damaged
                other = self.state(pointer)
                if other.identity == state.identity:
                    return other
        raise NotFound("table", state.title())


class _VersionCounter:
    """Count versions of the catalog."""

    def __init__(self, tables: TableStore) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        # Milliseconds, so that the number also rises from one start of the server to the next.
        self._number = time.time_ns() // 1_000_000
        self._listing = LakeListing({}, {})
        self._fingerprints: dict[Key, tuple[object, ...]] = {}

    def number(self, listing: LakeListing) -> int:
        with self._lock:
            fingerprints = {
                key: self._fingerprint(key, pointer) for key, pointer in listing.tables.items()
            }
            before = (self._listing.namespaces, self._fingerprints)
            self._number += (listing.namespaces, fingerprints) != before
            self._listing, self._fingerprints = listing, fingerprints
            return self._number

    def _fingerprint(self, key: Key, pointer: MetadataPointer) -> tuple[object, ...]:
        if self._listing.tables.get(key) == pointer:
            return self._fingerprints[key]
        try:
            return self._tables.state(pointer).ddl_fingerprint()
        except (ServerError, OSError):
            return (pointer,)  # a table that cannot be read must not stop the others
