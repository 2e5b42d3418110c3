"""What Spark's workers do: each part of a spool in one transaction, noted in the ledger with it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.pool import Loading, Server
from jetbridge.backends.mssql.errors import DUPLICATE_KEY, server_number
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.bulk_load import Goal, load, retried
from jetbridge.backends.mssql.write.driver_batches import all_converted
from jetbridge.backends.mssql.write.spool import Part
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.errors import DuplicateKey, ServerError
from jetbridge.spark.workers import forget_archives


@dataclass(frozen=True)
class Order:
    """`goal` is the staging table, `ledger` the quoted name of the other one."""

    address: Address
    goal: Goal
    ledger: str
    settings: MssqlSettings


@cache
def server_of(address: Address) -> Server:
    """Kept for as long as the worker lives: a new connection may take a second."""
    return Server(address)


def load_parts(order: Order, parts: Iterable[Part]) -> Iterator[int]:
    """The numbers of the parts that are loaded now, by this attempt or by another."""
    forget_archives()
    for part in parts:
        yield load_part(server_of(order.address), order, part)


def load_part(server: Server, order: Order, part: Part) -> int:
    """Whoever comes second waits for the first at the key of the ledger, and does nothing."""

    def once(connection: Loading) -> int:
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


def _is_noted(connection: Loading, order: Order, part: Part) -> bool:
    return connection.run(tsql_load.find_part(order.ledger, part.number)) == [(part.rows,)]


def _rows(goal: Goal, part: Part) -> Iterator[pa.RecordBatch]:
    """Our own files are as the driver takes them; those of Spark have its types."""
    if not part.is_ready():
        return all_converted(goal.columns, part.batches())
    return part.batches()
