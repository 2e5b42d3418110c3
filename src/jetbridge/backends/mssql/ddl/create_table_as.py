"""CREATE TABLE AS in two phases: the table, then its rows, all of them or none.

The rows are spooled first, so a query that fails has made nothing. Few of them go into the new
table in one transaction; many are loaded by Spark into a table beside it, which then takes its
place. OR REPLACE is atomic in the same way, unless `mssql_ctas_atomic_replace` is off.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.ddl import phase_log
from jetbridge.backends.mssql.ddl.create_table import create_table, declared_types
from jetbridge.backends.mssql.errors import naming
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.write.bulk_load import CommitUnknown, LoadTarget, retried_patiently
from jetbridge.backends.mssql.write.code_pages import CodePages
from jetbridge.backends.mssql.write.direct_load import load_directly
from jetbridge.backends.mssql.write.driver_batches import (
    BulkColumn,
    converted,
    octets,
    sized,
    units,
)
from jetbridge.backends.mssql.write.load_tables import LoadTables, running
from jetbridge.backends.mssql.write.spool import RowSpool, spooling
from jetbridge.backends.mssql.write.staged_load import RowSource, fill, is_large, publish_once
from jetbridge.backends.tables.column_mapping import insert_mapping
from jetbridge.backends.tables.definition import Definition, new_definition
from jetbridge.catalog import CreateTable, DMLResult, OnConflict, Write
from jetbridge.dialects.tsql import load, statements
from jetbridge.errors import AlreadyExists, Conflict, FailedPrecondition, NotFound, ServerError
from jetbridge.runtime.cancellation import current, shielded


def existing(database: Database, schema: str, name: str) -> TableDescription | None:
    try:
        return database.table(schema, name)
    except NotFound:
        return None


def refuse_view(table: TableDescription) -> None:
    if table.is_view:
        raise FailedPrecondition(f"{table.title()} is a view, which no table replaces: drop it")


@dataclass
class TableLoad:
    """A table to be made. `longest` are the texts seen, where their lengths are to fit."""

    database: Database
    schema: str
    request: CreateTable
    definition: Definition
    columns: tuple[BulkColumn, ...]
    longest: dict[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.schema}.{self.request.name}"

    def is_auto(self) -> bool:
        return self.database.settings.ctas_text_length == "auto"

    def measure(self, batch: pa.RecordBatch) -> None:
        """`batch` is as the driver takes it."""
        for column, values in zip(self.columns, batch.columns, strict=True):
            if column.family in ("nvarchar", "varchar"):
                most = units(values) if column.family == "nvarchar" else octets(values)
                self.longest[column.name] = max(most, self.longest.get(column.name, 0))

    def sized_columns(self) -> tuple[BulkColumn, ...]:
        if not self.is_auto():
            return self.columns
        return tuple(
            sized(each, self.longest.get(each.name, 0))
            if each.family in ("nvarchar", "varchar")
            else each
            for each in self.columns
        )


def planned(database: Database, schema: str, request: CreateTable) -> TableLoad:
    """Raises for what cannot be made, before anything is."""
    definition = new_definition(request)
    types = declared_types(definition, database.settings)
    columns = tuple(BulkColumn(name, types[name]) for name in definition.schema.names)
    made = TableLoad(database, schema, request, definition, columns)
    _replaced(made)
    return made


def _replaced(made: TableLoad) -> TableDescription | None:
    """The table whose place it takes; raises if it may not."""
    there = existing(made.database, made.schema, made.request.name)
    if there is not None:
        if made.request.on_conflict is not OnConflict.REPLACE:
            raise AlreadyExists("table", made.title, "use CREATE OR REPLACE TABLE to replace it")
        refuse_view(there)
    return there


@contextmanager
def creating(database: Database, schema: str, request: CreateTable) -> Iterator[Write]:
    made = planned(database, schema, request)
    with spooling(database.options, database.settings) as spool:
        yield _writing(made, spool)
        publish(made, spool)


def _writing(made: TableLoad, spool: RowSpool) -> Write:
    schema = made.definition.schema
    pages = CodePages(made.database.server.ask, made.columns)

    def write(batch: pa.RecordBatch) -> DMLResult:
        if batch.num_rows:
            mapping = insert_mapping(batch.schema, schema, made.title)
            values = mapping.columns(batch, spool.rows)
            stored = converted(made.columns, values, spool.rows)
            pages.unsent(stored, spool.rows)  # raises for letters that the table cannot hold
            if made.is_auto():
                made.measure(stored)
            spool.add(stored)
        return DMLResult(batch.num_rows)

    return write


def publish(made: TableLoad, source: RowSource) -> None:
    """Both phases; the log has how long each took, and which one failed."""
    database = made.database
    try:
        with naming(made.title), phase_log.statement(made.title, source.rows) as told:
            there = _replaced(made)  # someone else may have made it meanwhile
            if there is not None and database.settings.ctas_atomic_replace:
                _beside(made, source, told, there.name, drops_rows=True)
            else:
                _anew(made, source, told, there)
    finally:
        database.known.forget()


def _ddl(made: TableLoad, name: str) -> str:
    types = {each.name: each.kind for each in made.sized_columns()}
    return create_table(
        made.schema,
        made.request,
        made.database.settings,
        name=name,
        by_query=True,
        types=types,
    )


def _goal(made: TableLoad, name: str) -> LoadTarget:
    settings = made.database.settings
    heap = settings.ctas_table_kind == "heap"
    lock = settings.copy_tablock == "on" or (settings.copy_tablock == "auto" and heap)
    return LoadTarget(statements.path(made.schema, name), made.sized_columns(), lock=lock)


def _anew(
    made: TableLoad, source: RowSource, told: phase_log.PhaseLog, there: TableDescription | None
) -> None:
    """The table is there, empty, while its rows are loaded."""
    database, name = made.database, made.request.name
    sql = _ddl(made, name)
    with told.ddl(sql), _cut_short(made), database.server.asking() as connection:
        if there is not None:  # not atomic: if the next statement fails, the old table is gone
            connection.run(statements.drop_table(made.schema, there.name))
        connection.run(sql)
    database.known.forget()
    try:
        if is_large(made.database, source):
            _beside(made, source, told, name, drops_rows=False)
        else:
            with told.dml():
                load_directly(database, _goal(made, name), source, alone=True)
    except BaseException as error:
        _clean_up(made, error)
        raise


@contextmanager
def _cut_short(made: TableLoad) -> Iterator[None]:
    """CREATE TABLE may be done when its cancellation arrives; somebody else may have done it."""
    try:
        yield
    except ServerError as error:
        if current().error() is not None:
            _add(error, f"table {made.title} may be there, without rows")
        raise


def _clean_up(made: TableLoad, error: BaseException) -> None:
    """Both errors are told if the table cannot be dropped, either."""
    if isinstance(error, CommitUnknown):
        return
    was_cancelled = current().error() is not None or not isinstance(error, Exception)
    if not was_cancelled and not made.database.settings.ctas_drop_on_failure:
        _add(error, f"table {made.title} was made and got no rows")
        return
    try:
        with shielded():
            retried_patiently(made.database.server, partial(_drop_empty, made=made))
    except ServerError as second:
        _add(error, f"and table {made.title} could not be dropped: {second}")


def _drop_empty(connection: SqlConnection, made: TableLoad) -> None:
    """Someone else may have put rows there meanwhile; then it is theirs."""
    schema, name = made.schema, made.request.name
    with connection.transaction():
        if not connection.run(load.find_table(schema, name)):
            return
        if connection.run(load.lock_first(schema, name)):
            raise Conflict("it has rows of someone else")
        connection.run(load.drop_if_there(schema, name))


def _add(error: BaseException, more: str) -> None:
    if isinstance(error, ServerError):
        error.args = (f"{error}; {more}",)


def _beside(
    made: TableLoad, source: RowSource, told: phase_log.PhaseLog, old: str, *, drops_rows: bool
) -> None:
    """Fills another table, which then takes the place of the old one in one transaction."""
    database = made.database
    with running(database, made.schema) as run:
        sql = _ddl(made, run.rows)
        with told.ddl(sql), database.server.loading() as connection:
            connection.run(sql)
            connection.run(load.create_ledger(made.schema, run.ledger_name))
        goal = _goal(made, run.rows)
        with told.dml():
            fill(database, run, goal, source)
            publish_once(database, run, _swapping(made, run, old, drops_rows=drops_rows))


def _swapping(
    made: TableLoad, run: LoadTables, old: str, *, drops_rows: bool
) -> Callable[[SqlConnection], None]:
    """Within a transaction."""

    def swap(connection: SqlConnection) -> None:
        if not drops_rows and connection.run(load.lock_first(made.schema, old)):
            raise Conflict(f"someone else has put rows into {made.title} meanwhile")
        connection.run(load.drop_if_there(made.schema, old))
        connection.run(statements.rename_table(made.schema, run.rows, made.request.name))

    return swap
