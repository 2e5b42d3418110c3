"""Keeps the table states that were read last, bounded in bytes.

Metadata files never change, so no state gets old. The newest state of a table stays longest. The
states before it stay for those who still read them, as long as there is room.
"""

import threading
from collections import Counter, OrderedDict

from jetbridge.backends.lake.metadata.metadata_file import SharedText
from jetbridge.backends.lake.metadata.pointers import Key, MetadataPointer
from jetbridge.backends.lake.metadata.table_state import TableState


class StateCache:
    """Keep states of tables by metadata file."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._newest: OrderedDict[Key, TableState] = OrderedDict()
        self._older: OrderedDict[str, TableState] = OrderedDict()  # by metadata file
        self._texts: Counter[SharedText] = Counter()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._newest) + len(self._older)

    @property
    def bytes(self) -> int:
        """Return an estimate of the memory of all states."""
        return self._bytes

    def get(self, pointer: MetadataPointer) -> TableState | None:
        """Return the state of a metadata file; None if it is not kept."""
        with self._lock:
            newest = self._newest.get(pointer.key())
            if newest is not None and newest.pointer == pointer:
                self._newest.move_to_end(pointer.key())
                return newest
            older = self._older.get(pointer.location)
            if older is not None and older.pointer == pointer:
                self._older.move_to_end(pointer.location)
                return older
        return None

    def put(self, state: TableState) -> None:
        """Keep a state, and let it share parts with the table's state before it."""
        key = state.pointer.key()
        with self._lock:
            newest = self._newest.get(key)
            if newest is not None:
                before = len(newest.file.snapshot_list.text.data)
                state.share(newest)
                self._bytes += len(newest.file.snapshot_list.text.data) - before
            if newest is not None and newest.updated > state.updated:
                self._keep_older(state)
            else:
                if newest is not None:
                    self._remove(self._newest.pop(key))
                    self._keep_older(newest)
                self._newest[key] = state
                self._add(state)
            self._evict()

    def _keep_older(self, state: TableState) -> None:
        known = self._older.pop(state.location, None)
        if known is not None:
            self._remove(known)
        self._older[state.location] = state
        self._add(state)

    def _evict(self) -> None:
        """Remove the oldest; the state used last stays, even if it is too large by itself."""
        while self._bytes > self._most_bytes and len(self) > 1:
            _, oldest = (self._older or self._newest).popitem(last=False)
            self._remove(oldest)

    def _add(self, state: TableState) -> None:
        text = state.file.snapshot_list.text
        self._bytes += state.file.size + (0 if text in self._texts else len(text.data))
        self._texts[text] += 1

    def _remove(self, state: TableState) -> None:
        text = state.file.snapshot_list.text
        self._texts[text] -= 1
        if not self._texts[text]:
            del self._texts[text]
        self._bytes -= state.file.size + (0 if text in self._texts else len(text.data))
