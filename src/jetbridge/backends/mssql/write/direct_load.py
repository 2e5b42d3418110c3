"""Loads that one connection does in one transaction."""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import CoreConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, in_one_transaction, load
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.errors import ServerError


class Rows(Protocol):
    """They may be read again."""

    rows: int

    def batches(self) -> Iterator[pa.RecordBatch]: ...


def load_directly(database: Database, goal: LoadTarget, source: Rows, *, alone: bool) -> None:
    """All rows or none. `alone`: the table was empty, and nobody else should write it.

    If the answer to COMMIT is lost, only the rows tell whether it has happened; in a table with
    others among them nobody can know, and that is said.
    """

    def work(connection: CoreConnection) -> None:
        done = load(connection, goal, source.batches, database.settings)
        if done != source.rows:
            raise ServerError(f"{done} of {source.rows} rows were loaded into {goal.table}")

    def happened(connection: CoreConnection) -> bool | None:
        ((rows,),) = connection.run(tsql_load.count_locked(goal.table))
        return {0: False, source.rows: True}.get(rows)

    if source.rows:
        in_one_transaction(database.server, goal.table, work, happened if alone else None)
