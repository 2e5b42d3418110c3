"""Loads beside a table: a staging table is filled, by Spark's tasks if the rows are many.

The ledger says when it is complete.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import CoreConnection, SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.write.bulk_load import (
    Commit,
    LoadTarget,
    StatementTimeout,
    in_one_transaction,
    retried,
    retried_patiently,
)
from jetbridge.backends.mssql.write.direct_load import load_directly
from jetbridge.backends.mssql.write.driver_batches import BulkColumn
from jetbridge.backends.mssql.write.load_tables import LoadTables, running
from jetbridge.backends.mssql.write.spark_tasks import LoadTask, load_parts
from jetbridge.backends.mssql.write.spool import SpoolPart, grouped
from jetbridge.backends.mssql.write.temporary_table import staged
from jetbridge.dialects.tsql import load
from jetbridge.errors import DuplicateKey, FailedPrecondition, ServerError, Unavailable
from jetbridge.spark.engine import SparkEngine
from jetbridge.spark.errors import is_from_spark, java_message
from jetbridge.spark.shared_folders import refuse_unshared

# What the ledger notes when the rows are where they belong.
_PUBLISHED = -1
_JOBS = 4
# Of one transaction: each costs the server some round trips, and what fails is loaded again.
_TASK_ROWS = 1_000_000
# The last line of a worker's traceback, whose others are indented.
_RAISED = re.compile(r"^Traceback .*\n(?:[ \t].*\n)+(\S.*)$", re.MULTILINE)
_WORKER_LOST = "Python worker exited unexpectedly"


class RowSource(Protocol):
    """Rows that are complete and may be read again; `parts` are files, for Spark's tasks."""

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
    """All rows into a staging table; then `publish`, which is given its name, in a transaction.

    Few rows go into a temporary table of one connection, unless that takes the server too long.
    """

    def work(connection: CoreConnection) -> None:
        with staged(database.server, connection, columns, source.batches, source.rows) as rows:
            publish(connection, rows)

    if not goes_beside(database, schema, source):
        try:
            in_one_transaction(database.server, title, work)
        except StatementTimeout as error:
            if not _may_stage(database, schema):
                raise StatementTimeout(
                    f"{error}; for a login that may CREATE TABLE, and ALTER the schema, there is "
                    "no such limit"
                ) from None
        else:
            return
    _load_beside(database, schema, columns, source, publish)


def goes_beside(database: Database, schema: str, source: RowSource) -> bool:
    """A login without the right to create tables loads on one connection."""
    return is_large(database, source) and _may_stage(database, schema)


def _may_stage(database: Database, schema: str) -> bool:
    return database.server.ask(load.may_create(schema)) == [(1,)]


def _load_beside(
    database: Database,
    schema: str,
    columns: Sequence[BulkColumn],
    source: RowSource,
    publish: Publish,
) -> None:
    """What publishes may take as long as it likes."""
    with running(database, schema) as run:
        with database.server.loading() as connection:
            made = [(each.name, each.kind) for each in columns]
            connection.run(load.staging(run.staging, made))
            connection.run(load.create_ledger(schema, run.ledger_name))
        lock = database.settings.copy_tablock != "off"
        fill(database, run, LoadTarget(run.staging, tuple(columns), lock=lock), source)
        publish_once(database, run, lambda connection: publish(connection, run.staging))


def fill(database: Database, run: LoadTables, goal: LoadTarget, source: RowSource) -> None:
    """Every row into the staging table, once; it and the ledger are there."""
    if is_large(database, source):
        source.to_files()
        stage(database, run, goal, source.parts)
    else:
        load_directly(database, goal, source, alone=True)


def stage(
    database: Database, run: LoadTables, goal: LoadTarget, parts: Sequence[SpoolPart]
) -> None:
    """The same by tasks of Spark."""
    order = LoadTask(database.server.address, goal, run.ledger, database.settings)
    if database.engine is None:
        raise FailedPrecondition("there is no Spark to load with")
    with database.engine.session() as session:
        refuse_unshared(session, database.options.spool_folder())
        cores = int(session.spark.sparkContext.defaultParallelism)
    writers = database.settings.copy_parallel_writers or cores
    rows = sum(part.rows for part in parts)
    groups = grouped(parts, writers * -(-rows // (writers * _TASK_ROWS)))
    _run_tasks(database.engine, order, groups, database.settings.copy_parallel_writers)
    wanted = (len(groups), rows)
    ((noted, loaded),) = retried(
        database.server, lambda connection: connection.run(load.sum_ledger(run.ledger))
    )
    if (noted, loaded) != wanted:
        raise ServerError(f"the ledger has {noted} parts and {loaded} rows instead of {wanted}")


def publish_once(
    database: Database, run: LoadTables, work: Callable[[SqlConnection], None]
) -> None:
    """In a transaction with a note in the ledger, by which a second try sees that it is done."""
    commit = Commit(run.schema)

    def once(connection: SqlConnection) -> None:
        if not connection.run(load.find_table(run.schema, run.ledger_name)):
            raise _gone(run)
        try:
            with commit.trying(), connection.transaction(commit.begin):
                connection.run(load.note_part(run.ledger, _PUBLISHED, 0))
                commit.found()  # what was noted before would be there
                work(connection)
        except DuplicateKey:
            if not connection.run(load.find_part(run.ledger, _PUBLISHED)):
                raise

    with commit.unknown_if_lost():
        retried_patiently(database.server, once)


def is_large(database: Database, source: RowSource) -> bool:
    """Whether Spark loads it."""
    settings = database.settings
    many = source.rows > settings.direct_load_rows or source.size > settings.direct_load_bytes
    return database.engine is not None and many


def _gone(run: LoadTables) -> ServerError:
    return ServerError(
        f"someone else has dropped the tables of the load {run.name} before its end: look before "
        "you run the statement again"
    )


def _run_tasks(
    engine: SparkEngine, order: LoadTask, parts: Sequence[SpoolPart], writers: int
) -> None:
    """One task for each part, or for each writer where their number is set.

    On one machine Spark tries a task once; a job that has lost a worker may be run again, for what
    is in the ledger is not loaded again.
    """
    tasks = min(writers, len(parts)) or len(parts)
    for left in reversed(range(_JOBS)):
        with engine.session() as session:
            try:
                rows = session.spark.sparkContext.parallelize(list(parts), tasks)
                rows.mapPartitions(partial(load_parts, order)).collect()
            except Exception as error:
                if not left or not _has_lost_worker(error):
                    raise _cause(error) from error
            else:
                return


def _has_lost_worker(error: Exception) -> bool:
    return is_from_spark(error) and _WORKER_LOST in str(error)


def _cause(error: Exception) -> Exception:
    """What a worker raised, without what Spark says around it."""
    if not is_from_spark(error):
        return error
    for line in str(error).splitlines():
        name, _, message = line.strip().partition(": ")
        if name.startswith(("jetbridge.errors.", "jetbridge.backends.mssql.")):
            return _again(name.rpartition(".")[2], message)
    reason = _RAISED.search(str(error))
    return Unavailable(
        f"Spark could not load the rows: {reason[1] if reason else java_message(error)}"
    )


def _again(name: str, message: str) -> ServerError:
    import jetbridge.errors as known  # noqa: PLC0415 - by name

    made = getattr(known, name, ServerError)
    try:
        found: ServerError = made(message)
    except TypeError:  # those that are made of several words
        found = ServerError(message)
    return found
