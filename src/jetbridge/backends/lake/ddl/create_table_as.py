"""CREATE TABLE AS: the rows are written first, then table and rows appear in one step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from jetbridge.backends.lake.ddl.create_table import TableCreation, begin_create_table
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.parquet_writer import DataWriter
from jetbridge.backends.tables.column_mapping import map_insert_columns
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.catalog import CreateTable, DMLResult, Write
from jetbridge.errors import ServerError


@contextmanager
def creating(lake: Lake, namespace: str, request: CreateTable) -> Iterator[Write]:
    with begin_create_table(lake, namespace, request) as made:
        writer = DataWriter(lake.files, made.data_folder, lake.prefix(), made.codec.storage_schema)
        try:
            yield _writing(made, writer)
            files = made.files(writer.close())
        except BaseException:
            writer.abandon()
            raise
        publish_or_abandon(made, files, writer.abandon)


def publish_or_abandon(
    made: TableCreation, files: list[object], abandon: Callable[[], None]
) -> None:
    """Files of a table that was refused go at once; if nobody knows, the sweeper finds out."""
    try:
        made.publish(files)
    except ServerError as error:
        if not error.retryable:
            abandon()
        raise


def _writing(made: TableCreation, writer: DataWriter) -> Write:
    schema = made.definition.schema

    def write(batch: pa.RecordBatch) -> DMLResult:
        if batch.num_rows:
            mapping = map_insert_columns(batch.schema, schema, made.title)
            columns = mapping.convert(batch, writer.rows)
            stored = pa.RecordBatch.from_arrays(columns, schema=schema)
            check_rows(made.definition, made.title, [stored])
            writer.add(made.codec.to_storage(stored, writer.rows))
        return DMLResult(batch.num_rows)

    return write
