"""Runs INSERT: spools rows and loads them at the end. With RETURNING it inserts batch by batch."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.connection.sql_connection import SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.errors import name_errors
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.metadata.row_ids import RowIds, row_ids
from jetbridge.backends.mssql.types import (
    ServerColumn,
    declared_type,
    is_answered_as_text,
    is_loadable,
)
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, load_directly
from jetbridge.backends.mssql.write.driver_batches import (
    BulkColumn,
    WrittenColumns,
    bulk_columns,
    convert_batch,
    rows_to_arrays,
    staging_type,
    writable_columns,
)
from jetbridge.backends.mssql.write.spool import RowSpool, open_spool
from jetbridge.backends.mssql.write.staged_load import (
    stage_and_publish,
    stage_rows,
    uses_staging_table,
)
from jetbridge.backends.mssql.write.transactions import run_in_transaction
from jetbridge.backends.tables.column_mapping import map_insert_columns
from jetbridge.catalog import ROWID, DMLOptions, DMLResult, Write
from jetbridge.dialects.tsql import load, statements
from jetbridge.errors import ServerError


@contextmanager
def inserting(database: Database, table: TableDescription, options: DMLOptions) -> Iterator[Write]:
    """Insert the rows that the block writes, all of them or none."""
    with name_errors(table.title()):
        current = database.table(table.schema, table.name)
        insert = _insert_returning if options.returning else _insert_from_spool
        with insert(database, current) as write:
            yield write


class _ColumnValues:
    """Map batches of the client to the columns that statements can write."""

    def __init__(self, table: TableDescription) -> None:
        self.table = table
        self.columns = writable_columns(table)
        self.schema = table.info(None).schema
        self.rows = 0

    def values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        mapping = map_insert_columns(batch.schema, self.schema, self.table.title())
        arrays = dict(zip(self.schema.names, mapping.convert(batch, self.rows), strict=True))
        return [arrays[column.name] for column in self.columns]


@contextmanager
def _insert_from_spool(database: Database, table: TableDescription) -> Iterator[Write]:
    mapped, written_columns = _ColumnValues(table), WrittenColumns(table)
    targets = bulk_columns(mapped.columns)
    with open_spool(database.options, database.settings) as spool:

        def write(batch: pa.RecordBatch) -> DMLResult:
            if batch.num_rows:
                values = mapped.values(batch)
                spool.add(convert_batch(targets, values, mapped.rows))
                written_columns.add(mapped.columns, values)
                mapped.rows += batch.num_rows
            return DMLResult(batch.num_rows)

        yield write
        if spool.rows:
            _append(database, table, spool, written_columns)


def _append(
    database: Database, table: TableDescription, spool: RowSpool, written_columns: WrittenColumns
) -> None:
    columns = written_columns.columns()
    target = LoadTarget(
        statements.path(table.schema, table.name),
        tuple(bulk_columns(columns)),
        lock=database.settings.copy_tablock == "on",
        identity=written_columns.has_identity(),
    )
    if not columns:
        texts = load.append_defaults(target.table, spool.rows)
        run_in_transaction(database.server, target.table, lambda c: [c.run(sql) for sql in texts])
    elif _can_bulk_load(database, target, table, columns) and not uses_staging_table(
        database, table.schema, spool
    ):
        load_directly(database, target, spool, alone=False)
    else:
        stage_and_publish(
            database,
            table.schema,
            target.table,
            target.columns,
            spool,
            lambda connection, rows: _append_from(connection, target, rows),
        )


def _can_bulk_load(
    database: Database, target: LoadTarget, table: TableDescription, columns: list[ServerColumn]
) -> bool:
    """Return whether bulk copy can write all columns, so that SQL Server need not convert any."""
    return all(map(is_loadable, columns)) and not _would_lose_defaults(database, target, table)


def _would_lose_defaults(database: Database, target: LoadTarget, table: TableDescription) -> bool:
    """Return whether a bulk load writes NULL to the other columns, as on Babelfish."""
    return len(target.columns) < len(table.columns) and database.server.is_babelfish()


def _append_from(connection: SqlConnection, target: LoadTarget, source: str) -> None:
    if target.identity:
        connection.run(load.identity_insert(target.table, on=True))
    connection.run(load.append(target.table, [column.name for column in target.columns], source))
    if target.identity:
        connection.run(load.identity_insert(target.table, on=False))


@contextmanager
def _insert_returning(database: Database, table: TableDescription) -> Iterator[Write]:
    """Insert each batch at once, in one transaction up to the end of the statement."""
    ids = row_ids(table)
    with database.server.borrow_core() as connection, connection.transaction():
        statement = _Returning(database.server, connection, table, ids)
        yield statement.write


class _Returning:
    def __init__(
        self,
        server: ConnectionPool,
        connection: CoreConnection,
        table: TableDescription,
        ids: RowIds | None,
    ) -> None:
        self._server, self._connection, self._table, self._ids = server, connection, table, ids
        self._mapped = _ColumnValues(table)
        self._answer = table.info(None).schema

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        written_columns = WrittenColumns(self._table)
        values = self._mapped.values(batch)
        written_columns.add(self._mapped.columns, values)
        columns = written_columns.columns()
        arrays = {
            column.name: array for column, array in zip(self._mapped.columns, values, strict=True)
        }
        targets = bulk_columns(columns)
        rows = convert_batch(targets, [arrays[c.name] for c in columns], self._mapped.rows)
        self._mapped.rows += batch.num_rows
        stored = self._insert(targets, rows, identity=written_columns.has_identity())
        return DMLResult(batch.num_rows, self._answer_batch(stored, batch.num_rows))

    def _insert(
        self, columns: list[BulkColumn], rows: pa.RecordBatch, *, identity: bool
    ) -> list[pa.Array]:
        target = statements.path(self._table.schema, self._table.name)
        number = BulkColumn(load.NUMBER, "bigint")
        numbered = pa.RecordBatch.from_arrays(
            [*rows.columns, pa.array(range(rows.num_rows), pa.int64())],
            names=[*rows.schema.names, number.name],
        )
        steps = self._steps(target, [column.name for column in columns])
        stored: list[tuple[object, ...]] = []
        if identity:
            self._connection.run(load.identity_insert(target, on=True))
        staged = [*columns, number]
        with stage_rows(self._server, self._connection, staged, lambda: [numbered], rows.num_rows):
            for step in steps:
                stored = self._connection.run(step) or stored
        if identity:
            self._connection.run(load.identity_insert(target, on=False))
        if len(stored) != rows.num_rows:
            raise ServerError(f"SQL Server returned {len(stored)} of {rows.num_rows} inserted rows")
        return rows_to_arrays(stored, list(self._answer))

    def _steps(self, target: str, written_columns: list[str]) -> list[str]:
        append, type_of = load.append_returning, _answer_type
        if self._server.is_babelfish():  # Babelfish has no MERGE
            append, type_of = load.append_returning_in_order, declared_type
        answer = [(c.name, type_of(c), is_answered_as_text(c)) for c in self._table.columns]
        return append(target, written_columns, load.TEMPORARY, answer)

    def _answer_batch(self, stored: list[pa.Array], rows: int) -> pa.RecordBatch:
        fields = list(self._answer)
        if self._ids is not None:
            by_name = dict(zip(self._answer.names, stored, strict=True))
            stored = [*stored, self._ids.encode([by_name[c.name] for c in self._ids.columns])]
            fields.append(pa.field(ROWID, self._ids.type, nullable=False))
        return pa.RecordBatch.from_arrays(stored, schema=pa.schema(fields))


def _answer_type(column: ServerColumn) -> str:
    return "nvarchar(max)" if is_answered_as_text(column) else staging_type(column)
