"""How a table is read: by DuckDB where it can, else by PyIceberg or Spark."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from jetbridge.backends.lake.errors import is_named, unreadable_table
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.lost_partitions import lies_in_lost_partitions
from jetbridge.backends.lake.metadata.snapshot_files import inventory, positions_of
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.duckdb_source import NotReadableByDuckDB, source
from jetbridge.backends.lake.read.fallback import ReadColumns, SnapshotRelation, read_by_fallback
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import QueryError, is_about_files, is_out_of_memory
from jetbridge.errors import LimitExceeded, ServerError

ALL = ReadColumns()
# PUFFIN files hold deletion vectors.
_DUCKDB_READS = {"PARQUET", "PUFFIN"}
# How long the file at fault is looked for where DuckDB does not name it.
_SEARCH_SECONDS = 5.0


@contextmanager
def open_snapshot(
    lake: Lake, state: TableState, need: ReadColumns = ALL
) -> Iterator[SnapshotRelation]:
    """The rows of a snapshot as a relation of DuckDB, for the queries of this block.

    It has the columns that `iceberg_scan` offers, as far as they are needed.
    What goes wrong with a query is raised as Unavailable, with the name of the table and file.
    """
    formats = lake.manifests.formats(state)
    found = _by_duckdb(lake, state, formats)
    by_duckdb = isinstance(found, SnapshotRelation)
    try:
        if isinstance(found, SnapshotRelation):
            yield found
            return
        with read_by_fallback(lake, state, str(found), formats, need) as relation:
            yield relation
    except QueryError as error:
        raise _unreadable(lake, state, error, by_duckdb) from error


def is_read_by_duckdb(lake: Lake, state: TableState) -> bool:
    return isinstance(_by_duckdb(lake, state, lake.manifests.formats(state)), SnapshotRelation)


def _by_duckdb(
    lake: Lake, state: TableState, formats: frozenset[str]
) -> SnapshotRelation | NotReadableByDuckDB:
    strange = formats - _DUCKDB_READS
    if strange:
        return NotReadableByDuckDB(f"DuckDB does not read {' and '.join(sorted(strange))} files")
    if lies_in_lost_partitions(lake, state):
        return NotReadableByDuckDB("DuckDB does not read partitions by a column that is gone")
    try:
        found = source(lake, state)
        return SnapshotRelation(found.sql, row_ids=state.has_row_ids(), keeps=found)
    except NotReadableByDuckDB as reason:
        return reason


def _unreadable(lake: Lake, state: TableState, error: Exception, by_duckdb: bool) -> ServerError:
    if is_out_of_memory(error):
        return LimitExceeded(f"table {state.title()!r}: the scan needs more memory than it may use")
    if is_named(error) or not by_duckdb or not is_about_files(error):
        return unreadable_table(state, error)
    return unreadable_table(state, error, _culprit(lake, state))


def _culprit(lake: Lake, state: TableState) -> str:
    """The file that nobody can read by itself either; raises Unavailable with it if it knows."""
    end = time.monotonic() + _SEARCH_SECONDS
    listed = inventory(lake.reader, state)
    for _ in positions_of(lake.files, state, listed.vectors.values()):
        if time.monotonic() > end:
            break
    for file in listed.files:
        try:
            for _ in lake.reader.stream(queries.select_all_rows([file.location])):
                if time.monotonic() > end:
                    return f"one of the {len(listed.files)} in {lake.data_folder(state)}"
        except QueryError:
            return file.location
    return ""
