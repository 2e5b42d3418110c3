"""Writes into partitioned and sorted tables with Spark, which keeps to their layout.

A job works on a branch of the table, which starts at the snapshot that the conditions were checked
against; then `main` is moved to the branch in one step, unless someone else moved it meanwhile. So
readers see all of the change or nothing, and what was checked still holds.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.backends.lake.errors import StaleMetadata
from jetbridge.backends.lake.metadata.history import read_history
from jetbridge.backends.lake.metadata.lost_partitions import refuse_lost_partitions
from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataFile, write_all
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.types import ROW_ID_COLUMN
from jetbridge.backends.lake.warehouse import branches, spool_tables
from jetbridge.backends.lake.write import key_checks
from jetbridge.backends.lake.write.publisher import Publisher
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
_ATTEMPTS = 5
_MERGE_MODE, _IN_PLACE = "write.merge.mode", "merge-on-read"


def is_needed(context: ReadContext, state: TableState) -> bool:
    """Return whether rows of this table are changed by a MERGE."""
    if state.shadows_file_columns() or not state.is_plain() or has_partitions(context, state):
        return True
    return context.snapshot_files(state).old_deletes


def has_partitions(context: ReadContext, state: TableState) -> bool:
    """Return whether files of the snapshot, or those to come, belong to a partition."""
    specs = state.partitioned_specs()
    if not specs:
        return False
    return state.spec_id in specs or bool(specs & context.manifests.specs(state))


def insert(
    publisher: Publisher,
    state: TableState,
    files: list[DataFile],
    adapt: Callable[[TableState, list[DataFile]], list[DataFile]],
) -> None:
    """Insert the rows of files, which `adapt` fits to the latest state of the table."""

    def job(session: SparkConnection, latest: TableState, target: str) -> None:
        rows = adapt(latest, files)
        key_checks.refuse_duplicates(publisher, latest, rows)
        with (
            _for_spark(publisher, latest, rows) as staged,
            _view(publisher, session, latest, *staged) as source,
        ):
            insert = session.sql(sql.insert(target, source, latest.codec.storage_schema.names))
            refuse_lost(sum(file.rows for file in rows), rows_in_table(insert), latest.title())

    _publish(publisher, state, job)


def update(
    publisher: Publisher,
    state: TableState,
    changed: Sequence[str],
    new_rows: Callable[[TableState, SnapshotFiles], Iterable[pa.RecordBatch]],
) -> None:
    """Update rows with the values and row ids of `new_rows`."""

    def job(session: SparkConnection, latest: TableState, target: str) -> None:
        snapshot_files = publisher.read.snapshot_files(latest)
        schema = latest.codec.storage_schema.append(ROW_ID_COLUMN)
        with _staged(publisher, schema, new_rows(latest, snapshot_files)) as files:
            key_checks.refuse_duplicates(publisher, latest, files, changed=changed)
            with (
                _for_spark(publisher, latest, files) as staged,
                _view(publisher, session, latest, *staged) as source,
            ):
                session.spark.sql(sql.merge_update(target, source, queries.ROW_ID, changed))

    _publish(publisher, state, job, merges=True)


def delete(
    publisher: Publisher,
    state: TableState,
    row_ids: Integers,
    refuse_conflicts: Callable[[TableState, SnapshotFiles], object],
) -> None:
    """Delete rows by their ids."""

    def job(session: SparkConnection, latest: TableState, target: str) -> None:
        refuse_conflicts(latest, publisher.read.snapshot_files(latest))
        batch = pa.record_batch([pa.array(row_ids)], names=file_columns(1))
        with (
            _staged(publisher, batch.schema, [batch]) as files,
            _view(publisher, session, latest, files, [queries.ROW_ID]) as source,
        ):
            session.spark.sql(sql.merge_delete(target, source, queries.ROW_ID))

    _publish(publisher, state, job, merges=True)


def merge(
    publisher: Publisher,
    state: TableState,
    kept: Sequence[DataFile],
    deleted: Sequence[DataFile],
    refuse_conflicts: Callable[[TableState, SnapshotFiles], object],
) -> None:
    """Insert and update the rows of `kept`, and delete those of `deleted`, by their ids."""
    names = state.codec.storage_schema.names

    def job(session: SparkConnection, latest: TableState, target: str) -> None:
        refuse_conflicts(latest, publisher.read.snapshot_files(latest))
        key_checks.refuse_duplicates(publisher, latest, kept, changed=names, deleted=deleted)
        with ExitStack() as stack:
            views = []
            for files in (kept, deleted):
                if not files:
                    views.append("")
                    continue
                staged = stack.enter_context(_for_spark(publisher, latest, files))
                views.append(stack.enter_context(_view(publisher, session, latest, *staged)))
            session.spark.sql(sql.merge_all(target, views[0], views[1], queries.ROW_ID, names))

    _publish(publisher, state, job, merges=True)


@contextmanager
def _staged(
    publisher: Publisher, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[list[DataFile]]:
    """Write rows into Parquet files that Spark's workers can read, while the job runs."""
    writer = publisher.new_writer(publisher.warehouse.staging_folder(), schema)
    renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)
    try:
        yield write_all(writer, renamed)
    finally:
        writer.abandon()


@contextmanager
def _for_spark(
    publisher: Publisher, state: TableState, files: Sequence[DataFile]
) -> Iterator[tuple[Sequence[DataFile], Sequence[str]]]:
    """Yield files that Spark reads, and the names of the columns if the files have others.

    Spark reads UUIDs of Iceberg as strings, but none in a Parquet file; some names it cannot read
    in files.
    """
    fields = zip(state.codec.storage_schema, state.codec.staged_schema, strict=True)
    texts = {stored.name: staged for stored, staged in fields if stored.type != staged.type}
    unreadable = any(map(has_reference, state.codec.storage_schema.names))
    if not (texts or unreadable or publisher.warehouse.is_remote()):
        yield files, ()
        return
    source = queries.parquet([file.location for file in files])
    kinds = {name: duckdb_type(field) for name, field in texts.items()}
    batches = publisher.read.reader.stream(queries.with_types(source, kinds))
    first = next(batches)
    names = first.schema.names
    renamed = map(pa.Field.with_name, first.schema, file_columns(len(names)))
    with _staged(publisher, pa.schema(list(renamed)), chain([first], batches)) as staged:
        yield staged, names


@contextmanager
def _view(
    publisher: Publisher,
    session: SparkConnection,
    state: TableState,
    files: Sequence[DataFile],
    names: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a name in Spark SQL for the rows of files; `names` are other names of the columns."""
    with ExitStack() as stack:
        if publisher.warehouse.is_remote():
            spooled = spool_tables.read_files(
                publisher.warehouse, session, state.pointer.namespace, files
            )
            rows = stack.enter_context(spooled)
        else:
            rows = session.spark.read.parquet(*(file.location for file in files))
        refuse_references(rows.schema)
        yield stack.enter_context(view(rows.toDF(*names) if names else rows))


BranchJob = Callable[[SparkConnection, TableState, str], None]


def _publish(
    publisher: Publisher, state: TableState, job: BranchJob, *, merges: bool = False
) -> None:
    """Run the job on the latest state of the table, and again if someone else was faster."""

    def attempt(latest: TableState) -> None:
        if merges:
            refuse_lost_partitions(latest)
        try:
            with publisher.run_job(latest) as session:
                if merges:
                    _delete_in_place(publisher, session, latest)
                _run_on_branch(publisher, session, latest, job)
        except StaleMetadata:
            log.info("table %s was changed by others; the job runs again", latest.title())
            raise

    publisher.retry(state, attempt, _ATTEMPTS)


def _delete_in_place(publisher: Publisher, session: SparkConnection, state: TableState) -> None:
    """Set the merge mode: tables of other engines copy files, which Spark 4.1 cannot plan by id."""
    if state.properties.get(_MERGE_MODE) == _IN_PLACE:
        return
    table = publisher.warehouse.java_table(session, state)
    table.updateProperties().set(_MERGE_MODE, _IN_PLACE).commit()


def _run_on_branch(
    publisher: Publisher, session: SparkConnection, state: TableState, job: BranchJob
) -> None:
    warehouse = publisher.warehouse
    parts = [warehouse.name, *state.pointer.namespace.split("."), state.pointer.name]
    table = warehouse.java_table(session, state)
    branch = branches.new_name(warehouse.server)
    # For a table without a snapshot Iceberg creates an empty one.
    start = [] if state.snapshot_id is None else [state.snapshot_id]
    table.manageSnapshots().createBranch(branch, *start).commit()
    head = None
    try:
        job(session, state, sql.qualify([*parts, f"branch_{branch}"]))
        table.refresh()
        head = int(table.snapshot(branch).snapshotId())
        # A job that runs again has the turn until its end, so that it does not lose once more.
        with warehouse.turns.turn(state.identity), current().publishing():
            _move_main(table, branch)
    except BaseException:
        with shield():
            if _is_on_main(publisher, state, head):
                return  # only the answer was lost
            _remove_branch(publisher, table, state, branch)
        raise


def _is_on_main(publisher: Publisher, state: TableState, snapshot_id: int | None) -> bool:
    if snapshot_id is None:
        return False
    with suppress(ServerError):
        history = read_history(publisher.tables.current(state))
        return any(snapshot.snapshot_id == snapshot_id for snapshot in history)
    return False


def _move_main(table: Any, branch: str) -> None:
    try:
        table.manageSnapshots().fastForwardBranch("main", branch).removeBranch(branch).commit()
    except Exception as error:
        if is_java(error, "java.lang.IllegalArgumentException"):
            raise StaleMetadata from error  # main is no ancestor of the branch any more
        raise


def _remove_branch(publisher: Publisher, table: Any, state: TableState, branch: str) -> None:
    try:
        table.refresh()
        branches.remove_from(table, publisher.tables.current(state), [branch])
    except Exception:
        log.warning(
            "branch %s of %s could not be removed and is left for the sweeper",
            branch,
            state.title(),
        )
        log.debug("because", exc_info=True)
