"""Whether the manifests of a snapshot can be read, looked at before DuckDB plans a scan.

`iceberg_scan` of DuckDB 1.5.5 ends the whole process where a manifest is missing, cut or garbled.
So each is read once by `read_avro`, which raises an error, and afterwards only looked at. What
remains is the moment between the look and the scan.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from jetbridge.backends.lake.errors import unreadable_table
from jetbridge.backends.lake.files import Files, local_path, readable
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import LakeReader, QueryError

_MOST_KNOWN = 20_000
# Manifests in all lists together; versions of a table that follow each other share most of them.
_MOST_LISTED = 20_000
# A look at a manifest in an object store is a call over the network: not for every scan.
_REMOTE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Listed:
    location: str
    length: int
    spec: int


@dataclass(frozen=True, slots=True)
class _Known:
    """`mark`: size and time of the file when it was read; `formats`: those of the files in it."""

    mark: tuple[int, int]
    formats: frozenset[str]
    seen: float


class ManifestChecker:
    """Remembers which manifests are sound: their files never change under their name."""

    def __init__(self, reader: LakeReader, files: Files) -> None:
        self._reader, self._files = reader, files
        self._lists: OrderedDict[str, tuple[_Listed, ...]] = OrderedDict()
        self._listed = 0
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def formats(self, state: TableState) -> frozenset[str]:
        """The formats of all files of a snapshot; raises Unavailable with the damaged one."""
        if state.snapshot is None:
            return frozenset()
        found: set[str] = set()
        unread = []
        for listed in self._manifests(state):
            known = self._sound(state, listed)
            if known is None:
                unread.append(listed)
            else:
                found |= known.formats
        return frozenset(found.union(*self._read(state, unread)))

    def specs(self, state: TableState) -> frozenset[int]:
        """Return the partition specs of the manifests of a snapshot."""
        if state.snapshot is None:
            return frozenset()
        return frozenset(listed.spec for listed in self._manifests(state))

    def _manifests(self, state: TableState) -> tuple[_Listed, ...]:
        location = str((state.snapshot or {}).get("manifest-list"))
        with self._lock:
            known = self._lists.get(location)
        if known is not None:
            return known
        try:
            rows = self._reader.query(queries.manifests(readable(location)))
        except QueryError as error:
            raise unreadable_table(state, error, location) from error
        names = ("manifest_path", "manifest_length", "partition_spec_id")
        columns = (rows.column(name).to_pylist() for name in names)
        found = tuple(_Listed(*values) for values in zip(*columns, strict=True))
        self._keep_list(location, found)
        return found

    def _keep_list(self, location: str, found: tuple[_Listed, ...]) -> None:
        with self._lock:
            self._listed += len(found) - len(self._lists.pop(location, ()))
            self._lists[location] = found
            while self._listed > _MOST_LISTED and len(self._lists) > 1:
                _, gone = self._lists.popitem(last=False)
                self._listed -= len(gone)

    def _sound(self, state: TableState, listed: _Listed) -> _Known | None:
        """What is known of a manifest; None if it must be read first."""
        with self._lock:
            known = self._known.get(listed.location)
        if known is None:
            return None
        is_remote = local_path(listed.location) is None
        if is_remote and time.monotonic() - known.seen < _REMOTE_SECONDS:
            return known
        return known if self._mark(state, listed) == known.mark else None

    def _mark(self, state: TableState, listed: _Listed) -> tuple[int, int]:
        path = local_path(listed.location)
        try:
            if path is not None:
                found = os.stat(path)
                return found.st_size, found.st_mtime_ns
            return self._files.size(listed.location), 0
        except OSError as error:
            raise unreadable_table(state, error.strerror or error, listed.location) from None

    def _read(self, state: TableState, unread: Sequence[_Listed]) -> list[frozenset[str]]:
        marks = {listed.location: self._mark(state, listed) for listed in unread}
        for listed in unread:
            size, _ = marks[listed.location]
            if size != listed.length:
                problem = f"it has {size} bytes instead of {listed.length}"
                raise unreadable_table(state, problem, listed.location)
        formats = self._formats(state, [each.location for each in unread])
        for listed in unread:
            found = formats.get(readable(listed.location), frozenset())
            self._remember(listed.location, _Known(marks[listed.location], found, time.monotonic()))
        return list(formats.values())

    def _formats(self, state: TableState, locations: list[str]) -> dict[str, frozenset[str]]:
        """By manifest; raises Unavailable with the one that is damaged."""
        if not locations:
            return {}
        paths = [readable(location) for location in locations]
        try:
            rows = self._reader.query(queries.formats_of_files(paths)).to_pylist()
        except QueryError as error:
            if len(locations) == 1:
                raise unreadable_table(state, error, locations[0]) from error
            each = [self._formats(state, [location]) for location in locations]
            return {path: formats for found in each for path, formats in found.items()}
        return {
            path: frozenset(row["file_format"] for row in rows if row["manifest"] == path)
            for path in paths
        }

    def _remember(self, location: str, known: _Known) -> None:
        with self._lock:
            self._known[location] = known
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
