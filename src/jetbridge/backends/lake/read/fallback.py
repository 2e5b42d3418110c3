"""Reads tables that DuckDB cannot read, by PyIceberg or by Spark.

PyIceberg streams batches into the query, but has no row ids and does not read every type. Spark
writes the rows as Parquet files into the staging folder of the lake; they are removed when the
query ends.
"""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow
from pyiceberg.table import DataScan, StaticTable

from jetbridge.backends.lake.errors import unreadable_table
from jetbridge.backends.lake.metadata.fields import reshape
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.types import IcebergField
from jetbridge.backends.lake.types.iceberg_types import contains_lists
from jetbridge.backends.lake.warehouse.spool_tables import spool_rows
from jetbridge.dialects import spark as sql
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.dialects.quoting import identifier
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.lake_reader import QueryError
from jetbridge.spark.errors import java_message
from jetbridge.spark.written_rows import WrittenFiles, file_columns

log = logging.getLogger(__name__)

# It warns of every batch whose timestamps it shortens, as the table requires.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)

_ROWS = "jetbridge_rows"
_PYICEBERG_READS = {"PARQUET", "ORC", "PUFFIN"}
# Spark's metadata columns, and the names that `iceberg_scan` has for the same.
_LINEAGE = ((queries.ROW_ID, queries.ROW_ID), (queries.UPDATED, queries.UPDATED))
_FILE_COLUMNS = (("_file", queries.FILE), ("_pos", queries.POSITION))


@dataclass(frozen=True)
class SnapshotRelation:
    """Describe what a query reads from: its SQL, whether it has row ids, and streams it needs."""

    sql: str
    row_ids: bool
    tables: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Whatever must live as long as this is used.
    keeps: object = None


@dataclass(frozen=True)
class ReadColumns:
    """Choose columns of a table, None for all; `row_ids`: also ids, files and positions."""

    columns: Sequence[str] | None = None
    row_ids: bool = True

    def of(self, fields: Sequence[IcebergField]) -> list[IcebergField]:
        """Return the fields to read: at least one, so that rows can be counted."""
        selected = [f for f in fields if self.columns is None or f.name in self.columns]
        return selected or list(fields[:1])


@contextmanager
def read_by_fallback(
    context: ReadContext,
    state: TableState,
    reason: str,
    formats: frozenset[str],
    columns: ReadColumns,
) -> Iterator[SnapshotRelation]:
    """Yield the rows of a snapshot with the columns that are needed."""
    fields = columns.of(state.fields)
    batches = None
    if not columns.row_ids and _pyiceberg_can_read(context, state, formats, fields):
        batches = _read_by_pyiceberg(context, state, fields)
    if batches is None:
        context.log_once(log, state, "read by Spark", reason)
        with _read_by_spark(context, state, fields, reason) as relation:
            yield relation
        return
    context.log_once(log, state, "read by PyIceberg", reason)
    names = {field.id: field.name for field in fields}
    rows = queries.copy(_ROWS, _columns(state, fields, fields, names))
    try:
        yield SnapshotRelation(rows, row_ids=False, tables={_ROWS: batches})
    except QueryError as error:
        _refuse_pyiceberg(context, state, error)
        raise


def _refuse_pyiceberg(context: ReadContext, state: TableState, error: Exception) -> None:
    context.refuse_pyiceberg(state)
    context.log_once(log, state, "not read by PyIceberg", str(error))


def _pyiceberg_can_read(
    context: ReadContext, state: TableState, formats: frozenset[str], fields: Sequence[IcebergField]
) -> bool:
    """Return whether PyIceberg reads these columns.

    PyIceberg 0.12 takes a list or a map of structs that is NULL for an empty one, and timestamps in
    ORC files for nanoseconds, which reach from 1677 to 2262 only.
    """
    if context.is_refused_by_pyiceberg(state) or not formats <= _PYICEBERG_READS:
        return False
    if "ORC" in formats and any("timestamp" in str(field.type) for field in fields):
        return False
    return not any(
        field.initial_default is not None or contains_lists(field.type) for field in fields
    )


def _read_by_pyiceberg(
    context: ReadContext, state: TableState, fields: Sequence[IcebergField]
) -> pa.RecordBatchReader | None:
    """Return the rows; None if the first batch shows that PyIceberg cannot read them."""
    properties = {str(key): str(value) for key, value in context.properties.items()}
    try:
        table = StaticTable.from_metadata(state.location, properties)
        names = tuple(field.name for field in fields)
        scan = table.scan(snapshot_id=state.requested_snapshot_id, selected_fields=names)
        schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)
        batches = _streamed(scan, schema)
        first = next(batches, None)
    except Exception as error:  # whatever it is, Spark reads the table
        _refuse_pyiceberg(context, state, error)
        return None
    begin = [] if first is None else [first]
    return pa.RecordBatchReader.from_batches(schema, chain(begin, batches))


def _streamed(scan: DataScan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batch by batch: PyIceberg by itself would read all files at once, into memory."""
    tasks = list(scan.plan_files())
    deleted = _read_all_delete_files(scan.io, tasks)
    rows = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter)
    for task in tasks:
        try:
            for batch in rows._record_batches_from_scan_tasks_and_deletes([task], deleted):
                yield batch.cast(schema)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise OSError(f"file {task.file.file_path}: {error}") from error


@contextmanager
def _read_by_spark(
    context: ReadContext, state: TableState, fields: Sequence[IcebergField], reason: str
) -> Iterator[SnapshotRelation]:
    ids = {field.id for field in fields}
    stored = [field for field in _stored_fields(state) if field.id in ids]
    with ExitStack() as stack:
        copied_files = _copy(stack, context, state, stored, reason)
        extra = [name for _, name in _metadata_columns(state)]
        copied = file_columns(len(stored) + len(extra))
        names = {field.id: name for field, name in zip(stored, copied, strict=False)}
        columns = _columns(state, fields, stored, names)
        columns += list(zip(copied[len(stored) :], extra, strict=True))
        rows = queries.copy(queries.parquet(copied_files.names), columns)
        yield SnapshotRelation(rows, row_ids=state.has_row_ids())


def _stored_fields(state: TableState) -> Sequence[IcebergField]:
    """Return the fields of the snapshot: `VERSION AS OF` reads with the schema it was made with."""
    schema_id = None if state.snapshot is None else state.snapshot.schema_id
    schemas = (schema.fields for schema in state.schemas if schema.schema_id == schema_id)
    return next(schemas, state.fields)


def _copy(
    stack: ExitStack,
    context: ReadContext,
    state: TableState,
    fields: list[IcebergField],
    reason: str,
) -> WrittenFiles:
    """Let Spark write the rows into files that are removed with the stack."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - slow to load

    warehouse = context.warehouse
    picked = [*(field.name for field in fields), *(n for n, _ in _metadata_columns(state))]
    columns = list(zip(picked, file_columns(len(picked)), strict=True))
    table = [warehouse.name, *state.pointer.namespace.split("."), state.pointer.name]
    try:
        with warehouse.session(state.title()) as session:
            query = sql.copy(table, state.snapshot_id or 0, columns)
            spool = spool_rows(warehouse, session, query, state.pointer.namespace)
            return stack.enter_context(spool)
    except (Py4JJavaError, PySparkException) as error:
        # Its first line is cut before the file is named, which the whole text does.
        problem = f"{java_message(error)} (Spark, as {reason})\n{error}"
        raise unreadable_table(state.title(), problem) from error


def _metadata_columns(state: TableState) -> list[tuple[str, str]]:
    lineage = _LINEAGE if state.has_row_ids() else ()
    return [*lineage, *(() if state.shadows_file_columns() else _FILE_COLUMNS)]


def _columns(
    state: TableState,
    fields: Sequence[IcebergField],
    stored: Sequence[IcebergField],
    names: Mapping[int, str],
) -> list[tuple[str, str]]:
    """Return columns with the names and types of `iceberg_scan`; `names` are those of the copy."""
    types = {field.id: field.type for field in stored}
    columns = []
    for field in fields:
        data_type = duckdb_type(state.codec.storage_schema.field(field.name))
        if field.id in names:
            value = identifier(names[field.id])
            text = queries.as_type(reshape(value, types[field.id], field.type), data_type)
        else:
            default = field.initial_default
            text = queries.constant(None if default is None else str(default), data_type)
        columns.append((text, field.name))
    return columns
