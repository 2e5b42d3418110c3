"""Writes that Spark does: into tables that are partitioned or sorted, so that the layout holds.

A job works on a branch of the table, which starts at the snapshot the conditions were checked
against; then `main` is moved there in one step, provided nobody else moved it meanwhile. So
readers see all of it or nothing, and what was checked still holds.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.lost_partitions import refuse_lost_partitions
from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles, inventory
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataWriter, write_all
from jetbridge.backends.lake.types import row_lineage
from jetbridge.backends.lake.write import branches, key_checks, spool_tables
from jetbridge.backends.lake.write.commit import DataFile, StaleMetadata, identifier
from jetbridge.dialects import spark as sql
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.errors import ServerError
from jetbridge.runtime.cancellation import current, shield
from jetbridge.spark.engine import SparkConnection
from jetbridge.spark.errors import is_java
from jetbridge.spark.written_rows import (
    file_columns,
    has_reference,
    refuse_lost,
    refuse_references,
    rows_in_table,
    view,
)

log = logging.getLogger(__name__)

Integers = npt.NDArray[np.int64]
_TRIES = 5
_MERGE_MODE, _IN_PLACE = "write.merge.mode", "merge-on-read"


def is_needed(lake: Lake, state: TableState) -> bool:
    """Whether rows of this table are changed by a MERGE."""
    if state.hides_places() or not state.is_plain() or has_partitions(lake, state):
        return True
    return inventory(lake.reader, state).old_deletes


def has_partitions(lake: Lake, state: TableState) -> bool:
    """Return whether files of the snapshot, or those to come, belong to a partition."""
    specs = state.partitioned_specs()
    if not specs:
        return False
    return state.raw.get("default-spec-id") in specs or bool(specs & lake.manifests.specs(state))


def insert(
    lake: Lake,
    state: TableState,
    files: list[DataFile],
    fitting: Callable[[TableState, list[DataFile]], list[DataFile]],
) -> None:
    def job(session: SparkConnection, now: TableState, target: str) -> None:
        rows = fitting(now, files)
        key_checks.refuse_duplicates(lake, now, rows)
        with _for_spark(lake, now, rows) as staged, _view(lake, session, now, *staged) as source:
            insert = session.sql(sql.insert(target, source, now.codec.storage_schema.names))
            refuse_lost(sum(file.rows for file in rows), rows_in_table(insert), now.title())

    _publish(lake, state, job)


def update(
    lake: Lake,
    state: TableState,
    changed: Sequence[str],
    new_rows: Callable[[TableState, SnapshotFiles], Iterable[pa.RecordBatch]],
) -> None:
    def job(session: SparkConnection, now: TableState, target: str) -> None:
        listed = inventory(lake.reader, now)
        schema = now.codec.storage_schema.append(row_lineage.ROW_ID)
        with _staged(lake, schema, new_rows(now, listed)) as files:
            key_checks.refuse_duplicates(lake, now, files, changed=changed)
            with (
                _for_spark(lake, now, files) as staged,
                _view(lake, session, now, *staged) as source,
            ):
                session.spark.sql(sql.merge_update(target, source, queries.ROW_ID, changed))

    _publish(lake, state, job, merges=True)


def delete(
    lake: Lake,
    state: TableState,
    row_ids: Integers,
    refuse_conflicts: Callable[[TableState, SnapshotFiles], object],
) -> None:
    def job(session: SparkConnection, now: TableState, target: str) -> None:
        refuse_conflicts(now, inventory(lake.reader, now))
        batch = pa.record_batch([pa.array(row_ids)], names=file_columns(1))
        with (
            _staged(lake, batch.schema, [batch]) as files,
            _view(lake, session, now, files, [queries.ROW_ID]) as source,
        ):
            session.spark.sql(sql.merge_delete(target, source, queries.ROW_ID))

    _publish(lake, state, job, merges=True)


def merge(
    lake: Lake,
    state: TableState,
    kept: Sequence[DataFile],
    gone: Sequence[DataFile],
    refuse: Callable[[TableState, SnapshotFiles], object],
) -> None:
    """Rows that are new or have new values, and rows that go, by their ids."""
    names = state.codec.storage_schema.names

    def job(session: SparkConnection, now: TableState, target: str) -> None:
        refuse(now, inventory(lake.reader, now))
        key_checks.refuse_duplicates(lake, now, kept, changed=names, gone=gone)
        with ExitStack() as stack:
            views = [
                stack.enter_context(
                    _view(lake, session, now, *stack.enter_context(_for_spark(lake, now, files)))
                )
                if files
                else ""
                for files in (kept, gone)
            ]
            session.spark.sql(sql.merge_all(target, views[0], views[1], queries.ROW_ID, names))

    _publish(lake, state, job, merges=True)


@contextmanager
def _staged(
    lake: Lake, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[list[DataFile]]:
    """Rows as Parquet files where Spark's workers can read them, for as long as the job runs."""
    writer = DataWriter(lake.files, lake.staging_folder(), lake.prefix(), schema)
    renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)
    try:
        yield write_all(writer, renamed)
    finally:
        writer.abandon()


@contextmanager
def _for_spark(
    lake: Lake, state: TableState, files: Sequence[DataFile]
) -> Iterator[tuple[Sequence[DataFile], Sequence[str]]]:
    """The same rows as Spark reads them, with the names of their columns if the files have others.

    UUIDs are strings to Spark, and in a Parquet file an error; some names it cannot read in files.
    """
    fields = zip(state.codec.storage_schema, state.codec.staged_schema, strict=True)
    texts = {stored.name: staged for stored, staged in fields if stored.type != staged.type}
    strange = any(map(has_reference, state.codec.storage_schema.names))
    if not (texts or strange or lake.is_elsewhere()):
        yield files, ()
        return
    source = queries.parquet([file.location for file in files])
    kinds = {name: duckdb_type(field) for name, field in texts.items()}
    batches = lake.reader.stream(queries.with_types(source, kinds))
    first = next(batches)
    names = first.schema.names
    renamed = map(pa.Field.with_name, first.schema, file_columns(len(names)))
    with _staged(lake, pa.schema(list(renamed)), chain([first], batches)) as staged:
        yield staged, names


@contextmanager
def _view(
    lake: Lake,
    session: SparkConnection,
    state: TableState,
    files: Sequence[DataFile],
    names: Sequence[str] = (),
) -> Iterator[str]:
    """The rows of files under a name, for as long as the job runs; `names` are other columns'."""
    with ExitStack() as stack:
        if lake.is_elsewhere():
            space = state.pointer.namespace
            rows = stack.enter_context(spool_tables.read(lake, session, space, files))
        else:
            rows = session.spark.read.parquet(*(file.location for file in files))
        refuse_references(rows.schema)
        yield stack.enter_context(view(rows.toDF(*names) if names else rows))


BranchJob = Callable[[SparkConnection, TableState, str], None]


def _publish(lake: Lake, state: TableState, job: BranchJob, *, merges: bool = False) -> None:
    """Runs the job against the table as it is, and again if someone else was faster."""

    def attempt(now: TableState) -> None:
        if merges:
            refuse_lost_partitions(now)
        try:
            with lake.job(now) as session:
                if merges:
                    _delete_in_place(lake, session, now)
                _on_branch(lake, session, now, job)
        except StaleMetadata:
            log.info("table %s was changed by others; the job runs again", now.title())
            raise

    lake.retried(state, attempt, _TRIES)


def _delete_in_place(lake: Lake, session: SparkConnection, now: TableState) -> None:
    """Tables of others copy files by default, and Spark 4.1 cannot plan that by row id."""
    if now.properties.get(_MERGE_MODE) == _IN_PLACE:
        return
    name = identifier(session, now.pointer.namespace, now.pointer.name)
    table = session.catalog(lake.name).loadTable(name)
    table.updateProperties().set(_MERGE_MODE, _IN_PLACE).commit()


def _on_branch(lake: Lake, session: SparkConnection, now: TableState, job: BranchJob) -> None:
    space, name = now.pointer.namespace, now.pointer.name
    parts = [lake.name, *space.split("."), name]
    table = session.catalog(lake.name).loadTable(identifier(session, space, name))
    branch = branches.new_name(lake)
    # Of a table without a snapshot it makes an empty one.
    start = [] if now.snapshot_id is None else [now.snapshot_id]
    table.manageSnapshots().createBranch(branch, *start).commit()
    head = None
    try:
        job(session, now, sql.qualify([*parts, f"branch_{branch}"]))
        table.refresh()
        head = int(table.snapshot(branch).snapshotId())
        # Whoever runs a job again has the turn until its end, so that it is not in vain once more.
        with lake.turns.turn(now.identity), current().publishing():
            _move_main(table, branch)
    except BaseException:
        with shield():
            if _is_on_main(lake, now, head):
                return  # only the answer was lost
            _forget(lake, table, now, branch)
        raise


def _is_on_main(lake: Lake, state: TableState, snapshot: int | None) -> bool:
    if snapshot is None:
        return False
    with suppress(ServerError):
        return any(each["snapshot-id"] == snapshot for each in lake.current(state).history())
    return False


def _move_main(table: Any, branch: str) -> None:
    try:
        table.manageSnapshots().fastForwardBranch("main", branch).removeBranch(branch).commit()
    except Exception as error:
        if is_java(error, "java.lang.IllegalArgumentException"):
            raise StaleMetadata from error  # main is no ancestor of the branch any more
        raise


def _forget(lake: Lake, table: Any, state: TableState, branch: str) -> None:
    try:
        table.refresh()
        branches.forget(table, lake.current(state), [branch])
    except Exception:
        log.warning("branch %s of %s is left for the sweeper", branch, state.title())
        log.debug("because", exc_info=True)
