"""Reads a snapshot as a relation: by DuckDB where it can, else by PyIceberg or Spark."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from jetbridge.backends.lake.errors import is_named, unreadable_table
from jetbridge.backends.lake.metadata.lost_partitions import lies_in_lost_partitions
from jetbridge.backends.lake.metadata.snapshot_files import positions_of
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.read.duckdb_source import NotReadableByDuckDB, source_of
from jetbridge.backends.lake.read.fallback import ReadColumns, SnapshotRelation, read_by_fallback
from jetbridge.backends.lake.types.nested_types import children, names_fit, shape_of, stored_names
from jetbridge.backends.lake.types.storage_types import type_name
from jetbridge.catalog import ROWID, SparkRelation
from jetbridge.dialects import spark as sql
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.lake_reader import QueryError, is_about_files, is_out_of_memory
from jetbridge.duckdb_syntax.types import kind_of
from jetbridge.errors import LimitExceeded, ServerError

ALL = ReadColumns()
# PUFFIN files hold deletion vectors.
_DUCKDB_READS = {"PARQUET", "PUFFIN"}
# How long to search for the damaged file where DuckDB does not name it.
_SEARCH_SECONDS = 5.0
# Stored as they are; DuckDB and Spark have the same values, whatever they call the type.
_SAME = frozenset(
    ["BOOLEAN", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "BLOB", "DATE"]
    + ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]
)
# Stored as wider integers.
_NARROW = frozenset(["TINYINT", "SMALLINT"])


@contextmanager
def open_snapshot(
    context: ReadContext, state: TableState, columns: ReadColumns = ALL
) -> Iterator[SnapshotRelation]:
    """Yield the rows of a snapshot as a relation of DuckDB, for the queries of this block.

    It has the columns that `iceberg_scan` offers, as far as they are needed. An error of a query
    is raised as Unavailable, with the name of the table and the file.
    """
    formats = context.manifests.formats(state)
    relation = _by_duckdb(context, state, formats)
    by_duckdb = isinstance(relation, SnapshotRelation)
    try:
        if isinstance(relation, SnapshotRelation):
            yield relation
            return
        with read_by_fallback(context, state, str(relation), formats, columns) as fallback:
            yield fallback
    except QueryError as error:
        raise _unreadable(context, state, error, by_duckdb) from error


def is_read_by_duckdb(context: ReadContext, state: TableState) -> bool:
    """Return whether DuckDB itself can read the snapshot."""
    relation = _by_duckdb(context, state, context.manifests.formats(state))
    return isinstance(relation, SnapshotRelation)


def _by_duckdb(
    context: ReadContext, state: TableState, formats: frozenset[str]
) -> SnapshotRelation | NotReadableByDuckDB:
    others = formats - _DUCKDB_READS
    if others:
        return NotReadableByDuckDB(f"DuckDB does not read {' and '.join(sorted(others))} files")
    if lies_in_lost_partitions(context.manifests, state):
        return NotReadableByDuckDB("DuckDB does not read partitions by a column that is gone")
    try:
        source = source_of(context, state)
        return SnapshotRelation(source.sql, row_ids=state.has_row_ids(), keeps=source)
    except NotReadableByDuckDB as reason:
        return reason


def _unreadable(
    context: ReadContext, state: TableState, error: Exception, by_duckdb: bool
) -> ServerError:
    if is_out_of_memory(error):
        return LimitExceeded(f"table {state.title()!r}: the scan needs more memory than it may use")
    if is_named(error) or not by_duckdb or not is_about_files(error):
        return unreadable_table(state.title(), error)
    return unreadable_table(state.title(), error, _damaged_file(context, state))


def _damaged_file(context: ReadContext, state: TableState) -> str:
    """Return the file that cannot be read by itself either; raises Unavailable for a vector."""
    end = time.monotonic() + _SEARCH_SECONDS
    snapshot_files = context.snapshot_files(state)
    for _ in positions_of(context.files, state, snapshot_files.vectors.values()):
        if time.monotonic() > end:
            break
    for file in snapshot_files.files:
        try:
            for _ in context.reader.stream(queries.select_all_rows([file.location])):
                if time.monotonic() > end:
                    return f"one of the {len(snapshot_files.files)} in {state.data_folder}"
        except QueryError:
            return file.location
    return ""


@contextmanager
def duckdb_relation(
    context: ReadContext, state: TableState, *, row_ids: bool
) -> Iterator[str | None]:
    """Yield a query of DuckDB; None if the table is read in another way, or has no row ids."""
    lacks_row_ids = row_ids and not state.has_row_ids()
    if lacks_row_ids or not is_read_by_duckdb(context, state):  # a copy of Spark would be removed
        yield None
        return
    with open_snapshot(context, state) as relation:
        text = _query(state, relation.sql, row_ids)
    # Not within: an error in a query of others need not be about this table. What the relation
    # needs lives as long as `relation` does.
    yield text


def _query(state: TableState, source: str, row_ids: bool) -> str:
    columns = [(field.name, _column(state, field.name)) for field in state.definition.schema]
    if row_ids:
        columns.append((ROWID, queries.UNSKIPPED_ROW_ID))
    if state.snapshot is None:
        return queries.no_rows(
            [(field.name, duckdb_type(field)) for field in state.definition.schema]
            + ([(ROWID, "BIGINT")] if row_ids else [])
        )
    return queries.scan(source, columns)


def _column(state: TableState, name: str) -> str:
    text = state.codec.condition(name)
    if state.codec.pushable(name):
        return text
    return queries.as_type(text, type_name(state.definition.schema.field(name)))


def spark_relation(context: ReadContext, state: TableState) -> SparkRelation:
    """Return the columns that Spark has with the same values; the others are named as missing."""
    types: dict[str, str] = {}
    missing: dict[str, str] = {}
    picked = []
    for field in state.definition.schema:
        name = type_name(field)
        if _is_same(field):
            types[field.name] = name
            picked.append((field.name, name if kind_of(name) in _NARROW else ""))
        else:
            missing[field.name] = name
    table = [context.warehouse.name, *state.pointer.namespace.split("."), state.pointer.name]
    text = sql.select_columns(table, state.snapshot_id, picked)
    size = None if state.snapshot is None else state.snapshot.total("total-files-size")
    return SparkRelation(text, types, missing, size or 0)


def _is_same(field: pa.Field) -> bool:
    kind = field.type
    shape = shape_of(kind)
    if shape in ("list", "struct"):
        fits = shape == "list" or (names_fit(kind) and _has_stored_names(kind))
        return fits and all(_is_same_inside(child) for child in children(kind))
    return not shape and kind_of(type_name(field)) in _SAME | _NARROW


def _has_stored_names(kind: pa.DataType) -> bool:
    """Return whether the fields of a struct have the same names in the table."""
    names = [child.name for child in children(kind)]
    return stored_names(names) == names


def _is_same_inside(field: pa.Field) -> bool:
    """Return whether Spark has the same values inside a list or struct, without a new list."""
    kind = field.type
    return _is_same(field) and (bool(shape_of(kind)) or kind_of(type_name(field)) in _SAME)
