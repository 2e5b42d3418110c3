"""What a scan reads from: `iceberg_scan`, or the files themselves where that would be wrong.

DuckDB 1.5.5 takes one deletion vector for another where a Puffin file holds several, as those that
Spark writes do (`shares_vectors`; our own files hold one each). Such a table is read from its data
files by field id, without the positions that its vectors name.
"""

import os
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from jetbridge.backends.lake.errors import is_named
from jetbridge.backends.lake.files import Files, local_path
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.fields import inner_fields
from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles, inventory, positions_of
from jetbridge.backends.lake.metadata.table_state import CREATED, Json, TableState
from jetbridge.backends.lake.parquet_writer import DataWriter
from jetbridge.backends.lake.read.fallback import log_once
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.lake_reader import QueryError

# What was found out about a snapshot is kept for so many.
_MOST_SOURCES = 256
_POSITIONS = pa.schema([("file", pa.string()), ("position", pa.int64())])


class NotReadableByDuckDB(Exception):
    """Why DuckDB cannot read a table."""


class IcebergSource:
    """A relation of DuckDB, and the file it needs, which goes when nobody uses it any more.

    Without `sql` it is `iceberg_scan`, unless that has `refused`.
    """

    def __init__(
        self, sql: str, files: Files | None = None, location: str = "", refused: str = ""
    ) -> None:
        self.sql, self.refused = sql, refused
        if files is not None:
            weakref.finalize(self, _remove, files, location)


def _remove(files: Files, location: str) -> None:
    with suppress(OSError):  # then it is swept with the others of this server
        files.delete([location])


def source(lake: Lake, state: TableState) -> IcebergSource:
    """The rows of a snapshot, as a relation of DuckDB with the columns of `iceberg_scan`.

    Raises ElsewhereError if DuckDB cannot read them.
    """
    plain = IcebergSource(queries.table(*_metadata(lake, state)))
    if not _has_vectors(state) and CREATED in state.properties:
        return plain
    key = (state.identity, state.snapshot_id, state.schema_id)
    known = lake.sources.get(key)
    if known is None:
        known = lake.sources[key] = _found_out(lake, state, plain)
        while len(lake.sources) > _MOST_SOURCES:
            lake.sources.pop(next(iter(lake.sources)), None)
    if known.refused:
        raise NotReadableByDuckDB(known.refused)
    return known if known.sql else plain


def _metadata(lake: Lake, state: TableState) -> tuple[str, int | None]:
    """The metadata file and the snapshot to ask for.

    A table keeps its last hundred metadata files. A reader may need longer than a hundred commits
    of others take; later files tell of its snapshot, too.
    """
    path = local_path(state.location)
    if path is None or os.path.exists(path):
        return state.location, state.past_id
    return lake.current(state).location, state.snapshot_id


def _found_out(lake: Lake, state: TableState, plain: IcebergSource) -> IcebergSource:
    if _has_vectors(state):
        listed = inventory(lake.reader, state)
        if listed.shares_vectors():
            return _of_files(lake, state, listed)
    return IcebergSource("", refused=_refusal(lake, plain.sql))


def _refusal(lake: Lake, relation: str) -> str:
    """Why DuckDB does not scan a table at all, e.g. one of format 1 that was upgraded."""
    try:
        lake.reader.query(queries.plan(relation))
    except QueryError as error:
        problem = str(error).split("\n", 1)[0]
        return "" if is_named(problem) else problem  # a file at fault is told by the scan
    return ""


def _has_vectors(state: TableState) -> bool:
    """Whether there may be several."""
    summary = (state.snapshot or {}).get("summary") or {}
    return state.has_row_ids() and summary.get("total-delete-files") not in ("0", "1")


def _of_files(lake: Lake, state: TableState, listed: SnapshotFiles) -> IcebergSource:
    if listed.old_deletes or state.hides_places() or _renames_inside(state.raw):
        raise NotReadableByDuckDB("its deletion vectors share a Puffin file")
    log_once(lake, state, "read by its files", "deletion vectors share a Puffin file")
    files = [
        (
            local_path(file.location) or file.location,  # as `read_parquet` names it
            file.location,
            file.first_row_id or 0,
            file.sequence_number,
        )
        for file in listed.files
    ]
    columns = [
        (field["id"], field["name"], duckdb_type(stored), _default(field))
        for field, stored in zip(state.fields, state.codec.storage_schema, strict=True)
    ]
    deleted = _deleted(lake, state, listed)
    return IcebergSource(queries.table_of_files(files, columns, deleted), lake.files, deleted)


def _default(field: Json) -> str | None:
    value = field.get("initial-default")
    return None if value is None else str(value)


def _deleted(lake: Lake, state: TableState, listed: SnapshotFiles) -> str:
    """A Parquet file with the positions that are deleted; see `Source`."""
    writer = DataWriter(lake.files, lake.staging_folder(), lake.prefix(), _POSITIONS)
    try:
        for vector, positions in positions_of(lake.files, state, listed.vectors.values()):
            names = np.full(len(positions), vector.data_file)
            writer.add(pa.record_batch([pa.array(names), pa.array(positions)], schema=_POSITIONS))
        [file] = writer.close()
    except BaseException:
        writer.abandon()
        raise
    return file.location


def _renames_inside(raw: dict[str, Any]) -> bool:
    """Whether a field inside a column ever had another name: `read_parquet` goes by names there."""
    names: dict[int, str] = {}
    for schema in raw.get("schemas", []):
        for field in schema["fields"]:
            for number, name in inner_fields(field["type"]):
                if names.setdefault(number, name) != name:
                    return True
    return False
