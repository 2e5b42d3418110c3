"""Tables that DuckDB cannot read: PyIceberg reads them, or Spark.

PyIceberg streams batches into the query, but knows no row ids, and not every type. Spark writes the
rows as Parquet into the staging folder of the lake, and they are removed when the query ends.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow
from pyiceberg.table import DataScan, StaticTable

from jetbridge.backends.lake.errors import unreadable_table
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.fields import has_lists, reshaped
from jetbridge.backends.lake.metadata.table_state import Json, TableState
from jetbridge.backends.lake.write.spool_tables import spooled
from jetbridge.dialects import spark as sql
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.dialects.quoting import identifier
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.lake_reader import QueryError
from jetbridge.spark.errors import java_message
from jetbridge.spark.written_rows import WrittenFiles, file_columns

log = logging.getLogger(__name__)

# It warns of every batch whose timestamps it makes shorter, as the table says it must.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)

_ROWS = "jetbridge_rows"
_UNFIT = "not read by PyIceberg"
_PYICEBERG_READS = {"PARQUET", "ORC", "PUFFIN"}
# Spark's metadata columns, and what `iceberg_scan` calls the same.
_LINEAGE = ((queries.ROW_ID, queries.ROW_ID), (queries.UPDATED, queries.UPDATED))
_PLACES = (("_file", queries.FILE), ("_pos", queries.POSITION))


@dataclass(frozen=True)
class SnapshotRelation:
    """What a query reads from, whether that has row ids, and the streams it needs."""

    sql: str
    row_ids: bool
    tables: Mapping[str, Any] = field(default_factory=dict)
    # Whatever must live as long as this is used.
    keeps: object = None


@dataclass(frozen=True)
class ReadColumns:
    """Columns of the table, None for all of them; `row_ids`: also ids, files and positions."""

    columns: Sequence[str] | None = None
    row_ids: bool = True

    def of(self, fields: Sequence[Json]) -> list[Json]:
        """At least one, so that rows can be counted."""
        wanted = self.columns
        found = [each for each in fields if wanted is None or each["name"] in wanted]
        return found or list(fields[:1])


@contextmanager
def read_by_fallback(
    lake: Lake, state: TableState, reason: str, formats: frozenset[str], need: ReadColumns
) -> Iterator[SnapshotRelation]:
    """The rows of a snapshot with the columns that are needed."""
    fields = need.of(state.fields)
    batches = None
    if not need.row_ids and _pyiceberg_can(lake, state, formats, fields):
        batches = _by_pyiceberg(lake, state, fields)
    if batches is None:
        log_once(lake, state, "read by Spark", reason)
        with _by_spark(lake, state, fields, reason) as relation:
            yield relation
        return
    log_once(lake, state, "read by PyIceberg", reason)
    names = {field["id"]: field["name"] for field in fields}
    rows = queries.copy(_ROWS, _columns(state, fields, fields, names))
    try:
        yield SnapshotRelation(rows, row_ids=False, tables={_ROWS: batches})
    except QueryError as error:
        log_once(lake, state, _UNFIT, str(error))
        raise


def log_once(lake: Lake, state: TableState, what: str, reason: str) -> None:
    """Once for each table, however often the reason changes its words."""
    if lake.is_news((state.identity, what)):
        log.info("table %s is %s: %s", state.title(), what, reason.split("\n", 1)[0][:200])


def _pyiceberg_can(
    lake: Lake, state: TableState, formats: frozenset[str], fields: Sequence[Json]
) -> bool:
    """Whether it reads what is there.

    PyIceberg 0.12 takes a list or a map of structs that is NULL for an empty one, and moments in
    ORC files for nanoseconds, which reach from 1677 to 2262 only.
    """
    if (state.identity, _UNFIT) in lake.said or not formats <= _PYICEBERG_READS:
        return False
    kinds = [field["type"] for field in fields]
    moments = "ORC" in formats and "timestamp" in str(kinds)
    defaults = any("initial-default" in field for field in fields)
    return not (moments or defaults or any(has_lists(kind) for kind in kinds))


def _by_pyiceberg(
    lake: Lake, state: TableState, fields: Sequence[Json]
) -> pa.RecordBatchReader | None:
    """None if it cannot, as the first batch shows."""
    properties = {str(key): str(value) for key, value in lake.iceberg.properties.items()}
    try:
        table = StaticTable.from_metadata(state.location, properties)
        names = tuple(field["name"] for field in fields)
        scan = table.scan(snapshot_id=state.past_id, selected_fields=names)
        schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)
        batches = _streamed(scan, schema)
        first = next(batches, None)
    except Exception as error:  # whatever it is, Spark is asked next
        log_once(lake, state, _UNFIT, str(error))
        return None
    found = [] if first is None else [first]
    return pa.RecordBatchReader.from_batches(schema, chain(found, batches))


def _streamed(scan: DataScan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batch by batch: PyIceberg by itself would read all files at once, into memory."""
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
def _by_spark(
    lake: Lake, state: TableState, fields: Sequence[Json], reason: str
) -> Iterator[SnapshotRelation]:
    wanted = {field["id"] for field in fields}
    there = [field for field in _stored_fields(state) if field["id"] in wanted]
    with ExitStack() as stack:
        written = _copy(stack, lake, state, there, reason)
        ours = [name for _, name in _metadata_columns(state)]
        copied = file_columns(len(there) + len(ours))
        names = {field["id"]: name for field, name in zip(there, copied, strict=False)}
        columns = _columns(state, fields, there, names)
        columns += list(zip(copied[len(there) :], ours, strict=True))
        rows = queries.copy(queries.parquet(written.names), columns)
        yield SnapshotRelation(rows, row_ids=state.has_row_ids())


def _stored_fields(state: TableState) -> list[Json]:
    """Those of the snapshot: `VERSION AS OF` reads with the schema it was made with."""
    schemas = {schema["schema-id"]: schema for schema in state.raw.get("schemas", [])}
    known = schemas.get((state.snapshot or {}).get("schema-id"))
    return list(known["fields"]) if known else state.fields


def _copy(
    stack: ExitStack, lake: Lake, state: TableState, fields: list[Json], reason: str
) -> WrittenFiles:
    """In files that go with the stack."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - slow to load

    picked = [*(field["name"] for field in fields), *(n for n, _ in _metadata_columns(state))]
    columns = list(zip(picked, file_columns(len(picked)), strict=True))
    table = [lake.name, *state.pointer.namespace.split("."), state.pointer.name]
    try:
        with lake.session(state.title()) as session:
            query = sql.copy(table, state.snapshot_id or 0, columns)
            return stack.enter_context(spooled(lake, session, query, state.pointer.namespace))
    except (Py4JJavaError, PySparkException) as error:
        # Its first line is cut before the file comes, which stands in the whole text.
        raise unreadable_table(
            state, f"{java_message(error)} (Spark, as {reason})\n{error}"
        ) from error


def _metadata_columns(state: TableState) -> list[tuple[str, str]]:
    lineage = _LINEAGE if state.has_row_ids() else ()
    return [*lineage, *(() if state.hides_places() else _PLACES)]


def _columns(
    state: TableState, fields: Sequence[Json], there: Sequence[Json], names: Mapping[int, str]
) -> list[tuple[str, str]]:
    """Columns with the names and types that `iceberg_scan` gives them; `names` are those there."""
    stored = {field["id"]: field["type"] for field in there}
    columns = []
    for found in fields:
        kind = duckdb_type(state.codec.storage_schema.field(found["name"]))
        if found["id"] in names:
            value = identifier(names[found["id"]])
            made = queries.as_type(reshaped(value, stored[found["id"]], found["type"]), kind)
        else:
            default = found.get("initial-default")
            made = queries.constant(None if default is None else str(default), kind)
        columns.append((made, found["name"]))
    return columns
