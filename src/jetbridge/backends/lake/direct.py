"""Whole columns of data files, read by Arrow: in half the time that DuckDB takes.

That is right for tables without deleted rows, and columns that are kept as clients see them; see
docs/decisions/0013-plain-scans-by-arrow.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jetbridge.backends.lake.damage import damaged
from jetbridge.backends.lake.hot import Chunk
from jetbridge.backends.lake.inventory import DataFileEntry
from jetbridge.backends.lake.metadata import TableState
from jetbridge.backends.lake.store import Lake
from jetbridge.catalog import ROWID
from jetbridge.sql.lake import ROW_ID, ROW_ID_FIELD

_FIELD_ID = b"PARQUET:field_id"
_FORMAT = "PARQUET"
# As many as all that read at once may hold; hot columns are cut by whoever sends them.
_BATCH_ROWS = 30_720
# A row group is read whole: larger ones are left to DuckDB, which reads them bit by bit.
_MOST_GROUP_BYTES = 128 * 1024 * 1024


def is_direct(state: TableState, names: Sequence[str]) -> bool:
    """Whether Arrow may read these columns, as far as the table tells."""
    summary = (state.snapshot or {}).get("summary") or {}
    kept = [name for name in names if name != ROWID]
    return (
        summary.get("total-delete-files") == "0"
        and bool(kept)
        and ROW_ID not in kept
        and all(state.codec.is_same(name) for name in kept)
    )


@dataclass(frozen=True)
class Opened:
    lake: Lake
    state: TableState
    entry: DataFileEntry
    file: pq.ParquetFile

    def rows(
        self, schema: pa.Schema, start: int = 0, end: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The columns of the schema, `rowid` among them, of the rows at these positions."""
        names = [ROW_ID if name == ROWID else name for name in schema.names]
        there = [name for name in names if name in self.file.schema_arrow.names]
        last = self.file.metadata.num_rows if end is None else end
        with self.file:
            try:
                for position, batch in self._between(there, start, last):
                    arrays = [self._column(batch, name, position) for name in names]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            except (OSError, pa.ArrowException) as error:
                raise damaged(self.state, error, self.entry.location) from error

    def _between(
        self, names: list[str], start: int, end: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches, each with the position of its first row; only their row groups are read."""
        first = 0
        for group in range(self.file.metadata.num_row_groups):
            rows = self.file.metadata.row_group(group).num_rows
            if first >= end:
                return
            if first + rows > start:
                yield from _cut(self._group(group, names), first, start, end)
            first += rows

    def _group(self, group: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        if not self._is_hot(group):
            yield from self.file.iter_batches(
                _BATCH_ROWS, row_groups=[group], columns=names, use_threads=False
            )
            return
        chunks = {name: self._chunk(group, name) for name in names}
        columns = {name: self.lake.hot.get(chunk) for name, chunk in chunks.items()}
        missing = [name for name, column in columns.items() if column is None]
        if missing:
            read = self.file.read_row_group(group, columns=missing, use_threads=False)
            for name in missing:
                columns[name] = read.column(name)
                self.lake.hot.put(chunks[name], read.column(name))
        yield from pa.table(columns).to_batches()

    def _is_hot(self, group: int) -> bool:
        """Whether the whole table fits into what is kept of columns."""
        there = self.file.metadata.row_group(group)
        bytes_per_row = there.total_byte_size / max(there.num_rows, 1)
        count = self.state.count()
        return count is not None and count * bytes_per_row <= self.lake.hot.most_bytes

    def _chunk(self, group: int, name: str) -> Chunk:
        field_id = _field_id(self.file.schema_arrow.field(name))
        return Chunk(self.entry.location, group, field_id or b"")

    def _column(self, batch: pa.RecordBatch, name: str, position: int) -> pa.Array:
        if name != ROW_ID:
            return batch.column(name)
        start = (self.entry.first_row_id or 0) + position
        counted = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
        own = name in batch.schema.names
        return pc.coalesce(batch.column(name), counted) if own else counted


def _cut(
    batches: Iterator[pa.RecordBatch], first: int, start: int, end: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Of batches that begin at position `first`, the rows from `start` to before `end`."""
    for batch in batches:
        skipped = max(0, start - first)
        wanted = batch.slice(skipped, max(0, end - first - skipped))
        if wanted.num_rows:
            yield first + skipped, wanted
        first += batch.num_rows


def opened(
    lake: Lake, state: TableState, entry: DataFileEntry, names: Sequence[str]
) -> Opened | None:
    """None if Arrow would not read of this file what the table says there is."""
    if entry.file_format != _FORMAT:
        return None
    try:
        filesystem, path = lake.files.filesystem(entry.location)
        file = pq.ParquetFile(filesystem.open_input_file(path))
    except (OSError, pa.ArrowException) as error:
        raise damaged(state, error, entry.location) from error
    if _is_as_stored(state, entry, file.schema_arrow, names) and _has_small_groups(file.metadata):
        return Opened(lake, state, entry, file)
    file.close(force=True)
    return None


def _is_as_stored(
    state: TableState, entry: DataFileEntry, schema: pa.Schema, names: Sequence[str]
) -> bool:
    wanted = [state.codec.storage_schema.field(name) for name in names if name != ROWID]
    if ROWID in names:
        own = ROW_ID in schema.names
        if entry.first_row_id is None or own != entry.own_row_ids:
            return False
        wanted += [_OWN_IDS] if own else []
    return all(_is_the_same(schema, field) for field in wanted)


_OWN_IDS = pa.field(ROW_ID, pa.int64(), metadata={_FIELD_ID: str(ROW_ID_FIELD)})


def _is_the_same(schema: pa.Schema, wanted: pa.Field) -> bool:
    index = schema.get_field_index(wanted.name)  # -1 if there is none, or several
    if index < 0:
        return False
    found = schema.field(index)
    return bool(found.type == wanted.type) and _field_id(found) == _field_id(wanted)


def _field_id(field: pa.Field) -> bytes | None:
    found: bytes | None = (field.metadata or {}).get(_FIELD_ID)
    return found


def _has_small_groups(metadata: pq.FileMetaData) -> bool:
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    return all(group.total_byte_size <= _MOST_GROUP_BYTES for group in groups)
