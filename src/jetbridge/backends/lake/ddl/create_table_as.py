"""Runs CREATE TABLE AS: the rows are written first, then table and rows appear in one step.

On Spark, the rows are written into a spool table, whose data files lie where those of the new table
belong; then the new table appears with these files. A query that fails creates nothing, and a task
that runs again leaves no row twice: Iceberg takes only the files that successful tasks reported.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pyarrow as pa

from jetbridge.backends.lake.ddl.create_table import TableCreation, begin_create_table
from jetbridge.backends.lake.parquet_writer import DataWriter
from jetbridge.backends.lake.warehouse.spool_tables import (
    list_files,
    parse_schema,
    refuse_lost_files,
    remove_folder,
    spool_table,
    with_optional_fields,
)
from jetbridge.backends.lake.write.publisher import Publisher, executor_failures
from jetbridge.backends.tables.column_mapping import map_insert_columns
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.catalog import CreateTable, DMLResult, Filled, Write
from jetbridge.dialects import spark as sql
from jetbridge.errors import ConstraintViolation, ServerError
from jetbridge.spark.written_rows import rows_in_table

# Spark needs the type of these columns, because it computes in another one.
_SPARK_TYPES = {"int": "INT", "string": "STRING"}


@contextmanager
def creating(publisher: Publisher, namespace: str, request: CreateTable) -> Iterator[Write]:
    """Write rows of a new table, and publish it with them when the block ends."""
    with begin_create_table(publisher, namespace, request) as creation:
        writer = publisher.new_writer(creation.data_folder, creation.codec.storage_schema)
        try:
            yield _write_into(creation, writer)
            files = creation.files(writer.close())
        except BaseException:
            writer.abandon()
            raise
        publish_or_abandon(creation, files, writer.abandon)


def publish_or_abandon(
    creation: TableCreation, files: list[Any], abandon: Callable[[], None]
) -> None:
    """Publish the table; remove its files if it was refused, or leave them to the sweeper."""
    try:
        creation.publish(files)
    except ServerError as error:
        if not error.retryable:
            abandon()
        raise


def _write_into(creation: TableCreation, writer: DataWriter) -> Write:
    schema = creation.definition.schema

    def write(batch: pa.RecordBatch) -> DMLResult:
        if batch.num_rows:
            mapping = map_insert_columns(batch.schema, schema, creation.title)
            columns = mapping.convert(batch, writer.rows)
            stored = pa.RecordBatch.from_arrays(columns, schema=schema)
            check_rows(creation.definition, creation.title, [stored])
            writer.add(creation.codec.to_storage(stored, writer.rows))
        return DMLResult(batch.num_rows)

    return write


def create_on_spark(
    publisher: Publisher, namespace: str, request: CreateTable, query: str
) -> Filled:
    """Create a table from a query in Spark SQL; returns its rows and bytes."""
    warehouse = publisher.warehouse
    with begin_create_table(publisher, namespace, request) as creation, _job(creation):
        # A folder of its own can be removed at once, whoever wrote what into it.
        folder = f"{creation.data_folder}/{warehouse.file_prefix()}-{uuid4().hex[:12]}"
        with _spool(creation, folder) as (name, table):
            try:
                files = _spool_query(creation, name, table, query)
            except BaseException:
                remove_folder(warehouse, folder)
                raise
            publish_or_abandon(creation, files, lambda: remove_folder(warehouse, folder))
    return Filled(
        sum(int(file.recordCount()) for file in files),
        sum(int(file.fileSizeInBytes()) for file in files),
    )


def _spool_query(creation: TableCreation, name: str, table: Any, query: str) -> list[Any]:
    """Return the files with the rows of the query."""
    columns = [(field.name, _SPARK_TYPES.get(str(field.type), "")) for field in creation.fields]
    creation.session.check_query(query)
    insert = creation.session.sql(sql.fill(name, columns, query))
    table.refresh()
    files = list_files(table)
    rows = rows_in_table(insert)
    refuse_lost_files(creation.publisher.warehouse, files, rows, creation.data_folder)
    _refuse_null(creation, files)
    return files


@contextmanager
def _job(creation: TableCreation) -> Iterator[None]:
    """Note the job, so that what a failure leaves in the folder of the table is swept."""
    publisher = creation.publisher
    if creation.replaced is not None:
        with publisher.run_job(creation.replaced):
            yield
        return
    # Until a new table is published, its whole folder is noted.
    began, before = time.time(), executor_failures(creation.session)
    yield
    if executor_failures(creation.session) - before:
        state = publisher.tables.load(creation.namespace, creation.name)
        publisher.warehouse.lock.doubt(state.identity, state.title(), began)


@contextmanager
def _spool(creation: TableCreation, data: str) -> Iterator[tuple[str, Any]]:
    warehouse, session = creation.publisher.warehouse, creation.session
    schema = parse_schema(session, with_optional_fields(creation.fields))
    properties = {"write.data.path": data}
    with spool_table(warehouse, session, creation.namespace, schema, properties) as (name, table):
        _keep_ids(table, schema)
        yield name, table


def _keep_ids(table: Any, schema: Any) -> None:
    """Give a spool table the ids of the schema: a new table numbers its columns from 1."""
    if table.schema().asStruct().equals(schema.asStruct()):
        return
    operations = table.operations()
    base = operations.current()
    operations.commit(base, base.updateSchema(schema))
    table.refresh()


def _refuse_null(creation: TableCreation, files: list[Any]) -> None:
    required = {field.id: field.name for field in creation.fields if field.required}
    for file in files:
        nulls = dict(file.nullValueCounts() or {})
        for number, name in required.items():
            if nulls.get(number, 0):
                raise ConstraintViolation(f"NOT NULL constraint failed: {creation.title}.{name}")
