"""What Spark's workers do: each part of a spool in one transaction, noted in the ledger with it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.pool import ConnectionPool, CoreConnection
from jetbridge.backends.mssql.errors import DUPLICATE_KEY, server_number
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, load, retried
from jetbridge.backends.mssql.write.driver_batches import all_converted
from jetbridge.backends.mssql.write.spool import SpoolPart
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.errors import DuplicateKey, ServerError
from jetbridge.spark.workers import forget_archives


@dataclass(frozen=True)
class LoadTask:
    """`goal` is the staging table, `ledger` the quoted name of the other one."""

    address: Address
    goal: LoadTarget
    ledger: str
    settings: MssqlSettings


@cache
def server_of(address: Address) -> ConnectionPool:
    """Kept for as long as the worker lives: a new connection may take a second."""
    return ConnectionPool(address)


def load_parts(order: LoadTask, parts: Iterable[SpoolPart]) -> Iterator[int]:
    """The numbers of the parts that are loaded now, by this attempt or by another."""
    forget_archives()
    for part in parts:
        yield load_part(server_of(order.address), order, part)


def load_part(server: ConnectionPool, order: LoadTask, part: SpoolPart) -> int:
    """Whoever comes second waits for the first at the key of the ledger, and does nothing."""

    def once(connection: CoreConnection) -> int:
        try:
            with connection.transaction():
                connection.run(tsql_load.note_part(order.ledger, part.number, part.rows))
                rows = partial(_rows, order.goal, part)
                done = load(connection, order.goal, rows, order.settings)
                if done != part.rows:
                    raise ServerError(f"{done} of {part.rows} rows of {part.files[0]} were loaded")
        except DuplicateKey as error:
            if server_number(error) not in DUPLICATE_KEY or not _is_noted(connection, order, part):
                raise
        return part.number

    return retried(server, once)


def _is_noted(connection: CoreConnection, order: LoadTask, part: SpoolPart) -> bool:
    return connection.run(tsql_load.find_part(order.ledger, part.number)) == [(part.rows,)]


def _rows(goal: LoadTarget, part: SpoolPart) -> Iterator[pa.RecordBatch]:
    """Our own files are as the driver takes them; those of Spark have its types."""
    if not part.is_ready():
        return all_converted(goal.columns, part.batches())
    return part.batches()
