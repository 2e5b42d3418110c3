"""Runs MERGE INTO: updates, deletes and inserts of one statement, by one MERGE on Spark."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataWriter
from jetbridge.backends.lake.types import ROW_ID_COLUMN
from jetbridge.backends.lake.write import spark_writes
from jetbridge.backends.lake.write.publisher import Publisher
from jetbridge.backends.lake.write.row_locations import (
    RowLocations,
    check_row_ids,
    locate_rows,
    refuse_without_row_ids,
)
from jetbridge.backends.tables.column_mapping import map_insert_columns
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.backends.tables.updates import RowIdSet, read_row_ids
from jetbridge.catalog import MERGE_ACTION, ROWID, DMLResult, Merging, Write
from jetbridge.errors import BadRequest, Conflict


@contextmanager
def merging(publisher: Publisher, pinned: TableState) -> Iterator[Write]:
    """Stage the rows of a MERGE, and publish it when the block ends."""
    publisher.tables.current(pinned)
    refuse_without_row_ids(pinned)
    statement = _LakeMerge(publisher, pinned)
    try:
        yield statement.write
        statement.commit()
    finally:
        statement.close()


class _LakeMerge:
    """Run one MERGE."""

    def __init__(self, publisher: Publisher, pinned: TableState) -> None:
        self.publisher, self.pinned = publisher, pinned
        self._kept, self._deleted = self._new_writer(), self._new_writer()
        self._row_ids = RowIdSet()

    def _new_writer(self) -> DataWriter:
        schema = self.pinned.codec.storage_schema.append(ROW_ID_COLUMN)
        return self.publisher.new_writer(self.publisher.warehouse.staging_folder(), schema)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        """Stage rows, each with its action."""
        action = batch.column(MERGE_ACTION)
        deleted = pc.equal(action, Merging.DELETE.value)
        new = pc.equal(action, Merging.INSERT.value)
        self._add_row_ids(batch.column(ROWID).filter(pc.invert(new)))
        self._stage(batch.filter(pc.invert(deleted)), self._kept, check=True)
        self._stage(batch.filter(deleted), self._deleted, check=False)
        return DMLResult(batch.num_rows)

    def _add_row_ids(self, column: pa.Array) -> None:
        row_ids = read_row_ids(column, self.pinned.title())
        check_row_ids(row_ids, self.pinned)
        if len(np.unique(row_ids)) != len(row_ids) or self._row_ids.add(row_ids) != len(row_ids):
            raise BadRequest(
                f"a row of {self.pinned.title()!r} is matched by several rows of the source; "
                "use a source with one row for each"
            )

    def _stage(self, batch: pa.RecordBatch, writer: DataWriter, *, check: bool) -> None:
        if not batch.num_rows:
            return
        definition = self.pinned.definition
        values = batch.select([name for name in batch.schema.names if name != MERGE_ACTION])
        values = values.drop_columns([ROWID])
        mapping = map_insert_columns(values.schema, definition.schema, self.pinned.title())
        columns = mapping.convert(values, writer.rows)
        logical = pa.RecordBatch.from_arrays(columns, schema=definition.schema)
        if check:
            check_rows(definition, self.pinned.title(), [logical])
        stored = self.pinned.codec.to_storage(logical, writer.rows)
        row_ids = batch.column(ROWID).cast(pa.int64())
        writer.add(
            pa.RecordBatch.from_arrays(
                [*stored.columns, row_ids],
                schema=self.pinned.codec.storage_schema.append(ROW_ID_COLUMN),
            )
        )

    def commit(self) -> None:
        """Publish the MERGE."""
        kept, deleted = self._kept.close(), self._deleted.close()
        if kept or deleted:
            spark_writes.merge(self.publisher, self.pinned, kept, deleted, self._refuse_conflicts)

    def _refuse_conflicts(self, latest: TableState, files: SnapshotFiles) -> None:
        if latest.fields != self.pinned.fields or latest.definition != self.pinned.definition:
            raise Conflict(
                f"table {latest.title()!r} was altered while the statement ran; run it again"
            )
        row_ids = self._row_ids.sorted()
        locations = RowLocations(self.pinned, latest)
        for batch in locate_rows(self.publisher.read, latest, files, row_ids):
            locations.add(batch)
        locations.refuse_missing(row_ids)

    def close(self) -> None:
        """Remove the staged rows."""
        self._kept.abandon()
        self._deleted.abandon()
