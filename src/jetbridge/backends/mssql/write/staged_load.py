"""Loads rows into a staging table first, with Spark tasks if there are many, then publishes them.

The ledger records which parts are loaded, and that the rows are published.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

import pyarrow as pa

from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.connection.sql_connection import SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.bulk_load import (
    Batches,
    LoadTarget,
    LoadTask,
    load,
    load_directly,
    load_parts,
)
from jetbridge.backends.mssql.write.driver_batches import BulkColumn
from jetbridge.backends.mssql.write.load_tables import LoadTables, run_load
from jetbridge.backends.mssql.write.spool import SpoolPart, group_parts
from jetbridge.backends.mssql.write.transactions import (
    Commit,
    StatementTimeout,
    retry_on_core,
    retry_on_odbc,
    run_in_transaction,
)
from jetbridge.dialects.tsql import load as load_sql
from jetbridge.errors import (
    DuplicateKey,
    FailedPrecondition,
    ServerError,
    Unavailable,
    error_from_text,
)
from jetbridge.spark.engine import SparkEngine
from jetbridge.spark.errors import is_from_spark, java_message
from jetbridge.spark.shared_folders import check_shared

# The number of the part that records in the ledger that the rows are published.
_PUBLISHED = -1
_JOBS = 4
# The rows of one transaction: each takes some round trips, and is loaded again if it fails.
_TASK_ROWS = 1_000_000
# The last line of a worker's traceback; the others are indented.
_RAISED = re.compile(r"^Traceback .*\n(?:[ \t].*\n)+(\S.*)$", re.MULTILINE)
_WORKER_LOST = "Python worker exited unexpectedly"
_BULK = MssqlSettings()
_BY_INSERT = replace(_BULK, ctas_use_bcp=False)


class RowSource(Protocol):
    """Read all rows of a statement, several times if necessary.

    `parts` are the files for Spark tasks.
    """

    rows: int
    parts: list[SpoolPart]

    @property
    def size(self) -> int: ...

    def to_files(self) -> None: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


Publish = Callable[[SqlConnection, str], None]


def stage_and_publish(
    database: Database,
    schema: str,
    title: str,
    columns: Sequence[BulkColumn],
    source: RowSource,
    publish: Publish,
) -> None:
    """Load all rows into a staging table, and call `publish` with its name in a transaction.

    A small number of rows is loaded into a temporary table of one connection. If the driver's
    timeout ends that, the rows are loaded into a staging table, too.
    """

    def work(connection: CoreConnection) -> None:
        with stage_rows(database.server, connection, columns, source.batches, source.rows) as rows:
            publish(connection, rows)

    if not uses_staging_table(database, schema, source):
        try:
            run_in_transaction(database.server, title, work)
        except StatementTimeout as error:
            if not _may_stage(database, schema):
                raise StatementTimeout(
                    f"{error}; a login with the rights CREATE TABLE and ALTER on the schema has no "
                    "such limit"
                ) from None
        else:
            return
    _stage_in_table(database, schema, columns, source, publish)


@contextmanager
def stage_rows(
    server: ConnectionPool,
    connection: CoreConnection,
    columns: Sequence[BulkColumn],
    batches: Batches,
    rows: int,
) -> Iterator[str]:
    """Load rows into a temporary table within the caller's transaction, and yield its name.

    Babelfish does not support bulk copy into temporary tables.
    """
    settings = _BY_INSERT if server.is_babelfish() else _BULK
    types = [(column.name, column.sql_type) for column in columns]
    connection.run(load_sql.create_staging(load_sql.TEMPORARY, types))
    staged = load(connection, LoadTarget(load_sql.TEMPORARY, tuple(columns)), batches, settings)
    if staged != rows:
        raise ServerError(f"{staged} of {rows} rows were staged")
    yield load_sql.TEMPORARY
    connection.run(load_sql.drop_temporary(load_sql.TEMPORARY))


def uses_staging_table(database: Database, schema: str, source: RowSource) -> bool:
    """Return whether a staging table is used: for many rows, if the login may create tables."""
    return is_large(database, source) and _may_stage(database, schema)


def _may_stage(database: Database, schema: str) -> bool:
    return database.server.query(load_sql.check_create_right(schema)) == [(1,)]


def _stage_in_table(
    database: Database,
    schema: str,
    columns: Sequence[BulkColumn],
    source: RowSource,
    publish: Publish,
) -> None:
    """Stage rows in a table with a ledger. `publish` then has no time limit."""
    with run_load(database, schema) as tables:
        with database.server.borrow_core() as connection:
            types = [(column.name, column.sql_type) for column in columns]
            connection.run(load_sql.create_staging(tables.staging, types))
            connection.run(load_sql.create_ledger(schema, tables.ledger_name))
        lock = database.settings.copy_tablock != "off"
        target = LoadTarget(tables.staging, tuple(columns), lock=lock)
        fill_staging_table(database, tables, target, source)
        publish_once(database, tables, lambda connection: publish(connection, tables.staging))


def fill_staging_table(
    database: Database, tables: LoadTables, target: LoadTarget, source: RowSource
) -> None:
    """Load every row once into the staging table, which exists already, as does the ledger."""
    if is_large(database, source):
        source.to_files()
        load_with_spark(database, tables, target, source.parts)
    else:
        load_directly(database, target, source, alone=True)


def load_with_spark(
    database: Database, tables: LoadTables, target: LoadTarget, parts: Sequence[SpoolPart]
) -> None:
    """Load the parts into the staging table with Spark tasks.

    Each part is one transaction and one row of the ledger.
    """
    task = LoadTask(database.server.address, target, tables.ledger, database.settings)
    if database.engine is None:
        raise FailedPrecondition(
            f"Spark cannot load rows into {target.table}, because no catalog of this session uses "
            "Spark; raise mssql_direct_load_rows and mssql_direct_load_bytes"
        )
    with database.engine.session() as session:
        check_shared(session, database.options.spool_folder())
        cores = int(session.spark.sparkContext.defaultParallelism)
    writers = database.settings.copy_parallel_writers or cores
    rows = sum(part.rows for part in parts)
    groups = group_parts(parts, writers * -(-rows // (writers * _TASK_ROWS)))
    _run_tasks(database.engine, task, groups, database.settings.copy_parallel_writers)
    expected = (len(groups), rows)
    ((loaded_parts, loaded_rows),) = retry_on_core(
        database.server, lambda connection: connection.run(load_sql.sum_ledger(tables.ledger))
    )
    if (loaded_parts, loaded_rows) != expected:
        raise ServerError(
            f"the ledger has {loaded_parts} parts and {loaded_rows} rows instead of {expected[0]} "
            f"and {rows}"
        )


def publish_once(
    database: Database, tables: LoadTables, work: Callable[[SqlConnection], None]
) -> None:
    """Run `work` once. Its transaction also records it in the ledger, where a retry finds it."""
    commit = Commit(tables.schema)

    def once(connection: SqlConnection) -> None:
        if not connection.run(load_sql.find_table(tables.schema, tables.ledger_name)):
            raise _missing_tables(tables)
        try:
            with commit.trying(), connection.transaction(commit.begin):
                connection.run(load_sql.note_part(tables.ledger, _PUBLISHED, 0))
                commit.resolve()  # the lost COMMIT would have recorded its part
                work(connection)
        except DuplicateKey:
            if not connection.run(load_sql.find_part(tables.ledger, _PUBLISHED)):
                raise

    with commit.unknown_if_lost():
        retry_on_odbc(database.server, once)


def is_large(database: Database, source: RowSource) -> bool:
    """Return whether Spark loads the rows."""
    settings = database.settings
    large = source.rows > settings.direct_load_rows or source.size > settings.direct_load_bytes
    return database.engine is not None and large


def _missing_tables(tables: LoadTables) -> ServerError:
    return ServerError(
        f"the tables of load {tables.name} were dropped by another session while it ran; check the "
        "table before you run the statement again"
    )


def _run_tasks(
    engine: SparkEngine, task: LoadTask, parts: Sequence[SpoolPart], writers: int
) -> None:
    """Run a task for each part, or for each writer if their number is set.

    On one machine, Spark tries a task only once. A job that has lost a worker is run again; it does
    not load the parts that are in the ledger.
    """
    tasks = min(writers, len(parts)) or len(parts)
    for left in reversed(range(_JOBS)):
        with engine.session() as session:
            try:
                rows = session.spark.sparkContext.parallelize(list(parts), tasks)
                rows.mapPartitions(partial(load_parts, task)).collect()
            except Exception as error:
                if not left or not _has_lost_worker(error):
                    raise _cause(error) from error
            else:
                return


def _has_lost_worker(error: Exception) -> bool:
    return is_from_spark(error) and _WORKER_LOST in str(error)


def _cause(error: Exception) -> Exception:
    """Return the error that a worker raised, without Spark's text around it."""
    if not is_from_spark(error):
        return error
    raised = error_from_text(str(error))
    if raised is not None:
        return raised
    reason = _RAISED.search(str(error))
    return Unavailable(
        f"Spark could not load the rows: {reason[1] if reason else java_message(error)}"
    )
