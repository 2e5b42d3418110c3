"""Tables as Spark reads them: a task for each range of the key, through the driver's Arrow."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.read.scan import ScanQuery, count, parts, question, stream
from jetbridge.backends.mssql.write.spark_tasks import server_of
from jetbridge.backends.mssql.write.spool import new_folder, on_disk
from jetbridge.catalog import Scan, SparkRelation, TableInfo
from jetbridge.dialects.spark import everything
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_syntax.types import kind_of
from jetbridge.spark.shared_folders import refuse_unshared
from jetbridge.spark.workers import forget_archives
from jetbridge.spark.written_rows import file_columns, readable, refuse_lost

# Spark and DuckDB have the same values of them.
_SAME = frozenset(
    ["BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "BLOB"]
    + ["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]
)
# What a value takes where its type does not say.
_GUESSED_BYTES = 32


def _same(info: TableInfo) -> list[pa.Field]:
    return [field for field in info.schema if kind_of(duckdb_type(field)) in _SAME]


def spark_relation(
    database: Database, table: TableDescription, info: TableInfo
) -> SparkRelation | None:
    """None for a table of which Spark has no column."""
    same = _same(info)
    if not same:
        return None
    types = {field.name: duckdb_type(field) for field in same}
    missing = {f.name: duckdb_type(f) for f in info.schema if f.name not in types}
    name = f"jetbridge_{uuid4().hex}"
    width = sum(each.length if each.length > 0 else _GUESSED_BYTES for each in table.columns)
    size = count(database.server, table) * width
    prepare = partial(_view, database, table, info, name)
    return SparkRelation(everything(name), types, missing, size, prepare)


@contextmanager
def _view(
    database: Database,
    table: TableDescription,
    info: TableInfo,
    name: str,
    session: Any,
    scan: Scan,
) -> Iterator[None]:
    """A temporary view of Spark; each part is read on a connection, at a moment, of its own.

    Spark could take the rows from its Python workers one by one only, so they go into files.
    """
    same = _same(info)
    wanted = [f.name for f in same if scan.columns is None or f.name in scan.columns]
    columns = tuple(wanted) or (same[0].name,)
    questions = [
        question(table, info, None, Scan(columns, scan.filter, part))
        for part in parts(database.server, table)
    ]
    schema = pa.schema([pa.field(f.name, f.type) for f in same])
    refuse_unshared(session, database.options.spool_folder())
    with on_disk(database.options):
        place = new_folder(database.options)
        folder = place.path / "rows"
        folder.mkdir()
    try:
        write = partial(_written, database.server.address, schema, str(folder))
        tasks = session.spark.sparkContext.parallelize(list(enumerate(questions)), len(questions))
        files = tasks.mapPartitions(write).collect()
        there = readable([file for file, _ in files])
        refuse_lost(sum(rows for _, rows in files), there.rows, str(folder))
        rows = session.spark.read.parquet(*there.names).toDF(*schema.names)
        rows.createOrReplaceTempView(name)
        yield
    finally:
        session.spark.catalog.dropTempView(name)
        place.remove()


def _written(
    address: Address, schema: pa.Schema, folder: str, tasks: Iterable[tuple[int, ScanQuery]]
) -> Iterator[tuple[str, int]]:
    """In Spark's workers: a file for each part and attempt, and how many rows it has."""
    forget_archives()
    columns = file_columns(len(schema))
    made = pa.schema([f.with_name(n) for f, n in zip(schema, columns, strict=True)])
    for number, asked in tasks:
        file, rows = Path(folder, f"{number:05d}.{uuid4().hex[:8]}.parquet"), 0
        with pq.ParquetWriter(file, made, compression="lz4") as writer:
            for batch in asked.conformed(stream(server_of(address), asked)):
                arrays = _padded(batch, schema).columns
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=made))
                rows += batch.num_rows
        yield str(file), rows


def _padded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """All columns of the view; NULL for those that nobody reads."""
    there = set(batch.schema.names)
    columns = [
        batch.column(f.name) if f.name in there else pa.nulls(batch.num_rows, f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
