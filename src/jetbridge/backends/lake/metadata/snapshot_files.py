"""Reads the files of a snapshot from its manifests, with the embedded DuckDB."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from jetbridge.backends.lake.caches import BoundedCache
from jetbridge.backends.lake.errors import unreadable_table
from jetbridge.backends.lake.files import Files, readable
from jetbridge.backends.lake.metadata import deletion_vectors
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import LakeReader, QueryError
from jetbridge.errors import ServerError, Unavailable

_DELETED = 2
_DATA = 0
_MOST_SNAPSHOTS = 32
# Of all snapshots that are kept; a file takes some 400 bytes.
_MOST_FILES = 20_000
# A row of a manifest, as DuckDB answers it: a column by its name.
_Entry = dict[str, Any]


@dataclass(frozen=True)
class DeletionVector:
    """Name deleted positions of one data file: a blob in a Puffin file."""

    location: str
    data_file: str
    offset: int
    length: int
    rows: int
    file_size: int


@dataclass(frozen=True, slots=True)
class DataFileEntry:
    """Describe a data file; `first_row_id` is for rows that carry no row id of their own."""

    location: str
    rows: int
    first_row_id: int | None
    own_row_ids: bool
    sequence_number: int
    file_format: str


@dataclass(frozen=True)
class SnapshotFiles:
    """List the files of a snapshot.

    `old_deletes`: it has delete files of format 2, beside which no vector is allowed.
    """

    files: tuple[DataFileEntry, ...]
    vectors: dict[str, DeletionVector]
    old_deletes: bool = False

    def shares_vectors(self) -> bool:
        """Return whether one Puffin file holds several vectors, as those of Spark do."""
        return len({vector.location for vector in self.vectors.values()}) < len(self.vectors)

    @cached_property
    def _ranges(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        firsts = [-1 if f.first_row_id is None else f.first_row_id for f in self.files]
        starts = np.array(firsts, dtype=np.int64)
        return starts, starts + np.array([f.rows for f in self.files], dtype=np.int64)

    def may_hold(self, row_ids: npt.NDArray[np.int64]) -> list[str]:
        """Return the files in which these rows can be; `row_ids` ascend."""
        counted = self._has_ids(row_ids)
        return [
            file.location
            for file, some in zip(self.files, counted, strict=True)
            if file.own_row_ids or file.first_row_id is None or some
        ]

    def mixes(self, row_ids: npt.NDArray[np.int64]) -> bool:
        """Return whether one of these rows has no id of its own in a file where others have.

        A MERGE of Spark writes such files: new rows beside rows that changed. `row_ids` ascend.
        """
        counted = self._has_ids(row_ids)
        return any(f.own_row_ids and some for f, some in zip(self.files, counted, strict=True))

    def _has_ids(self, row_ids: npt.NDArray[np.int64]) -> list[bool]:
        """Return for each file whether some ids are those of its rows by their position in it."""
        starts, ends = self._ranges
        has_ids: list[bool] = (
            np.searchsorted(row_ids, starts) < np.searchsorted(row_ids, ends)
        ).tolist()
        return has_ids


class SnapshotFilesReader:
    """Read the files of snapshots from their manifests, and keep the last answers.

    Reading takes a dozen milliseconds, and a statement asks two or three times. A manifest list
    never changes, and no other one gets its name.
    """

    def __init__(self, reader: LakeReader) -> None:
        self._reader = reader
        self._cache: BoundedCache[str, SnapshotFiles] = BoundedCache(_MOST_FILES, _size_of)

    def read(self, state: TableState) -> SnapshotFiles:
        """Return the files of a snapshot; raises Unavailable with a damaged manifest."""
        if state.snapshot is None:
            return SnapshotFiles((), {})
        manifest_list = str(state.snapshot.manifest_list)
        known = self._cache.get(manifest_list)
        if known is None:
            known = _read(self._reader, state, manifest_list)
            self._cache.put(manifest_list, known)
        return known

    def forget(self) -> None:
        """Forget all answers."""
        self._cache.clear()


def _size_of(files: SnapshotFiles) -> int:
    """Count the files; so at most `_MOST_SNAPSHOTS` snapshots are kept, however small."""
    return max(len(files.files) + len(files.vectors), _MOST_FILES // _MOST_SNAPSHOTS)


def _read(reader: LakeReader, state: TableState, manifest_list: str) -> SnapshotFiles:
    try:
        rows = reader.query(queries.manifests(readable(manifest_list))).to_pylist()
    except QueryError as error:
        raise unreadable_table(state.title(), error, manifest_list) from error
    first_ids = {readable(row["manifest_path"]): row.get("first_row_id") for row in rows}
    numbers = {readable(row["manifest_path"]): row.get("sequence_number") or 0 for row in rows}
    files: list[DataFileEntry] = []
    vectors: dict[str, DeletionVector] = {}
    old_deletes = False
    for entry in _entries(reader, state, list(first_ids)):
        if entry["status"] == _DELETED:
            continue
        if entry["content"] == _DATA:
            files.append(_data_file(entry, first_ids, numbers))
        elif entry["referenced_data_file"] and entry["content_offset"] is not None:
            vectors[entry["referenced_data_file"]] = _vector(entry)
        else:
            old_deletes = True
    files.sort(key=lambda file: file.location)
    return SnapshotFiles(tuple(files), vectors, old_deletes)


def _entries(reader: LakeReader, state: TableState, manifests: list[str]) -> list[_Entry]:
    if not manifests:
        return []
    try:
        return list(reader.query(queries.manifest_entries(manifests)).to_pylist())
    except QueryError:
        # Manifests of older formats have fewer columns, so they are read one by one.
        return [entry for path in manifests for entry in _old_entries(reader, state, path)]


def _old_entries(reader: LakeReader, state: TableState, manifest: str) -> Iterator[_Entry]:
    try:
        rows = reader.query(queries.whole_manifest(manifest)).to_pylist()
    except QueryError as error:
        raise unreadable_table(state.title(), error, manifest) from error
    for row in rows:
        data_file = row["data_file"]
        counts = data_file.get("value_counts")
        own = None if not counts else any(key == queries.ROW_ID_FIELD for key, _ in counts)
        known = {name: data_file.get(name) for name in queries.ENTRY_COLUMNS}
        known["content"] = known["content"] or _DATA
        entry = {"manifest": manifest, "status": row["status"], "own_row_ids": own}
        yield {**entry, "sequence_number": row.get("sequence_number"), **known}


def _data_file(
    entry: _Entry, first_ids: dict[str, int | None], numbers: dict[str, int]
) -> DataFileEntry:
    """Return a data file; one without a first row id takes the next one of its manifest."""
    first = entry["first_row_id"]
    number = entry["sequence_number"]
    if first is None:
        manifest = entry["manifest"]
        first = first_ids[manifest]
        if first is not None:
            first_ids[manifest] = first + entry["record_count"]
    own = entry["own_row_ids"] is not False  # unknown may be
    return DataFileEntry(
        entry["file_path"],
        entry["record_count"],
        first,
        own,
        numbers[entry["manifest"]] if number is None else number,
        str(entry["file_format"]).upper(),
    )


def _vector(entry: _Entry) -> DeletionVector:
    return DeletionVector(
        location=entry["file_path"],
        data_file=entry["referenced_data_file"],
        offset=entry["content_offset"],
        length=entry["content_size_in_bytes"],
        rows=entry["record_count"],
        file_size=entry["file_size_in_bytes"],
    )


def positions_of(
    files: Files, state: TableState, vectors: Iterable[DeletionVector]
) -> Iterator[tuple[DeletionVector, deletion_vectors.Positions]]:
    """Yield the positions that each vector deletes; raises Unavailable with a damaged file."""
    by_file = sorted(vectors, key=lambda vector: vector.location)
    for location, together in groupby(by_file, key=lambda vector: vector.location):
        try:
            data = files.read(location)
            if not data.endswith(deletion_vectors.MAGIC):
                raise unreadable_table(state.title(), "it is cut", location)
            for vector in together:
                blob = data[vector.offset : vector.offset + vector.length]
                yield vector, deletion_vectors.positions(blob)
        except Unavailable:
            raise
        except (OSError, ServerError) as error:
            problem = getattr(error, "strerror", None) or error
            raise unreadable_table(state.title(), problem, location) from error
