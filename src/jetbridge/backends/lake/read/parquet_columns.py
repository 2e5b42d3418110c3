"""Reads whole columns of data files with Arrow, in half the time that DuckDB takes.

That is right for tables without deleted rows, and columns that are stored as clients see them; see
docs/decisions/0013-plain-scans-by-arrow.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jetbridge.backends.lake.errors import unreadable_table
from jetbridge.backends.lake.metadata.snapshot_files import DataFileEntry
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.context import CHUNK_BYTES, ColumnChunkKey, ReadContext
from jetbridge.backends.lake.types import FIELD_ID, ROW_ID_COLUMN
from jetbridge.catalog import ROWID
from jetbridge.dialects.duckdb.iceberg import ROW_ID
from jetbridge.runtime.array_sizes import array_bytes

_FORMAT = "PARQUET"
# All readers at once hold about one batch each.
_BATCH_ROWS = 30_720
# The length of strings is not known beforehand.
_TEXT_ROWS = 8_192
# A row group is read whole; DuckDB reads larger ones in parts.
_MOST_GROUP_BYTES = 128 * 1024 * 1024


def is_direct(state: TableState, names: Sequence[str]) -> bool:
    """Return whether Arrow may read these columns, as far as the metadata says."""
    columns = [name for name in names if name != ROWID]
    return (
        state.snapshot is not None
        and state.snapshot.property("total-delete-files") == "0"
        and not state.shadows_file_columns()  # DuckDB may have to read a file of it by its name
        and bool(columns)
        and ROW_ID not in columns
        and all(state.codec.is_same(name) for name in columns)
    )


@dataclass(frozen=True)
class ParquetColumnReader:
    """Read columns of one data file."""

    context: ReadContext
    state: TableState
    entry: DataFileEntry
    file: pq.ParquetFile

    def rows(
        self, schema: pa.Schema, start: int = 0, end: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the schema, `rowid` among them, of the rows at these positions."""
        names = [ROW_ID if name == ROWID else name for name in schema.names]
        stored = [name for name in names if name in self.file.schema_arrow.names]
        last = self.file.metadata.num_rows if end is None else end
        with self.file:
            try:
                for position, batch in self._between(stored, start, last):
                    arrays = [self._column(batch, name, position) for name in names]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            except (OSError, pa.ArrowException) as error:
                raise unreadable_table(self.state.title(), error, self.entry.location) from error

    def _between(
        self, names: list[str], start: int, end: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches, each with the position of its first row; other row groups are not read."""
        first = 0
        for group in range(self.file.metadata.num_row_groups):
            rows = self.file.metadata.row_group(group).num_rows
            if first >= end:
                return
            if first + rows > start:
                yield from _cut(self._group(group, names), first, start, end)
            first += rows

    def _group(self, group: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        known = {name: self.context.columns.get(self._chunk(group, name)) for name in names}
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
            # In one piece: the sender cuts messages of the size that it needs.
            rows = pa.Table.from_batches(gathered).combine_chunks()
            for name in names:
                self.context.columns.put(self._chunk(group, name), rows.column(name))

    def _fits(self, rows: list[pa.RecordBatch]) -> bool:
        """Return whether a table of such rows fits into the cache as a whole.

        The sizes in the file do not help: a string that repeats is stored once.
        """
        count = self.state.count()
        if count is None:
            return False
        read = sum(batch.num_rows for batch in rows)
        size = sum(array_bytes(batch) for batch in rows) + rows[0].num_columns * CHUNK_BYTES
        return bool(max(count, read) * size / read <= self.context.columns.most)

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
    """Return whether every row of these types takes the same memory."""
    return all(pa.types.is_primitive(kind) for kind in kinds)


def _cut(
    batches: Iterator[pa.RecordBatch], first: int, start: int, end: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows from `start` to before `end` of batches that begin at position `first`."""
    for batch in batches:
        skipped = max(0, start - first)
        rows = batch.slice(skipped, max(0, end - first - skipped))
        if rows.num_rows:
            yield first + skipped, rows
        first += batch.num_rows


def open_columns(
    context: ReadContext, state: TableState, entry: DataFileEntry, names: Sequence[str]
) -> ParquetColumnReader | None:
    """Open a data file; None if Arrow would not read the columns as the table has them."""
    if entry.file_format != _FORMAT:
        return None
    try:
        filesystem, path = context.files.filesystem(entry.location)
        file = pq.ParquetFile(filesystem.open_input_file(path))
    except (OSError, pa.ArrowException) as error:
        raise unreadable_table(state.title(), error, entry.location) from error
    if _is_as_stored(state, entry, file.schema_arrow, names) and _has_small_groups(file.metadata):
        return ParquetColumnReader(context, state, entry, file)
    file.close(force=True)
    return None


def _is_as_stored(
    state: TableState, entry: DataFileEntry, schema: pa.Schema, names: Sequence[str]
) -> bool:
    columns = [state.codec.storage_schema.field(name) for name in names if name != ROWID]
    if ROWID in names:
        own = ROW_ID in schema.names
        if entry.first_row_id is None or own != entry.own_row_ids:
            return False
        columns += [ROW_ID_COLUMN] if own else []
    return all(_has_column(schema, column) for column in columns)


def _has_column(schema: pa.Schema, column: pa.Field) -> bool:
    index = schema.get_field_index(column.name)  # -1 if there is none, or several
    if index < 0:
        return False
    stored = schema.field(index)
    return bool(stored.type == column.type) and _field_id(stored) == _field_id(column)


def _field_id(field: pa.Field) -> bytes | None:
    field_id: bytes | None = (field.metadata or {}).get(FIELD_ID.encode())
    return field_id


def _has_small_groups(metadata: pq.FileMetaData) -> bool:
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    return all(group.total_byte_size <= _MOST_GROUP_BYTES for group in groups)
