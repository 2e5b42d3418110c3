"""Large loads: Spark's tasks fill a staging table, the ledger says when it is complete."""

from collections.abc import Sequence
from functools import partial

from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.leftovers import Run
from jetbridge.backends.mssql.load import Goal
from jetbridge.backends.mssql.spool import Part
from jetbridge.backends.mssql.task import Order, load_parts
from jetbridge.errors import FailedPrecondition, ServerError, Unavailable
from jetbridge.spark.engine import SparkEngine
from jetbridge.spark.errors import is_from_spark
from jetbridge.sqltext import tsql_load


def stage(database: Database, run: Run, goal: Goal, parts: Sequence[Part]) -> None:
    """Every row of the parts into the staging table, once; it and the ledger are there."""
    order = Order(database.server.address, goal, run.ledger, database.settings)
    if database.engine is None:
        raise FailedPrecondition("there is no Spark to load with")
    _run_tasks(database.engine, order, parts, database.settings.copy_parallel_writers)
    wanted = (len(parts), sum(part.rows for part in parts))
    with database.server.loading() as connection:
        ((noted, rows),) = connection.run(tsql_load.sum_ledger(run.ledger))
    if (noted, rows) != wanted:
        raise ServerError(f"the ledger has {noted} parts and {rows} rows instead of {wanted}")


def _run_tasks(engine: SparkEngine, order: Order, parts: Sequence[Part], writers: int) -> None:
    """One task for each part, or for each writer where their number is set."""
    tasks = min(writers, len(parts)) or len(parts)
    with engine.session() as session:
        try:
            rows = session.spark.sparkContext.parallelize(list(parts), tasks)
            rows.mapPartitions(partial(load_parts, order)).collect()
        except Exception as error:
            raise _cause(error) from error


def _cause(error: Exception) -> Exception:
    """What a worker raised, without what Spark says around it."""
    if not is_from_spark(error):
        return error
    for line in str(error).splitlines():
        name, _, message = line.strip().partition(": ")
        if name.startswith("jetbridge.errors."):
            return _again(name.rpartition(".")[2], message)
    return Unavailable(f"Spark could not load the rows: {str(error).splitlines()[0][:300]}")


def _again(name: str, message: str) -> ServerError:
    import jetbridge.errors as known  # noqa: PLC0415 - by name

    made = getattr(known, name, ServerError)
    try:
        found: ServerError = made(message)
    except TypeError:  # those that are made of several words
        found = ServerError(message)
    return found
