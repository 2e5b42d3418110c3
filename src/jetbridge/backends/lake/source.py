"""What a scan reads from: `iceberg_scan`, or the files themselves where that would be wrong.

DuckDB 1.5.5 takes one deletion vector for another where a Puffin file holds several, as those that
Spark writes do (`shares_vectors`; our own files hold one each). Such a table is read from its data
files by field id, without the positions that its vectors name.
"""

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from jetbridge.backends.lake import deletion_vectors
from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.inventory import Inventory, inventory
from jetbridge.backends.lake.metadata import Json, TableState
from jetbridge.backends.lake.store import Lake
from jetbridge.backends.lake.writer import DataWriter
from jetbridge.embedded import duckdb_type
from jetbridge.sql import lake as queries

log = logging.getLogger(__name__)

# What was found out about a snapshot is kept for so many.
_MOST_SOURCES = 256
_POSITIONS = pa.schema([("file", pa.string()), ("position", pa.int64())])


class ElsewhereError(Exception):
    """Why DuckDB cannot read a table."""


def source(lake: Lake, state: TableState) -> str:
    """The rows of a snapshot, as a relation of DuckDB with the columns of `iceberg_scan`.

    Raises ElsewhereError if DuckDB cannot read them.
    """
    plain = queries.table(state.location, state.past_id)
    if not _has_vectors(state):
        return plain
    key = (state.identity, state.snapshot_id, state.schema_id)
    known = lake.sources.get(key)
    if known is None:
        listed = inventory(lake.reader, state)
        known = _of_files(lake, state, listed) if listed.shares_vectors() else ""
        lake.sources[key] = known
        while len(lake.sources) > _MOST_SOURCES:
            lake.sources.pop(next(iter(lake.sources)), None)
    return known or plain


def _has_vectors(state: TableState) -> bool:
    summary = (state.snapshot or {}).get("summary") or {}
    return state.has_row_ids() and summary.get("total-delete-files", "1") not in ("0", "1")


def _of_files(lake: Lake, state: TableState, listed: Inventory) -> str:
    if listed.old_deletes or state.hides_places() or _renames_inside(state.raw):
        raise ElsewhereError("its deletion vectors share a Puffin file")
    log.info("table %s is read by its files: vectors share a Puffin file", state.title())
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
    return queries.table_of_files(files, columns, _deleted(lake, listed))


def _default(field: Json) -> str | None:
    value = field.get("initial-default")
    return None if value is None else str(value)


def _deleted(lake: Lake, listed: Inventory) -> str:
    """A Parquet file with the positions that are deleted; it is swept with those of its server."""
    writer = DataWriter(lake.files, lake.staging_folder(), lake.prefix(), _POSITIONS)
    for vector in listed.vectors.values():
        data = lake.files.read(vector.location)[vector.offset : vector.offset + vector.length]
        positions = deletion_vectors.positions(data)
        names = np.full(len(positions), vector.data_file)
        writer.add(pa.record_batch([pa.array(names), pa.array(positions)], schema=_POSITIONS))
    [file] = writer.close()
    return file.location


def _renames_inside(raw: dict[str, Any]) -> bool:
    """Whether a field inside a column ever had another name: `read_parquet` goes by names there."""
    names: dict[int, str] = {}
    for schema in raw.get("schemas", []):
        for field in schema["fields"]:
            for number, name in _inner(field["type"]):
                if names.setdefault(number, name) != name:
                    return True
    return False


def _inner(kind: Any) -> Iterator[tuple[int, str]]:
    if isinstance(kind, str):
        return
    for field in kind.get("fields", ()):
        yield field["id"], field["name"]
        yield from _inner(field["type"])
    for part in ("element", "key", "value"):
        if part in kind:
            yield from _inner(kind[part])
