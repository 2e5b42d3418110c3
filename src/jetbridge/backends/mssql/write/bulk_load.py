"""Loads rows into a table on one connection: by bulk copy, or by INSERT statements.

In Spark's workers, one transaction loads a part and records it in the ledger.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.pool import ConnectionPool, worker_pool
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.errors import DUPLICATE_KEY, UNKNOWN_COLUMN, server_number
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.code_pages import CodePages
from jetbridge.backends.mssql.write.driver_batches import BulkColumn, convert_batches, driver_schema
from jetbridge.backends.mssql.write.spool import SpoolPart
from jetbridge.backends.mssql.write.transactions import retry_on_core, run_in_transaction
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.dialects.tsql.statements import constants
from jetbridge.duckdb_engine.sandbox import DATA, query
from jetbridge.errors import BadRequest, DuplicateKey, ServerError


@dataclass(frozen=True)
class LoadTarget:
    """Hold the quoted name of a table, and the columns that a load writes."""

    table: str
    columns: tuple[BulkColumn, ...]
    lock: bool = False
    identity: bool = False


Batches = Callable[[], Iterable[pa.RecordBatch]]


class _RowSplitter:
    """Split rows into those that bulk copy encodes correctly, and those that need INSERT."""

    def __init__(self, connection: CoreConnection, target: LoadTarget, batches: Batches) -> None:
        self._pages = CodePages(connection.run, target.columns)
        self._names = [column.name for column in target.columns]
        self._batches = batches
        self.was_read = self.has_rest = False

    def may_lock(self, target: LoadTarget) -> bool:
        """Return whether to lock the table. Bulk loads share the lock, INSERT statements do not."""
        return target.lock and self._pages.are_encoded_correctly()

    def bulk_rows(self) -> Iterator[pa.RecordBatch]:
        for batch, needs_insert in self._split():
            self.was_read = True
            if needs_insert is None:
                yield batch
            else:
                self.has_rest = True
                yield batch.filter(pc.invert(needs_insert))

    def rest(self) -> Iterator[pa.RecordBatch]:
        for batch, needs_insert in self._split():
            if needs_insert is not None:
                yield batch.filter(needs_insert)

    def all_rows(self) -> Iterator[pa.RecordBatch]:
        for batch, _ in self._split():
            yield batch

    def _split(self) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
        first_row = 0
        for all_columns in self._batches():
            batch = all_columns.select(self._names)
            yield batch, self._pages.find_miscoded(batch, first_row)
            first_row += batch.num_rows


def load(
    connection: CoreConnection, target: LoadTarget, batches: Batches, settings: MssqlSettings
) -> int:
    """Load rows within the caller's transaction, and return their number.

    Batches may have more columns than needed. They may be read twice, because INSERT statements
    load the rows that bulk copy would encode wrongly.
    """
    source = _RowSplitter(connection, target, batches)
    if settings.ctas_use_bcp:
        try:
            rows = _bulk_copy(
                connection, replace(target, lock=source.may_lock(target)), source.bulk_rows()
            )
        except ServerError as error:
            if source.was_read or not _can_insert_instead(connection, error):
                raise
        else:
            rest = _insert(connection, target, source.rest(), settings) if source.has_rest else 0
            return rows + rest
    return _insert(connection, target, source.all_rows(), settings)


def _bulk_copy(
    connection: CoreConnection, target: LoadTarget, batches: Iterable[pa.RecordBatch]
) -> int:
    rows = pa.RecordBatchReader.from_batches(driver_schema(target.columns), batches)
    names = [column.name for column in target.columns]
    return connection.load(target.table, rows, names, lock=target.lock, identity=target.identity)


def _can_insert_instead(connection: CoreConnection, error: ServerError) -> bool:
    """Return whether the server only failed to describe the table to the driver.

    The transaction must still be open, or the INSERT statements would commit by themselves.
    """
    unknown = server_number(error) == UNKNOWN_COLUMN
    return unknown and connection.run(tsql_load.OPEN_TRANSACTIONS) == [(1,)]


def _insert(
    connection: CoreConnection,
    target: LoadTarget,
    batches: Iterable[pa.RecordBatch],
    settings: MssqlSettings,
) -> int:
    if target.identity:
        connection.run(tsql_load.identity_insert(target.table, on=True))
    rows = 0
    for batch in batches:
        for text in _insert_texts(target, batch, settings):
            connection.run(text)
        rows += batch.num_rows
    if target.identity:
        connection.run(tsql_load.identity_insert(target.table, on=False))
    return rows


def _insert_texts(
    target: LoadTarget, batch: pa.RecordBatch, settings: MssqlSettings
) -> Iterator[str]:
    """Yield SQL for each round trip: `insert_batch_size` rows in statements as long as allowed."""
    columns = [(column.name, column.sql_type) for column in target.columns]
    texts = query(constants(DATA, columns), pa.Table.from_batches([batch])).column(0)
    rows = texts.combine_chunks()
    sizes = pc.binary_length(rows).to_numpy(zero_copy_only=False)
    head = tsql_load.begin_insert(target.table, [column.name for column in target.columns])
    for start in range(0, len(rows), settings.insert_batch_size):
        end = min(len(rows), start + settings.insert_batch_size)
        statements = [
            head + ", ".join(rows[a:b].to_pylist())
            for a, b in _cut_rows(sizes, start, end, len(head.encode()), settings)
        ]
        yield "; ".join(statements)


def _cut_rows(
    sizes: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    start: int,
    end: int,
    head: int,
    settings: MssqlSettings,
) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that fit in one statement; `head` is its length without rows."""
    max_rows, max_bytes = settings.insert_max_rows_per_statement, settings.insert_max_sql_bytes
    total = np.cumsum(sizes[start:end] + 2)
    first = 0
    while first < end - start:
        before = total[first - 1] if first else 0
        fitting = int(np.searchsorted(total, before + max_bytes - head, side="right"))
        stop = min(first + max_rows, fitting)
        if stop <= first:
            raise BadRequest(
                f"a row needs {int(sizes[start + first]) + head} bytes of SQL; raise "
                f"mssql_insert_max_sql_bytes, which is {max_bytes}"
            )
        yield start + first, start + stop
        first = stop


class Rows(Protocol):
    """Read the rows of a load, several times if necessary."""

    rows: int

    def batches(self) -> Iterator[pa.RecordBatch]: ...


def load_directly(database: Database, target: LoadTarget, source: Rows, *, alone: bool) -> None:
    """Load all rows or none. With `alone`, the table is empty and no other session writes to it.

    If the answer to COMMIT is lost, the number of rows shows whether it happened. For a table with
    other rows that is unknown, and CommitUnknown is raised.
    """

    def work(connection: CoreConnection) -> None:
        rows = load(connection, target, source.batches, database.settings)
        if rows != source.rows:
            raise ServerError(f"{rows} of {source.rows} rows were loaded into {target.table}")

    def was_committed(connection: CoreConnection) -> bool | None:
        ((rows,),) = connection.run(tsql_load.lock_and_count(target.table))
        return {0: False, source.rows: True}.get(rows)

    if source.rows:
        run_in_transaction(database.server, target.table, work, was_committed if alone else None)


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
