"""Owns what reads share: the reader, and what was learned about files that never change."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge.backends.lake.caches import BoundedCache
from jetbridge.backends.lake.metadata.manifest_check import ManifestChecker
from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles, SnapshotFilesReader
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.warehouse.warehouse import Warehouse
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.runtime.array_sizes import array_bytes

# A chunk takes so much memory besides its values; files of one row each have many chunks.
CHUNK_BYTES = 1_024
_MOST_SOURCES = 256
_MOST_MESSAGES = 10_000
_MOST_REFUSALS = 10_000
_REASON_CHARACTERS = 200


@dataclass(frozen=True)
class ColumnChunkKey:
    """Name a column of a row group of a file."""

    location: str
    row_group: int
    field_id: bytes


class ColumnCache(BoundedCache[ColumnChunkKey, pa.ChunkedArray]):
    """Keep columns that were read last, decoded, so that a small table is read again quickly.

    Data files never change, so no entry gets old. Only tables that fit as a whole are kept: the
    scan of a large one would push out everything else and find nothing the next time.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes, _chunk_bytes)


def _chunk_bytes(values: pa.ChunkedArray) -> int:
    return array_bytes(values) + CHUNK_BYTES


class ReadContext:
    """Own the reader of a lake and its caches."""

    def __init__(
        self,
        warehouse: Warehouse,
        reader: LakeReader,
        properties: Mapping[str, str],
        column_cache_bytes: int,
    ) -> None:
        """`properties` are those of the catalog, as PyIceberg takes them."""
        self.warehouse, self.reader, self.properties = warehouse, reader, properties
        self.tables, self.files = warehouse.tables, warehouse.files
        self.manifests = ManifestChecker(reader, self.files)
        self.columns = ColumnCache(column_cache_bytes)
        # How snapshots are read: see `duckdb_source`.
        self.sources: BoundedCache[tuple[str, int | None, int], Any] = BoundedCache(_MOST_SOURCES)
        self._snapshot_files = SnapshotFilesReader(reader)
        self._messages: BoundedCache[tuple[str, ...], bool] = BoundedCache(_MOST_MESSAGES)
        self._pyiceberg_refusals: BoundedCache[str, bool] = BoundedCache(_MOST_REFUSALS)

    def snapshot_files(self, state: TableState) -> SnapshotFiles:
        """Return the files of a snapshot; raises Unavailable with a damaged manifest."""
        return self._snapshot_files.read(state)

    def forget(self) -> None:
        """Forget what was learned about snapshots, e.g. after files were changed by hand."""
        self._snapshot_files.forget()
        self.sources.clear()

    def log_once(self, logger: logging.Logger, state: TableState, action: str, reason: str) -> None:
        """Log what is done with a table, once for each action, whatever the reason."""
        if self.is_new_message(state.identity, action):
            first_line = reason.split("\n", 1)[0][:_REASON_CHARACTERS]
            logger.info("table %s is %s: %s", state.title(), action, first_line)

    def is_new_message(self, *key: str) -> bool:
        """Return whether the log does not have this message yet, and note that it has it."""
        return self._messages.add(key)

    def refuse_pyiceberg(self, state: TableState) -> None:
        """Note that PyIceberg failed to read a table."""
        self._pyiceberg_refusals.add(state.identity)

    def is_refused_by_pyiceberg(self, state: TableState) -> bool:
        """Return whether PyIceberg failed to read the table before."""
        return self._pyiceberg_refusals.get(state.identity) is not None
