"""UPDATE and DELETE by row id.

The rows are found where they are now, by the embedded DuckDB: in which file and at which place.
New values go into a data file that carries the row ids, the old places into deletion vectors, and
one commit makes both part of the table. A row whose last change is younger than the snapshot the
statement saw is a conflict. Tables that are partitioned or sorted, or have delete files of format
2, are changed by a MERGE on Spark (`spark_jobs`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata import deletion_vectors
from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles, inventory, positions_of
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataWriter, disk
from jetbridge.backends.lake.read.relation import open_snapshot
from jetbridge.backends.lake.read.scan import expression, projected
from jetbridge.backends.lake.types import row_lineage
from jetbridge.backends.lake.write import key_checks, spark_writes
from jetbridge.backends.lake.write.commit import DeletionVector, TableCommit, partitioned
from jetbridge.backends.tables.column_mapping import refuse_null
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.backends.tables.staging import Staging
from jetbridge.backends.tables.updates import RowIdSet, StagedUpdate, UpdatedRows, read_row_ids
from jetbridge.catalog import ROWID, DMLOptions, DMLResult, Write
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine import cast
from jetbridge.errors import BadRequest, Conflict, FailedPrecondition

Integers = npt.NDArray[np.int64]

# Above so many rows it is cheaper to read every file than to work out which ones matter.
_MOST_SOUGHT = 100_000


@contextmanager
def updating(lake: Lake, seen: TableState, options: DMLOptions) -> Iterator[Write]:
    lake.current(seen)
    refuse_without_row_ids(seen)
    staging = Staging(lake.options.spill_bytes, lake.options.staged_bytes)
    check = partial(check_row_ids, state=seen)
    staged = StagedUpdate(seen.title(), seen.definition.schema, options, staging, check)
    try:
        yield staged.write
        new = staged.updated_rows()
        if new is not None:
            _publish(lake, seen, new)
    finally:
        staged.close()


@contextmanager
def deleting(lake: Lake, seen: TableState, options: DMLOptions) -> Iterator[Write]:
    lake.current(seen)
    refuse_without_row_ids(seen)
    statement = _Delete(lake, seen, options)
    yield statement.write
    statement.commit()


def refuse_without_row_ids(state: TableState) -> None:
    if not state.has_row_ids():
        raise FailedPrecondition(
            f"table {state.title()!r} has Iceberg format {state.format_version}, and its rows have "
            "no ids yet, so they can only be read and inserted; upgrade it with "
            f"`jetbridge optimize CATALOG.{state.title()} --upgrade`"
        )


def check_row_ids(row_ids: Integers, state: TableState) -> None:
    wrong = row_ids[(row_ids < 0) | (row_ids >= state.next_row_id)]
    if len(wrong):
        raise BadRequest(f"table {state.title()!r} never had a row with rowid {wrong[0]}")


def _publish(lake: Lake, seen: TableState, new: UpdatedRows) -> None:
    work = _Updating(lake, seen, new)
    if spark_writes.is_needed(lake, seen):
        names = [field.name for field in new.fields]
        spark_writes.update(lake, seen, names, work.checked_rows)
        return
    work.files.publish(work.change)


class _Updating:
    """One UPDATE against the table as it is now; made anew if the table changes meanwhile."""

    def __init__(self, lake: Lake, seen: TableState, new: UpdatedRows) -> None:
        self.lake, self.seen, self.new = lake, seen, new
        self.files = _Files(lake, seen)

    def change(self, now: TableState) -> TableCommit:
        self.files.begin()
        listed = inventory(self.lake.reader, now)
        folder = self.lake.data_folder(now)
        writer = DataWriter(
            self.lake.files,
            folder,
            self.lake.prefix(),
            now.codec.storage_schema.append(row_lineage.ROW_ID),
        )
        places = RowLocations(self.seen, now)
        try:
            for batch in self.new_rows(now, listed, places):
                writer.add(batch)
            places.refuse_missing(self.new.row_ids)
            files = writer.close()
        finally:
            self.files.add(writer.locations)
        names = [field.name for field in self.new.fields]
        key_checks.refuse_duplicates(self.lake, now, files, changed=names)
        added, removed = write_vectors(self.lake, now, listed, places.by_file())
        self.files.add([vector.location for vector in added])
        return TableCommit(files=files, added=added, removed=removed)

    def checked_rows(self, now: TableState, listed: SnapshotFiles) -> Iterator[pa.RecordBatch]:
        places = RowLocations(self.seen, now)
        yield from self.new_rows(now, listed, places)
        places.refuse_missing(self.new.row_ids)

    def new_rows(
        self, now: TableState, listed: SnapshotFiles, places: "RowLocations"
    ) -> Iterator[pa.RecordBatch]:
        """The rows afterwards, in storage form, with their row ids; notes where they were."""
        schema = now.definition.schema
        table = self._values_for(now)
        new = {field.name for field in table.schema}
        names = schema.names
        made = [(n, queries.of_new(n) if n in new else expression(now, n)) for n in names]
        full = projected(now, [*names, ROWID])
        for batch in locate_rows(self.lake, now, listed, self.new.row_ids, made, table):
            places.note(batch)
            rows = now.codec.from_result(batch.select([*names, ROWID]), full)
            logical = pa.RecordBatch.from_arrays(rows.columns[:-1], schema=schema)
            check_rows(now.definition, now.title(), [logical])
            stored = now.codec.to_storage(logical)
            yield pa.RecordBatch.from_arrays(
                [*stored.columns, rows.column(rows.num_columns - 1)],
                schema=now.codec.storage_schema.append(row_lineage.ROW_ID),
            )

    def _values_for(self, now: TableState) -> pa.Table:
        """The new values with the types of the table as it is now, and the row ids."""
        columns, fields = [], []
        for field, array in zip(self.new.fields, self.new.values, strict=True):
            position = now.definition.position(field.name)
            if position is None:
                raise Conflict(f"column {field.name!r} of {now.title()!r} was removed meanwhile")
            target = now.definition.schema.field(position)
            try:
                columns.append(cast(array, target))
            except BadRequest as error:
                raise Conflict(f"{now.title()!r} was altered meanwhile: {error}") from None
            refuse_null(columns[-1], target, now.title(), 0)
            fields.append(target)
        fields.append(pa.field(ROWID, pa.int64(), nullable=False))
        return pa.Table.from_arrays(
            [*columns, pa.array(self.new.row_ids)], schema=pa.schema(fields)
        )


class _Files:
    """The files that a statement writes, over all the tries that its commit may need."""

    def __init__(self, lake: Lake, state: TableState) -> None:
        self._lake, self._state = lake, state
        self._current: list[str] = []
        self._earlier: list[str] = []

    def begin(self) -> None:
        """The next try: what the last one wrote is of no use."""
        self._earlier += self._current
        self._current = []

    def add(self, locations: Sequence[str]) -> None:
        self._current += locations

    def publish(self, make: Callable[[TableState], TableCommit]) -> None:
        try:
            self._lake.commit(self._state, make)
        except BaseException as error:
            self._lake.discard(self._state, [*self._earlier, *self._current], error)
            raise
        self._lake.files.delete(self._earlier)


class RowLocations:
    """Notes where rows were found, and refuses those that others changed."""

    def __init__(self, seen: TableState, now: TableState) -> None:
        self.seen, self.now = seen, now
        self._files: list[pa.Array] = []
        self._positions: list[pa.Array] = []
        self._rows = 0

    def note(self, batch: pa.RecordBatch) -> None:
        updated = batch.column(queries.FOUND_UPDATED)
        newest = updated.to_numpy(zero_copy_only=False)
        if len(newest) and newest.max() > self.seen.version:
            raise self._conflict()
        self._files.append(batch.column(queries.FOUND_FILE).cast(pa.string()).dictionary_encode())
        self._positions.append(batch.column(queries.FOUND_AT))
        self._rows += batch.num_rows

    def refuse_missing(self, row_ids: Integers) -> None:
        if self._rows != len(row_ids):
            raise self._conflict()

    def _conflict(self) -> Conflict:
        return Conflict(
            f"a row of {self.now.title()!r} was changed or deleted by someone else meanwhile; "
            "run the statement again"
        )

    def by_file(self) -> dict[str, Integers]:
        found: dict[str, list[Integers]] = {}
        for files, column in zip(self._files, self._positions, strict=True):
            positions = column.to_numpy(zero_copy_only=False).astype(np.int64)
            codes = files.indices.to_numpy()
            for code, name in enumerate(files.dictionary.to_pylist()):
                found.setdefault(name, []).append(positions[codes == code])
        return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}


def locate_rows(
    lake: Lake,
    state: TableState,
    listed: SnapshotFiles,
    row_ids: Integers,
    made: list[tuple[str, str]],
    table: pa.Table | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows with these ids: the columns `made`, `rowid`, file, place and last change."""
    table = pa.table({ROWID: row_ids}) if table is None else table
    hidden = state.hides_places()
    few = len(row_ids) <= _MOST_SOUGHT and not hidden
    files = listed.may_hold(row_ids) if few else None
    if not listed.files or files == []:
        return
    if files is not None and len(files) == len(listed.files):
        files = None
    with open_snapshot(lake, state) as rows:
        row_id = queries.UNSKIPPED_ROW_ID if listed.mixes(row_ids) else queries.ROW_ID
        sql = queries.locate_rows(rows.sql, made, "sought", files, row_id, places=not hidden)
        yield from lake.reader.stream(sql, sought=whole(table), **rows.tables)


def whole(table: pa.Table) -> pa.Table:
    """Without slices of nested arrays, which DuckDB 1.5 misreads."""
    return pa.concat_tables([table, table.slice(0, 0)]).combine_chunks()


def write_vectors(
    lake: Lake, state: TableState, listed: SnapshotFiles, places: dict[str, Integers]
) -> tuple[list[DeletionVector], list[DeletionVector]]:
    """The vectors to add, and those they stand in for.

    Each is a file of its own: DuckDB confuses those that share one (`source`). Raises Conflict if
    a file is in a partition.
    """
    if spark_writes.has_partitions(lake, state):
        raise partitioned(state.title())
    removed = [listed.vectors[name] for name in places if name in listed.vectors]
    for old, positions in positions_of(lake.files, state, removed):
        places[old.data_file] = np.union1d(places[old.data_file], positions)
    folder = lake.data_folder(state)
    added = []
    for name, positions in places.items():
        content, [blob] = deletion_vectors.puffin({name: positions})
        with disk(folder):
            location = lake.files.write_new(folder, f"{lake.prefix()}-", ".puffin", content)
        added.append(
            DeletionVector(location, name, blob.offset, blob.length, blob.rows, len(content))
        )
    return added, removed


class _Delete:
    def __init__(self, lake: Lake, seen: TableState, options: DMLOptions) -> None:
        self.lake, self.seen, self.options = lake, seen, options
        self._seen_ids = RowIdSet()
        self._listed: SnapshotFiles | None = None
        self._files = _Files(lake, seen)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        names = [fold(name) for name in batch.schema.names]
        if ROWID not in names:
            raise BadRequest(f"table {self.seen.title()!r}: DELETE needs a column 'rowid'")
        row_ids = read_row_ids(batch.column(names.index(ROWID)), self.seen.title())
        check_row_ids(row_ids, self.seen)
        count = self._seen_ids.add(row_ids)
        return DMLResult(count, self._answer(row_ids) if self.options.returning else None)

    def _answer(self, row_ids: Integers) -> pa.RecordBatch:
        """The rows as the handle sees them, in the order of the row ids sent."""
        if self._listed is None:
            self._listed = inventory(self.lake.reader, self.seen)
        state = self.seen
        names = [*state.definition.schema.names, ROWID]
        made = [(name, expression(state, name)) for name in names[:-1]]
        distinct = np.unique(row_ids)
        places = RowLocations(state, state)
        schema = projected(state, names)
        batches = []
        for batch in locate_rows(self.lake, state, self._listed, distinct, made):
            places.note(batch)
            batches.append(state.codec.from_result(batch.select(names), schema))
        places.refuse_missing(distinct)
        found = pa.Table.from_batches(batches, schema).combine_chunks()
        there = found.column(ROWID).to_numpy()
        order = np.argsort(there)
        index = order[np.searchsorted(there[order], row_ids)]
        taken = found.take(pa.array(index)).combine_chunks().to_batches()
        return (
            taken[0]
            if taken
            else pa.RecordBatch.from_arrays(
                [pa.nulls(0, field.type) for field in schema], schema=schema
            )
        )

    def commit(self) -> None:
        row_ids = self._seen_ids.sorted()
        if not len(row_ids):
            return
        if spark_writes.is_needed(self.lake, self.seen):
            spark_writes.delete(self.lake, self.seen, row_ids, self._places)
            return
        self._files.publish(self._change)

    def _places(self, now: TableState, listed: SnapshotFiles) -> RowLocations:
        row_ids = self._seen_ids.sorted()
        places = RowLocations(self.seen, now)
        for batch in locate_rows(self.lake, now, listed, row_ids, []):
            places.note(batch)
        places.refuse_missing(row_ids)
        return places

    def _change(self, now: TableState) -> TableCommit:
        self._files.begin()
        listed = inventory(self.lake.reader, now)
        places = self._places(now, listed)
        added, removed = write_vectors(self.lake, now, listed, places.by_file())
        self._files.add([vector.location for vector in added])
        return TableCommit(added=added, removed=removed)
