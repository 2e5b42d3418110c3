"""Whole columns of data files, read by Arrow: in half the time that DuckDB takes.

That is right for tables without deleted rows, and columns that are kept as clients see them; see
docs/decisions/0013-plain-scans-by-arrow.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jetbridge.backends.lake.errors import unreadable_table
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.snapshot_files import DataFileEntry
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.column_cache import CHUNK_BYTES, ColumnChunkKey
from jetbridge.backends.lake.types import row_lineage
from jetbridge.backends.lake.types.iceberg_schema import FIELD_ID
from jetbridge.catalog import ROWID
from jetbridge.dialects.duckdb.iceberg import ROW_ID

_FORMAT = "PARQUET"
# As many as all that read at once may hold.
_BATCH_ROWS = 30_720
# Nobody knows beforehand how long texts are.
_TEXT_ROWS = 8_192
# A row group is read whole: larger ones are left to DuckDB, which reads them bit by bit.
_MOST_GROUP_BYTES = 128 * 1024 * 1024


def is_direct(state: TableState, names: Sequence[str]) -> bool:
    """Whether Arrow may read these columns, as far as the table tells."""
    summary = (state.snapshot or {}).get("summary") or {}
    kept = [name for name in names if name != ROWID]
    return (
        summary.get("total-delete-files") == "0"
        and not state.hides_places()  # DuckDB may have to read a file of it by its name
        and bool(kept)
        and ROW_ID not in kept
        and all(state.codec.is_same(name) for name in kept)
    )


@dataclass(frozen=True)
class ParquetColumnReader:
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
                raise unreadable_table(self.state, error, self.entry.location) from error

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
        known = {name: self.lake.hot.get(self._chunk(group, name)) for name in names}
        if None not in known.values():
            yield from pa.table(known).to_batches()
            return
        gathered: list[pa.RecordBatch] | None = []
        for batch in self.file.iter_batches(
            _batch_rows(self.file.schema_arrow, names), [group], names, use_threads=False
        ):
            yield batch
            if gathered is not None:
                gathered.append(batch)
                gathered = gathered if self._fits(gathered) else None
        if gathered:
            # In one piece: whoever sends them makes messages of the size that suits.
            rows = pa.Table.from_batches(gathered).combine_chunks()
            for name in names:
                self.lake.hot.put(self._chunk(group, name), rows.column(name))

    def _fits(self, rows: list[pa.RecordBatch]) -> bool:
        """Whether a table of such rows fits as a whole into what is kept of columns.

        What the file says of sizes is no help: a text that repeats is in there once.
        """
        count = self.state.count()
        if count is None:
            return False
        seen = sum(batch.num_rows for batch in rows)
        size = sum(batch.nbytes for batch in rows) + rows[0].num_columns * CHUNK_BYTES
        each = size / seen
        return bool(max(count, seen) * each <= self.lake.hot.most_bytes)

    def _chunk(self, group: int, name: str) -> ColumnChunkKey:
        field_id = _field_id(self.file.schema_arrow.field(name))
        return ColumnChunkKey(self.entry.location, group, field_id or b"")

    def _column(self, batch: pa.RecordBatch, name: str, position: int) -> pa.Array:
        if name != ROW_ID:
            return batch.column(name)
        start = (self.entry.first_row_id or 0) + position
        counted = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
        own = name in batch.schema.names
        return pc.coalesce(batch.column(name), counted) if own else counted


def _batch_rows(schema: pa.Schema, names: list[str]) -> int:
    return _BATCH_ROWS if are_fixed(schema.field(name).type for name in names) else _TEXT_ROWS


def are_fixed(kinds: Iterable[pa.DataType]) -> bool:
    """Whether a row of these takes as much memory as any other."""
    return all(pa.types.is_primitive(kind) for kind in kinds)


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
) -> ParquetColumnReader | None:
    """None if Arrow would not read of this file what the table says there is."""
    if entry.file_format != _FORMAT:
        return None
    try:
        filesystem, path = lake.files.filesystem(entry.location)
        file = pq.ParquetFile(filesystem.open_input_file(path))
    except (OSError, pa.ArrowException) as error:
        raise unreadable_table(state, error, entry.location) from error
    if _is_as_stored(state, entry, file.schema_arrow, names) and _has_small_groups(file.metadata):
        return ParquetColumnReader(lake, state, entry, file)
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
        wanted += [row_lineage.ROW_ID] if own else []
    return all(_is_the_same(schema, field) for field in wanted)


def _is_the_same(schema: pa.Schema, wanted: pa.Field) -> bool:
    index = schema.get_field_index(wanted.name)  # -1 if there is none, or several
    if index < 0:
        return False
    found = schema.field(index)
    return bool(found.type == wanted.type) and _field_id(found) == _field_id(wanted)


def _field_id(field: pa.Field) -> bytes | None:
    found: bytes | None = (field.metadata or {}).get(FIELD_ID.encode())
    return found


def _has_small_groups(metadata: pq.FileMetaData) -> bool:
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    return all(group.total_byte_size <= _MOST_GROUP_BYTES for group in groups)
