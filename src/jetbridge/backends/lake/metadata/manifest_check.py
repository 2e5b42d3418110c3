"""Checks that all manifests of a snapshot are readable before DuckDB plans a scan.

DuckDB 1.5.5 aborts the process on a missing, cut or damaged manifest. So each manifest is read once
by `read_avro`, which raises an error; later only its size and time are compared. A manifest that is
damaged between this check and the scan still aborts the process.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from jetbridge.backends.lake.caches import BoundedCache
from jetbridge.backends.lake.errors import unreadable_table
from jetbridge.backends.lake.files import Files, local_path, readable
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import LakeReader, QueryError

_MOST_MANIFESTS = 20_000
# Manifests in all lists together; versions of a table that follow each other share most of them.
_MOST_LISTED = 20_000
# In an object store a check is a call over the network, so it is not repeated for every scan.
_REMOTE_SECONDS = 30.0

_ManifestList = tuple["_Listed", ...]


@dataclass(frozen=True, slots=True)
class _Listed:
    location: str
    length: int
    spec: int


@dataclass(frozen=True, slots=True)
class _Readable:
    """Hold size and time of a manifest when it was read, and the formats of the files in it."""

    mark: tuple[int, int]
    formats: frozenset[str]
    checked: float


class ManifestChecker:
    """Remember which manifests are readable: their files never change under their name."""

    def __init__(self, reader: LakeReader, files: Files) -> None:
        self._reader, self._files = reader, files
        self._lists: BoundedCache[str, _ManifestList] = BoundedCache(_MOST_LISTED, _size_of_list)
        self._readable: BoundedCache[str, _Readable] = BoundedCache(_MOST_MANIFESTS)

    def formats(self, state: TableState) -> frozenset[str]:
        """Return the formats of all files of a snapshot; raises Unavailable with a damaged one."""
        formats: set[str] = set()
        unread = []
        for listed in self._manifests(state):
            known = self._known(state, listed)
            if known is None:
                unread.append(listed)
            else:
                formats |= known.formats
        return frozenset(formats.union(*self._read(state, unread)))

    def specs(self, state: TableState) -> frozenset[int]:
        """Return the partition specs of the manifests of a snapshot."""
        return frozenset(listed.spec for listed in self._manifests(state))

    def _manifests(self, state: TableState) -> _ManifestList:
        if state.snapshot is None:
            return ()
        location = str(state.snapshot.manifest_list)
        known = self._lists.get(location)
        if known is not None:
            return known
        try:
            rows = self._reader.query(queries.manifests(readable(location)))
        except QueryError as error:
            raise unreadable_table(state.title(), error, location) from error
        names = ("manifest_path", "manifest_length", "partition_spec_id")
        columns = (rows.column(name).to_pylist() for name in names)
        manifests = tuple(_Listed(*values) for values in zip(*columns, strict=True))
        self._lists.put(location, manifests)
        return manifests

    def _known(self, state: TableState, listed: _Listed) -> _Readable | None:
        """Return what is known of a manifest; None if it must be read first."""
        known = self._readable.get(listed.location)
        if known is None:
            return None
        is_remote = local_path(listed.location) is None
        if is_remote and time.monotonic() - known.checked < _REMOTE_SECONDS:
            return known
        return known if self._mark(state, listed) == known.mark else None

    def _mark(self, state: TableState, listed: _Listed) -> tuple[int, int]:
        """Return size and time of a manifest; an object store has no time that would help."""
        path = local_path(listed.location)
        try:
            if path is not None:
                status = os.stat(path)
                return status.st_size, status.st_mtime_ns
            return self._files.size(listed.location), 0
        except OSError as error:
            problem = error.strerror or error
            raise unreadable_table(state.title(), problem, listed.location) from None

    def _read(self, state: TableState, unread: Sequence[_Listed]) -> list[frozenset[str]]:
        marks = {listed.location: self._mark(state, listed) for listed in unread}
        for listed in unread:
            size, _ = marks[listed.location]
            if size != listed.length:
                problem = f"it has {size} bytes instead of {listed.length}"
                raise unreadable_table(state.title(), problem, listed.location)
        formats = self._read_formats(state, [listed.location for listed in unread])
        for listed in unread:
            in_file = formats.get(readable(listed.location), frozenset())
            known = _Readable(marks[listed.location], in_file, time.monotonic())
            self._readable.put(listed.location, known)
        return list(formats.values())

    def _read_formats(self, state: TableState, locations: list[str]) -> dict[str, frozenset[str]]:
        """Return the formats by manifest; raises Unavailable with the manifest that is damaged."""
        if not locations:
            return {}
        paths = [readable(location) for location in locations]
        try:
            rows = self._reader.query(queries.formats_of_files(paths)).to_pylist()
        except QueryError as error:
            if len(locations) == 1:
                raise unreadable_table(state.title(), error, locations[0]) from error
            single = [self._read_formats(state, [location]) for location in locations]
            return {path: formats for part in single for path, formats in part.items()}
        return {
            path: frozenset(row["file_format"] for row in rows if row["manifest"] == path)
            for path in paths
        }


def _size_of_list(manifests: _ManifestList) -> int:
    """Count the manifests; a list that is too long for the cache is kept alone."""
    return min(len(manifests) + 1, _MOST_LISTED)
