"""MERGE INTO: rows that change, go and come in one statement, by one MERGE on Spark."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataWriter
from jetbridge.backends.lake.types import row_lineage
from jetbridge.backends.lake.write import spark_writes
from jetbridge.backends.lake.write.update_delete import (
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
def merging(lake: Lake, seen: TableState) -> Iterator[Write]:
    lake.current(seen)
    refuse_without_row_ids(seen)
    statement = _Merge(lake, seen)
    try:
        yield statement.write
        statement.commit()
    finally:
        statement.close()


class _Merge:
    def __init__(self, lake: Lake, seen: TableState) -> None:
        self.lake, self.seen = lake, seen
        self._kept, self._gone = self._new_writer(), self._new_writer()
        self._row_ids = RowIdSet()

    def _new_writer(self) -> DataWriter:
        schema = self.seen.codec.storage_schema.append(row_lineage.ROW_ID)
        return DataWriter(self.lake.files, self.lake.staging_folder(), self.lake.prefix(), schema)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        action = batch.column(MERGE_ACTION)
        gone = pc.equal(action, Merging.DELETE.value)
        new = pc.equal(action, Merging.INSERT.value)
        self._note(batch.column(ROWID).filter(pc.invert(new)))
        self._stage(batch.filter(pc.invert(gone)), self._kept, check=True)
        self._stage(batch.filter(gone), self._gone, check=False)
        return DMLResult(batch.num_rows)

    def _note(self, column: pa.Array) -> None:
        row_ids = read_row_ids(column, self.seen.title())
        check_row_ids(row_ids, self.seen)
        if len(np.unique(row_ids)) != len(row_ids) or self._row_ids.add(row_ids) != len(row_ids):
            raise BadRequest(
                f"a row of {self.seen.title()!r} is matched by several rows of the source; "
                "use a source with one row for each"
            )

    def _stage(self, batch: pa.RecordBatch, writer: DataWriter, *, check: bool) -> None:
        if not batch.num_rows:
            return
        definition = self.seen.definition
        values = batch.select([name for name in batch.schema.names if name != MERGE_ACTION])
        values = values.drop_columns([ROWID])
        mapping = map_insert_columns(values.schema, definition.schema, self.seen.title())
        columns = mapping.convert(values, writer.rows)
        logical = pa.RecordBatch.from_arrays(columns, schema=definition.schema)
        if check:
            check_rows(definition, self.seen.title(), [logical])
        stored = self.seen.codec.to_storage(logical, writer.rows)
        row_ids = batch.column(ROWID).cast(pa.int64())
        writer.add(
            pa.RecordBatch.from_arrays(
                [*stored.columns, row_ids],
                schema=self.seen.codec.storage_schema.append(row_lineage.ROW_ID),
            )
        )

    def commit(self) -> None:
        kept, gone = self._kept.close(), self._gone.close()
        if kept or gone:
            spark_writes.merge(self.lake, self.seen, kept, gone, self._refuse)

    def _refuse(self, now: TableState, listed: SnapshotFiles) -> None:
        if now.fields != self.seen.fields or now.definition != self.seen.definition:
            raise Conflict(
                f"table {now.title()!r} was altered while the statement ran; run it again"
            )
        row_ids = self._row_ids.sorted()
        places = RowLocations(self.seen, now)
        for batch in locate_rows(self.lake, now, listed, row_ids, []):
            places.note(batch)
        places.refuse_missing(row_ids)

    def close(self) -> None:
        self._kept.abandon()
        self._gone.abandon()
