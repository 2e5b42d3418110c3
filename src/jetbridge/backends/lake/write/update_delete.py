"""Runs UPDATE and DELETE by row id.

The embedded DuckDB finds the rows where they are now: in which file and at which position. New
values are written into a data file that carries the row ids, the old positions into deletion
vectors, and one commit makes both part of the table. A row that changed after the snapshot of the
statement is a conflict. Tables that are partitioned or sorted, or have delete files of format 2,
are changed by a MERGE on Spark (`spark_writes`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

from jetbridge.backends.lake.metadata import deletion_vectors
from jetbridge.backends.lake.metadata.snapshot_files import (
    DeletionVector,
    SnapshotFiles,
    positions_of,
)
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import disk
from jetbridge.backends.lake.read.scan import expression, projected
from jetbridge.backends.lake.types import ROW_ID_COLUMN
from jetbridge.backends.lake.write import key_checks, spark_writes
from jetbridge.backends.lake.write.commit import TableCommit, partitioned_meanwhile
from jetbridge.backends.lake.write.publisher import Publisher
from jetbridge.backends.lake.write.row_locations import (
    Integers,
    RowLocations,
    check_row_ids,
    locate_rows,
    refuse_without_row_ids,
)
from jetbridge.backends.tables.column_mapping import refuse_null
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.backends.tables.staging import Staging
from jetbridge.backends.tables.updates import RowIdSet, StagedUpdate, UpdatedRows, read_row_ids
from jetbridge.catalog import ROWID, DMLOptions, DMLResult, Write
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine import cast
from jetbridge.errors import BadRequest, Conflict


@contextmanager
def updating(publisher: Publisher, pinned: TableState, options: DMLOptions) -> Iterator[Write]:
    """Stage the rows of an UPDATE, and publish it when the block ends."""
    publisher.tables.current(pinned)
    refuse_without_row_ids(pinned)
    staging = Staging(publisher.options.spill_bytes, publisher.options.staged_bytes)
    check = partial(check_row_ids, state=pinned)
    staged = StagedUpdate(pinned.title(), pinned.definition.schema, options, staging, check)
    try:
        yield staged.write
        rows = staged.updated_rows()
        if rows is not None:
            _publish(publisher, pinned, rows)
    finally:
        staged.close()


@contextmanager
def deleting(publisher: Publisher, pinned: TableState, options: DMLOptions) -> Iterator[Write]:
    """Collect the row ids of a DELETE, and publish it when the block ends."""
    publisher.tables.current(pinned)
    refuse_without_row_ids(pinned)
    statement = _LakeDelete(publisher, pinned, options)
    yield statement.write
    statement.commit()


def _publish(publisher: Publisher, pinned: TableState, rows: UpdatedRows) -> None:
    update = _LakeUpdate(publisher, pinned, rows)
    if spark_writes.is_needed(publisher.read, pinned):
        names = [field.name for field in rows.fields]
        spark_writes.update(publisher, pinned, names, update.checked_rows)
        return
    update.files.publish(update.describe)


class _LakeUpdate:
    """Run one UPDATE against the latest state of the table, again if that changes meanwhile."""

    def __init__(self, publisher: Publisher, pinned: TableState, rows: UpdatedRows) -> None:
        self.publisher, self.pinned, self.rows = publisher, pinned, rows
        self.files = _StatementFiles(publisher, pinned)

    def describe(self, latest: TableState) -> TableCommit:
        """Write the files for the latest state, and return the commit."""
        self.files.begin_attempt()
        snapshot_files = self.publisher.read.snapshot_files(latest)
        schema = latest.codec.storage_schema.append(ROW_ID_COLUMN)
        writer = self.publisher.new_writer(latest.data_folder, schema)
        locations = RowLocations(self.pinned, latest)
        try:
            for batch in self._new_rows(latest, snapshot_files, locations):
                writer.add(batch)
            locations.refuse_missing(self.rows.row_ids)
            files = writer.close()
        finally:
            self.files.add(writer.locations)
        names = [field.name for field in self.rows.fields]
        key_checks.refuse_duplicates(self.publisher, latest, files, changed=names)
        added, removed = write_vectors(self.publisher, latest, snapshot_files, locations.by_file())
        self.files.add([vector.location for vector in added])
        return TableCommit(files=files, added=added, removed=removed)

    def checked_rows(
        self, latest: TableState, snapshot_files: SnapshotFiles
    ) -> Iterator[pa.RecordBatch]:
        """Yield the new rows; raises Conflict if one of them changed or is gone."""
        locations = RowLocations(self.pinned, latest)
        yield from self._new_rows(latest, snapshot_files, locations)
        locations.refuse_missing(self.rows.row_ids)

    def _new_rows(
        self, latest: TableState, snapshot_files: SnapshotFiles, locations: RowLocations
    ) -> Iterator[pa.RecordBatch]:
        """Yield the new rows as files hold them, with their row ids; add their old locations."""
        schema = latest.definition.schema
        table = self._values_for(latest)
        new = {field.name for field in table.schema}
        names = schema.names
        columns = [(n, queries.of_new(n) if n in new else expression(latest, n)) for n in names]
        full = projected(latest, [*names, ROWID])
        read, row_ids = self.publisher.read, self.rows.row_ids
        for batch in locate_rows(read, latest, snapshot_files, row_ids, columns, table):
            locations.add(batch)
            rows = latest.codec.from_result(batch.select([*names, ROWID]), full)
            logical = pa.RecordBatch.from_arrays(rows.columns[:-1], schema=schema)
            check_rows(latest.definition, latest.title(), [logical])
            stored = latest.codec.to_storage(logical)
            yield pa.RecordBatch.from_arrays(
                [*stored.columns, rows.column(rows.num_columns - 1)],
                schema=latest.codec.storage_schema.append(ROW_ID_COLUMN),
            )

    def _values_for(self, latest: TableState) -> pa.Table:
        """Return the new values with the types of the latest state, and the row ids."""
        columns, fields = [], []
        for field, array in zip(self.rows.fields, self.rows.values, strict=True):
            position = latest.definition.position(field.name)
            if position is None:
                raise Conflict(f"column {field.name!r} of {latest.title()!r} was removed meanwhile")
            target = latest.definition.schema.field(position)
            try:
                columns.append(cast(array, target))
            except BadRequest as error:
                raise Conflict(f"{latest.title()!r} was altered meanwhile: {error}") from None
            refuse_null(columns[-1], target, latest.title(), 0)
            fields.append(target)
        fields.append(pa.field(ROWID, pa.int64(), nullable=False))
        return pa.Table.from_arrays(
            [*columns, pa.array(self.rows.row_ids)], schema=pa.schema(fields)
        )


class _StatementFiles:
    """Track the files that a statement writes, over all attempts of its commit."""

    def __init__(self, publisher: Publisher, state: TableState) -> None:
        self._publisher, self._state = publisher, state
        self._current: list[str] = []
        self._earlier: list[str] = []

    def begin_attempt(self) -> None:
        """Begin another attempt; the files of the last one are not needed."""
        self._earlier += self._current
        self._current = []

    def add(self, locations: Sequence[str]) -> None:
        """Add files of this attempt."""
        self._current += locations

    def publish(self, describe: Callable[[TableState], TableCommit]) -> None:
        """Publish the change, and remove the files that are not part of it."""
        try:
            self._publisher.publish(self._state, describe)
        except BaseException as error:
            self._publisher.discard(self._state, [*self._earlier, *self._current], error)
            raise
        self._publisher.files.delete(self._earlier)


def write_vectors(
    publisher: Publisher, state: TableState, files: SnapshotFiles, rows: dict[str, Integers]
) -> tuple[list[DeletionVector], list[DeletionVector]]:
    """Write deletion vectors for rows by file; return them, and those that they replace.

    Each vector is a file of its own: DuckDB confuses those that share one (`duckdb_source`). Raises
    Conflict if a file is in a partition.
    """
    if spark_writes.has_partitions(publisher.read, state):
        raise partitioned_meanwhile(state.title())
    removed = [files.vectors[name] for name in rows if name in files.vectors]
    for old, positions in positions_of(publisher.files, state, removed):
        rows[old.data_file] = np.union1d(rows[old.data_file], positions)
    folder, prefix = state.data_folder, f"{publisher.warehouse.file_prefix()}-"
    added = []
    for name, positions in rows.items():
        content, [blob] = deletion_vectors.puffin({name: positions})
        with disk(folder):
            location = publisher.files.write_new(folder, prefix, ".puffin", content)
        added.append(
            DeletionVector(location, name, blob.offset, blob.length, blob.rows, len(content))
        )
    return added, removed


class _LakeDelete:
    """Run one DELETE."""

    def __init__(self, publisher: Publisher, pinned: TableState, options: DMLOptions) -> None:
        self.publisher, self.pinned, self.options = publisher, pinned, options
        self._row_ids = RowIdSet()
        self._files_of_pinned: SnapshotFiles | None = None
        self._files = _StatementFiles(publisher, pinned)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        """Add row ids; returns the rows if RETURNING asks for them."""
        names = [fold(name) for name in batch.schema.names]
        if ROWID not in names:
            raise BadRequest(f"table {self.pinned.title()!r}: DELETE needs a column 'rowid'")
        row_ids = read_row_ids(batch.column(names.index(ROWID)), self.pinned.title())
        check_row_ids(row_ids, self.pinned)
        count = self._row_ids.add(row_ids)
        return DMLResult(count, self._returned_rows(row_ids) if self.options.returning else None)

    def _returned_rows(self, row_ids: Integers) -> pa.RecordBatch:
        """Return the rows of the pinned snapshot, in the order of the row ids."""
        if self._files_of_pinned is None:
            self._files_of_pinned = self.publisher.read.snapshot_files(self.pinned)
        state, files = self.pinned, self._files_of_pinned
        names = [*state.definition.schema.names, ROWID]
        columns = [(name, expression(state, name)) for name in names[:-1]]
        distinct = np.unique(row_ids)
        locations = RowLocations(state, state)
        schema = projected(state, names)
        batches = []
        for batch in locate_rows(self.publisher.read, state, files, distinct, columns):
            locations.add(batch)
            batches.append(state.codec.from_result(batch.select(names), schema))
        locations.refuse_missing(distinct)
        rows = pa.Table.from_batches(batches, schema).combine_chunks()
        return _take(rows, row_ids)

    def commit(self) -> None:
        """Publish the DELETE."""
        row_ids = self._row_ids.sorted()
        if not len(row_ids):
            return
        if spark_writes.is_needed(self.publisher.read, self.pinned):
            spark_writes.delete(self.publisher, self.pinned, row_ids, self._locate)
            return
        self._files.publish(self._describe)

    def _locate(self, latest: TableState, files: SnapshotFiles) -> RowLocations:
        row_ids = self._row_ids.sorted()
        locations = RowLocations(self.pinned, latest)
        for batch in locate_rows(self.publisher.read, latest, files, row_ids):
            locations.add(batch)
        locations.refuse_missing(row_ids)
        return locations

    def _describe(self, latest: TableState) -> TableCommit:
        self._files.begin_attempt()
        files = self.publisher.read.snapshot_files(latest)
        locations = self._locate(latest, files)
        added, removed = write_vectors(self.publisher, latest, files, locations.by_file())
        self._files.add([vector.location for vector in added])
        return TableCommit(added=added, removed=removed)


def _take(rows: pa.Table, row_ids: Integers) -> pa.RecordBatch:
    """Return the rows with these ids, in their order."""
    existing = rows.column(ROWID).to_numpy()
    order = np.argsort(existing)
    index = order[np.searchsorted(existing[order], row_ids)]
    batches = rows.take(pa.array(index)).combine_chunks().to_batches()
    if batches:
        return batches[0]
    empty = [pa.nulls(0, field.type) for field in rows.schema]
    return pa.RecordBatch.from_arrays(empty, schema=rows.schema)
