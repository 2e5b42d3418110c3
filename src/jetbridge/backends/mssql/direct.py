"""Loads that one connection does in one transaction."""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from jetbridge.backends.mssql.connect import Loading
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.load import Goal, load, retried
from jetbridge.errors import ServerError, Unavailable
from jetbridge.sqltext import tsql_load


class Rows(Protocol):
    """They may be read again."""

    rows: int

    def batches(self) -> Iterator[pa.RecordBatch]: ...


def load_directly(database: Database, goal: Goal, source: Rows, *, alone: bool) -> None:
    """All rows or none. `alone`: the table was empty, and nobody else writes it.

    If the answer to COMMIT is lost, only the rows tell whether it has happened; in a table with
    others among them nobody can know, and that is said.
    """
    committing = False

    def once(connection: Loading) -> None:
        nonlocal committing
        if committing and alone and _count(connection, goal) == source.rows:
            return
        committing = False
        with connection.transaction():
            batches = (batch.select(names) for batch in source.batches())
            done = load(connection, goal, batches, database.settings)
            if done != source.rows:
                raise ServerError(f"{done} of {source.rows} rows were loaded into {goal.table}")
            committing = True

    def known(connection: Loading) -> None:
        try:
            once(connection)
        except Unavailable as error:
            if committing and not alone:
                raise _unknown(goal) from error
            raise

    names = [each.name for each in goal.columns]
    if source.rows:
        retried(database.server, known)


def _count(connection: Loading, goal: Goal) -> int:
    ((rows,),) = connection.run(tsql_load.count_rows(goal.table))
    return int(rows)


def _unknown(goal: Goal) -> ServerError:
    return ServerError(
        f"the connection was lost while the rows of {goal.table} were being committed: all of them "
        "are there, or none; look before you run the statement again"
    )
