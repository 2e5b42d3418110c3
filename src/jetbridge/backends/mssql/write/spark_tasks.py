"""Loads parts in Spark's workers: one transaction loads a part and records it in the ledger."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.pool import ConnectionPool, worker_pool
from jetbridge.backends.mssql.errors import DUPLICATE_KEY, server_number
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, load
from jetbridge.backends.mssql.write.driver_batches import convert_batches
from jetbridge.backends.mssql.write.spool import SpoolPart
from jetbridge.backends.mssql.write.transactions import retry_on_core
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.errors import DuplicateKey, ServerError


@dataclass(frozen=True)
class LoadTask:
    """Hold what a worker needs to load parts. `ledger` is the quoted name of the ledger table."""

    address: Address
    target: LoadTarget
    ledger: str
    settings: MssqlSettings


def load_parts(task: LoadTask, parts: Iterable[SpoolPart]) -> Iterator[int]:
    """Load parts, and yield the number of each one, even if another attempt has loaded it."""
    pool = worker_pool(task.address)
    for part in parts:
        try:
            yield load_part(pool, task, part)
        except ServerError as error:
            # Spark reports an error as the text of a traceback, so the record goes into it.
            raise RuntimeError(error.to_record()) from error


def load_part(server: ConnectionPool, task: LoadTask, part: SpoolPart) -> int:
    """Load a part once. A second attempt waits for the key in the ledger and loads nothing."""

    def once(connection: CoreConnection) -> int:
        try:
            with connection.transaction():
                connection.run(tsql_load.note_part(task.ledger, part.number, part.rows))
                batches = partial(_batches, task.target, part)
                rows = load(connection, task.target, batches, task.settings)
                if rows != part.rows:
                    raise ServerError(f"{rows} of {part.rows} rows of {part.files[0]} were loaded")
        except DuplicateKey as error:
            if server_number(error) not in DUPLICATE_KEY or not _is_noted(connection, task, part):
                raise
        return part.number

    return retry_on_core(server, once)


def _is_noted(connection: CoreConnection, task: LoadTask, part: SpoolPart) -> bool:
    return connection.run(tsql_load.find_part(task.ledger, part.number)) == [(part.rows,)]


def _batches(target: LoadTarget, part: SpoolPart) -> Iterator[pa.RecordBatch]:
    """Return the batches of a part with the driver's types."""
    if not part.is_converted():
        return convert_batches(target.columns, part.batches())
    return part.batches()
