"""Gives tables to Spark: a task reads each split through the driver into a Parquet file."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.pool import worker_pool
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.read.scan import (
    ScanQuery,
    count_rows,
    list_splits,
    plan_query,
    stream,
)
from jetbridge.catalog import Scan, SparkRelation, TableInfo
from jetbridge.dialects.spark import select_all
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_syntax.types import kind_of
from jetbridge.spark.shared_folders import check_shared
from jetbridge.spark.written_rows import file_columns, readable, refuse_lost

# Types whose values are the same in Spark and DuckDB.
_SHARED_TYPES = frozenset(
    ["BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "BLOB"]
    + ["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]
)
# The size to assume for values of a type without a fixed length.
_DEFAULT_BYTES = 32


def _readable_fields(info: TableInfo) -> list[pa.Field]:
    return [field for field in info.schema if kind_of(duckdb_type(field)) in _SHARED_TYPES]


def spark_relation(
    database: Database, table: TableDescription, info: TableInfo
) -> SparkRelation | None:
    """Return what Spark needs to read a table; None if Spark cannot read any of its columns."""
    fields = _readable_fields(info)
    if not fields:
        return None
    types = {field.name: duckdb_type(field) for field in fields}
    missing = {f.name: duckdb_type(f) for f in info.schema if f.name not in types}
    name = f"jetbridge_{uuid4().hex}"
    width = sum(c.length if c.length > 0 else _DEFAULT_BYTES for c in table.columns)
    size = count_rows(database.server, table) * width
    prepare = partial(_create_view, database, table, info, name)
    return SparkRelation(select_all(name), types, missing, size, prepare)


@contextmanager
def _create_view(
    database: Database,
    table: TableDescription,
    info: TableInfo,
    name: str,
    session: Any,
    scan: Scan,
) -> Iterator[None]:
    """Create a temporary view in Spark. Each split is read on its own connection.

    Spark takes rows from its Python workers one by one, so the workers write files instead.
    """
    fields = _readable_fields(info)
    requested = [f.name for f in fields if scan.columns is None or f.name in scan.columns]
    columns = tuple(requested) or (fields[0].name,)
    queries = [
        plan_query(table, info, None, Scan(columns, scan.filter, split))
        for split in list_splits(database.server, table)
    ]
    schema = pa.schema([pa.field(f.name, f.type) for f in fields])
    check_shared(session, database.options.spool_folder())
    with database.options.report_disk_errors():
        temporary = database.options.new_folder()
        folder = temporary.path / "rows"
        folder.mkdir()
    try:
        write = partial(_write_splits, database.server.address, schema, str(folder))
        tasks = session.spark.sparkContext.parallelize(list(enumerate(queries)), len(queries))
        files = tasks.mapPartitions(write).collect()
        spooled = readable([file for file, _ in files])
        refuse_lost(sum(rows for _, rows in files), spooled.rows, str(folder))
        rows = session.spark.read.parquet(*spooled.names).toDF(*schema.names)
        rows.createOrReplaceTempView(name)
        yield
    finally:
        session.spark.catalog.dropTempView(name)
        temporary.remove()


def _write_splits(
    address: Address, schema: pa.Schema, folder: str, tasks: Iterable[tuple[int, ScanQuery]]
) -> Iterator[tuple[str, int]]:
    """Write a file for each split and attempt in a Spark worker. Yield its name and row count."""
    pool = worker_pool(address)
    columns = file_columns(len(schema))
    file_schema = pa.schema([f.with_name(n) for f, n in zip(schema, columns, strict=True)])
    for number, query in tasks:
        file, rows = Path(folder, f"{number:05d}.{uuid4().hex[:8]}.parquet"), 0
        with pq.ParquetWriter(file, file_schema, compression="lz4") as writer:
            for batch in query.convert(stream(pool, query)):
                arrays = _add_null_columns(batch, schema).columns
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=file_schema))
                rows += batch.num_rows
        yield str(file), rows


def _add_null_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with all columns of the view; those that the query does not read are NULL."""
    names = set(batch.schema.names)
    columns = [
        batch.column(f.name) if f.name in names else pa.nulls(batch.num_rows, f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
