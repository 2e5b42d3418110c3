"""Names the relation that DuckDB scans: `iceberg_scan`, or the files where that would be wrong.

DuckDB 1.5.5 takes one deletion vector for another where a Puffin file holds several, as those of
Spark do (`shares_vectors`; our own files hold one each). Such a table is read from its data files
by field id, without the positions that its vectors name.
"""

import logging
import os
import weakref
from contextlib import suppress

import numpy as np
import pyarrow as pa

from jetbridge.backends.lake.errors import is_named
from jetbridge.backends.lake.files import Files, local_path
from jetbridge.backends.lake.metadata.fields import renames_inside
from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles, positions_of
from jetbridge.backends.lake.metadata.table_state import CREATED, TableState
from jetbridge.backends.lake.parquet_writer import DataWriter
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.types import IcebergField
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.lake_reader import QueryError

log = logging.getLogger(__name__)

_POSITIONS = pa.schema([("file", pa.string()), ("position", pa.int64())])


class NotReadableByDuckDB(Exception):
    """Say why DuckDB cannot read a table."""


class IcebergSource:
    """Hold a relation of DuckDB, and a file that it needs, which is removed with this object.

    Without `sql` it is `iceberg_scan`, unless that has `refused`.
    """

    def __init__(
        self, sql: str, files: Files | None = None, location: str = "", refused: str = ""
    ) -> None:
        self.sql, self.refused = sql, refused
        if files is not None:
            weakref.finalize(self, _remove, files, location)


def _remove(files: Files, location: str) -> None:
    with suppress(OSError):  # then the sweeper removes it
        files.delete([location])


def source_of(context: ReadContext, state: TableState) -> IcebergSource:
    """Return the rows of a snapshot as a relation of DuckDB with the columns of `iceberg_scan`.

    Raises NotReadableByDuckDB.
    """
    plain = IcebergSource(queries.table(*_metadata(context, state)))
    if not _may_have_vectors(state) and CREATED in state.properties:
        return plain
    key = (state.identity, state.snapshot_id, state.schema_id)
    known: IcebergSource | None = context.sources.get(key)
    if known is None:
        known = _examine(context, state, plain)
        context.sources.put(key, known)
    if known.refused:
        raise NotReadableByDuckDB(known.refused)
    return known if known.sql else plain


def _metadata(context: ReadContext, state: TableState) -> tuple[str, int | None]:
    """Return the metadata file and the snapshot to ask for.

    A table keeps its last hundred metadata files. A reader may take longer than a hundred commits
    of others; then a later file names its snapshot, too.
    """
    path = local_path(state.location)
    if path is None or os.path.exists(path):
        return state.location, state.requested_snapshot_id
    return context.tables.current(state).location, state.snapshot_id


def _examine(context: ReadContext, state: TableState, plain: IcebergSource) -> IcebergSource:
    if _may_have_vectors(state):
        files = context.snapshot_files(state)
        if files.shares_vectors():
            return _of_files(context, state, files)
    return IcebergSource("", refused=_refusal(context, plain.sql))


def _refusal(context: ReadContext, relation: str) -> str:
    """Return why DuckDB does not scan a table, e.g. an upgraded one of format 1; "" if it does."""
    try:
        context.reader.query(queries.plan(relation))
    except QueryError as error:
        problem = str(error).split("\n", 1)[0]
        return "" if is_named(problem) else problem  # the scan reports a file at fault
    return ""


def _may_have_vectors(state: TableState) -> bool:
    """Return whether there may be several deletion vectors."""
    if not state.has_row_ids():
        return False
    return state.snapshot is None or state.snapshot.property("total-delete-files") not in ("0", "1")


def _of_files(context: ReadContext, state: TableState, files: SnapshotFiles) -> IcebergSource:
    renames = renames_inside([schema.fields for schema in state.schemas])
    if files.old_deletes or state.shadows_file_columns() or renames:
        raise NotReadableByDuckDB("its deletion vectors share a Puffin file")
    context.log_once(log, state, "read by its files", "deletion vectors share a Puffin file")
    entries = [
        (
            local_path(file.location) or file.location,  # as `read_parquet` names it
            file.location,
            file.first_row_id or 0,
            file.sequence_number,
        )
        for file in files.files
    ]
    columns = [
        (field.id, field.name, duckdb_type(stored), _default(field))
        for field, stored in zip(state.fields, state.codec.storage_schema, strict=True)
    ]
    deleted = _write_deleted_positions(context, state, files)
    return IcebergSource(queries.table_of_files(entries, columns, deleted), context.files, deleted)


def _default(field: IcebergField) -> str | None:
    return None if field.initial_default is None else str(field.initial_default)


def _write_deleted_positions(context: ReadContext, state: TableState, files: SnapshotFiles) -> str:
    """Return the location of a Parquet file with the deleted positions; see `IcebergSource`."""
    warehouse = context.warehouse
    writer = DataWriter(
        context.files, warehouse.staging_folder(), warehouse.file_prefix(), _POSITIONS
    )
    try:
        for vector, positions in positions_of(context.files, state, files.vectors.values()):
            names = np.full(len(positions), vector.data_file)
            writer.add(pa.record_batch([pa.array(names), pa.array(positions)], schema=_POSITIONS))
        [file] = writer.close()
    except BaseException:
        writer.abandon()
        raise
    return file.location
