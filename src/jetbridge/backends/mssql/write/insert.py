"""INSERT: rows are spooled and loaded at the end; with RETURNING each batch is inserted at once."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import ConnectionPool, CoreConnection, SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.ddl.create_table import declared
from jetbridge.backends.mssql.errors import naming
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.metadata.row_ids import RowIds, row_ids
from jetbridge.backends.mssql.types import ServerColumn, is_loaded
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, in_one_transaction
from jetbridge.backends.mssql.write.direct_load import load_directly
from jetbridge.backends.mssql.write.driver_batches import BulkColumn, collated, converted, loaded
from jetbridge.backends.mssql.write.spool import RowSpool, spooling
from jetbridge.backends.mssql.write.staged_load import goes_beside, stage_and_publish
from jetbridge.backends.mssql.write.temporary_table import answered, is_answered_as_text, staged
from jetbridge.backends.mssql.write.written_columns import WrittenColumns, writable
from jetbridge.backends.tables.column_mapping import insert_mapping
from jetbridge.catalog import ROWID, DMLOptions, DMLResult, Write
from jetbridge.dialects.tsql import load, statements
from jetbridge.errors import ServerError


@contextmanager
def inserting(database: Database, table: TableDescription, options: DMLOptions) -> Iterator[Write]:
    with naming(table.title()):
        now = database.table(table.schema, table.name)
        how = _returning if options.returning else _silent
        with how(database, now) as write:
            yield write


class _Mapped:
    """Batches as they are sent to the columns that take values."""

    def __init__(self, table: TableDescription) -> None:
        self.table = table
        self.columns = writable(table)
        self.schema = table.info(None).schema
        self.rows = 0

    def values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        mapping = insert_mapping(batch.schema, self.schema, self.table.title())
        found = dict(zip(self.schema.names, mapping.columns(batch, self.rows), strict=True))
        return [found[each.name] for each in self.columns]


@contextmanager
def _silent(database: Database, table: TableDescription) -> Iterator[Write]:
    mapped, given = _Mapped(table), WrittenColumns(table)
    targets = loaded(mapped.columns)
    with spooling(database.options, database.settings) as spool:

        def write(batch: pa.RecordBatch) -> DMLResult:
            if batch.num_rows:
                values = mapped.values(batch)
                spool.add(converted(targets, values, mapped.rows))
                given.look(mapped.columns, values)
                mapped.rows += batch.num_rows
            return DMLResult(batch.num_rows)

        yield write
        if spool.rows:
            _append(database, table, spool, given)


def _append(
    database: Database, table: TableDescription, spool: RowSpool, given: WrittenColumns
) -> None:
    columns = given.columns()
    goal = LoadTarget(
        statements.path(table.schema, table.name),
        tuple(loaded(columns)),
        lock=database.settings.copy_tablock == "on",
        identity=given.identity(),
    )
    if not columns:
        texts = load.append_defaults(goal.table, spool.rows)
        in_one_transaction(database.server, goal.table, lambda c: [c.run(each) for each in texts])
    elif _in_bulk(database, goal, table, columns) and not goes_beside(
        database, table.schema, spool
    ):
        load_directly(database, goal, spool, alone=False)
    else:
        stage_and_publish(
            database,
            table.schema,
            goal.table,
            goal.columns,
            spool,
            lambda connection, rows: _append_from(connection, goal, rows),
        )


def _in_bulk(
    database: Database, goal: LoadTarget, table: TableDescription, columns: list[ServerColumn]
) -> bool:
    """Columns of other types SQL Server converts."""
    return all(map(is_loaded, columns)) and not _would_lose_defaults(database, goal, table)


def _would_lose_defaults(database: Database, goal: LoadTarget, table: TableDescription) -> bool:
    """A bulk load of Babelfish gives NULL to columns that it is not told of."""
    return len(goal.columns) < len(table.columns) and database.server.is_babelfish()


def _append_from(connection: SqlConnection, goal: LoadTarget, source: str) -> None:
    if goal.identity:
        connection.run(load.identity_insert(goal.table, on=True))
    connection.run(load.append(goal.table, [each.name for each in goal.columns], source))
    if goal.identity:
        connection.run(load.identity_insert(goal.table, on=False))


@contextmanager
def _returning(database: Database, table: TableDescription) -> Iterator[Write]:
    """One transaction from the first batch to the end of the statement."""
    ids = row_ids(table)
    with database.server.loading() as connection, connection.transaction():
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
        self._mapped = _Mapped(table)
        self._answer = table.info(None).schema

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        given = WrittenColumns(self._table)
        values = self._mapped.values(batch)
        given.look(self._mapped.columns, values)
        columns = given.columns()
        arrays = {
            column.name: array for column, array in zip(self._mapped.columns, values, strict=True)
        }
        chosen = loaded(columns)
        rows = converted(chosen, [arrays[c.name] for c in columns], self._mapped.rows)
        self._mapped.rows += batch.num_rows
        stored = self._inserted(chosen, rows, identity=given.identity())
        return DMLResult(batch.num_rows, self._answered(stored, batch.num_rows))

    def _inserted(
        self, columns: list[BulkColumn], rows: pa.RecordBatch, *, identity: bool
    ) -> list[pa.Array]:
        target = statements.path(self._table.schema, self._table.name)
        number = BulkColumn(load.NUMBER, "bigint")
        numbered = pa.RecordBatch.from_arrays(
            [*rows.columns, pa.array(range(rows.num_rows), pa.int64())],
            names=[*rows.schema.names, number.name],
        )
        steps = self._steps(target, [each.name for each in columns])
        told: list[tuple[object, ...]] = []
        if identity:
            self._connection.run(load.identity_insert(target, on=True))
        everything = [*columns, number]
        with staged(self._server, self._connection, everything, lambda: [numbered], rows.num_rows):
            for step in steps:
                told = self._connection.run(step) or told
        if identity:
            self._connection.run(load.identity_insert(target, on=False))
        if len(told) != rows.num_rows:
            raise ServerError(f"{len(told)} of {rows.num_rows} rows came back")
        return answered(told, list(self._answer))

    def _steps(self, target: str, given: list[str]) -> list[str]:
        append = load.append_answering
        kind = _answer_type
        if self._server.is_babelfish():  # which has no MERGE
            append, kind = load.append_answering_in_order, declared
        answer = [
            (each.name, kind(each), is_answered_as_text(each)) for each in self._table.columns
        ]
        return append(target, given, load.TEMPORARY, answer)

    def _answered(self, stored: list[pa.Array], rows: int) -> pa.RecordBatch:
        fields = list(self._answer)
        if self._ids is not None:
            by_name = dict(zip(self._answer.names, stored, strict=True))
            stored = [*stored, self._ids.of([by_name[c.name] for c in self._ids.columns])]
            fields.append(pa.field(ROWID, self._ids.type, nullable=False))
        return pa.RecordBatch.from_arrays(stored, schema=pa.schema(fields))


def _answer_type(column: ServerColumn) -> str:
    return "nvarchar(max)" if is_answered_as_text(column) else collated(column)
