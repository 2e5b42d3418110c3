"""Runs CREATE TABLE AS in two phases: creates the table, then loads all rows or none.

Rows are spooled first, so a query that fails has no effect. A small number of rows is loaded into
the new table in one transaction. Spark loads more rows into a staging table, which then replaces
the new one. OR REPLACE is atomic in the same way, unless `mssql_ctas_atomic_replace` is off.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from jetbridge.backends.mssql.connection.sql_connection import SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.ddl.create_table import (
    check_table_name,
    choose_types,
    create_table,
)
from jetbridge.backends.mssql.errors import name_errors
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, load_directly
from jetbridge.backends.mssql.write.code_pages import CodePages
from jetbridge.backends.mssql.write.driver_batches import (
    BulkColumn,
    convert_batch,
    convert_batches,
    max_bytes,
    max_utf16_units,
    with_length,
)
from jetbridge.backends.mssql.write.load_tables import LoadTables, run_load
from jetbridge.backends.mssql.write.spool import RowSpool, SpoolPart, open_spool
from jetbridge.backends.mssql.write.staged_load import (
    RowSource,
    fill_staging_table,
    is_large,
    publish_once,
)
from jetbridge.backends.mssql.write.transactions import CommitUnknown, retry_on_odbc
from jetbridge.backends.tables.column_mapping import map_insert_columns
from jetbridge.backends.tables.definition import Definition, define_table
from jetbridge.catalog import CreateTable, DMLResult, Filled, OnConflict, Write
from jetbridge.dialects.tsql import load, statements
from jetbridge.errors import AlreadyExists, Conflict, FailedPrecondition, NotFound, ServerError
from jetbridge.runtime.cancellation import current, shield
from jetbridge.spark.shared_folders import check_shared
from jetbridge.spark.written_rows import WrittenFiles, all_rows, write_parquet

log = logging.getLogger(__name__)

VARIABLES = ("MSSQL_DEBUG", "MSSQL_DML_DEBUG")


def _is_debugged() -> bool:
    """Return whether a variable of the environment switches the log on."""
    return any(os.environ.get(name, "") not in ("", "0") for name in VARIABLES)


class PhaseLog:
    """Log the phases of one statement."""

    def __init__(self, title: str, rows: int) -> None:
        self._title, self._rows = title, rows
        self._phase = ""

    @contextmanager
    def ddl(self, sql: str) -> Iterator[None]:
        """Log the size of the statement and the seconds of the block."""
        self.log("DDL statement of %d bytes", len(sql.encode()))
        with self._time("DDL"):
            yield

    @contextmanager
    def dml(self) -> Iterator[None]:
        """Log the seconds and rows of the block."""
        with self._time("DML"):
            yield
        self.log("%d rows inserted", self._rows)

    @contextmanager
    def _time(self, phase: str) -> Iterator[None]:
        self._phase, started = phase, time.monotonic()
        yield
        self.log("%s phase took %.3f s", phase, time.monotonic() - started)

    def log_failure(self, error: BaseException) -> None:
        """Log the phase in which the statement failed."""
        self.log("failed in the %s phase: %s", self._phase or "planning", error)

    def log(self, text: str, *values: object) -> None:
        if _is_debugged():
            log.setLevel(logging.DEBUG)  # the variable is enough, without --verbose
            log.debug(f"CTAS %s: {text}", self._title, *values)


@contextmanager
def log_statement(title: str, rows: int) -> Iterator[PhaseLog]:
    """Log the rows of a statement, and its failure if the block raises an error."""
    phases = PhaseLog(title, rows)
    phases.log("%d rows produced by the query", rows)
    try:
        yield phases
    except BaseException as error:
        phases.log_failure(error)
        raise


def find_table(database: Database, schema: str, name: str) -> TableDescription | None:
    """Return a table or view, or None."""
    try:
        return database.table(schema, name)
    except NotFound:
        return None


def refuse_view(table: TableDescription) -> None:
    """Raise FailedPrecondition if OR REPLACE would replace a view."""
    if table.is_view:
        raise FailedPrecondition(
            f"{table.title()} is a view, which a table cannot replace; drop the view in SQL Server"
        )


@dataclass
class TableLoad:
    """Hold the plan to create a table. `longest` has lengths of texts by column, for `auto`."""

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
        """Record the lengths of texts in a batch that has the driver's types."""
        for column, values in zip(self.columns, batch.columns, strict=True):
            if column.family in ("nvarchar", "varchar"):
                measure = max_utf16_units if column.family == "nvarchar" else max_bytes
                longest = self.longest.get(column.name, 0)
                self.longest[column.name] = max(measure(values), longest)

    def columns_to_load(self) -> tuple[BulkColumn, ...]:
        if not self.is_auto():
            return self.columns
        return tuple(
            with_length(column, self.longest.get(column.name, 0))
            if column.family in ("nvarchar", "varchar")
            else column
            for column in self.columns
        )


def plan_load(database: Database, schema: str, request: CreateTable) -> TableLoad:
    """Check the request before anything is created."""
    check_table_name(request.name)
    definition = define_table(request)
    types = choose_types(definition, database.settings)
    columns = tuple(BulkColumn(name, types[name]) for name in definition.schema.names)
    table_load = TableLoad(database, schema, request, definition, columns)
    _table_to_replace(table_load)
    return table_load


def _table_to_replace(table: TableLoad) -> TableDescription | None:
    """Return the table that the new one replaces. Raises AlreadyExists or FailedPrecondition."""
    existing = find_table(table.database, table.schema, table.request.name)
    if existing is not None:
        if table.request.on_conflict is not OnConflict.REPLACE:
            raise AlreadyExists("table", table.title, "use CREATE OR REPLACE TABLE to replace it")
        refuse_view(existing)
    return existing


@contextmanager
def creating(database: Database, schema: str, request: CreateTable) -> Iterator[Write]:
    """Create a table, and publish the rows that the block writes."""
    table = plan_load(database, schema, request)
    with open_spool(database.options, database.settings) as spool:
        yield _spool_writer(table, spool)
        publish(table, spool)


def _spool_writer(table: TableLoad, spool: RowSpool) -> Write:
    schema = table.definition.schema
    pages = CodePages(table.database.server.query, table.columns)

    def write(batch: pa.RecordBatch) -> DMLResult:
        if batch.num_rows:
            mapping = map_insert_columns(batch.schema, schema, table.title)
            values = mapping.convert(batch, spool.rows)
            rows = convert_batch(table.columns, values, spool.rows)
            pages.find_miscoded(rows, spool.rows)  # refuses characters that the column cannot store
            if table.is_auto():
                table.measure(rows)
            spool.add(rows)
        return DMLResult(batch.num_rows)

    return write


class SparkSpool:
    """Read the rows that Spark has written to files; each file is a part."""

    def __init__(self, table: TableLoad, spooled: WrittenFiles) -> None:
        self._table = table
        files = [(file, rows) for file, rows, _ in spooled.files if rows]
        self.parts = [SpoolPart(number, (file,), rows) for number, (file, rows) in enumerate(files)]
        self.rows, self.size = spooled.rows, spooled.size

    def to_files(self) -> None:
        """Do nothing: all rows are in files."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        batches = (batch for part in self.parts for batch in part.batches())
        return convert_batches(self._table.columns, all_rows(batches, self.rows, "its spool"))


def create_on_spark(database: Database, schema: str, request: CreateTable, query: str) -> Filled:
    """Create a table from a query that Spark runs. Its rows do not leave Spark's workers."""
    table = plan_load(database, schema, request)
    if database.engine is None:
        raise FailedPrecondition(
            f"{table.title} cannot be created on Spark, because no catalog of this session uses "
            "Spark; use engine = duckdb"
        )
    with database.options.report_disk_errors():
        temporary = database.options.new_folder()
    folder = temporary.path / "rows"
    try:
        with database.engine.session() as session:
            check_shared(session, database.options.spool_folder())
            source = SparkSpool(table, write_parquet(session, query, folder))
        if table.is_auto():
            for batch in source.batches():
                table.measure(batch)
        publish(table, source)
        return Filled(source.rows, source.size)
    finally:
        temporary.remove()


def publish(table: TableLoad, source: RowSource) -> None:
    """Run both phases, and log their seconds and the one that failed."""
    database = table.database
    try:
        with name_errors(table.title), log_statement(table.title, source.rows) as phases:
            existing = _table_to_replace(table)  # another session may have created it
            if existing is not None and database.settings.ctas_atomic_replace:
                _replace_atomically(table, source, phases, existing.name, drops_rows=True)
            else:
                _create_and_load(table, source, phases, existing)
    finally:
        database.cache.forget()


def _create_statement(table: TableLoad, name: str) -> str:
    types = {column.name: column.sql_type for column in table.columns_to_load()}
    return create_table(
        table.schema,
        table.request,
        table.database.settings,
        name=name,
        by_query=True,
        types=types,
    )


def _load_target(table: TableLoad, name: str) -> LoadTarget:
    settings = table.database.settings
    heap = settings.ctas_table_kind == "heap"
    lock = settings.copy_tablock == "on" or (settings.copy_tablock == "auto" and heap)
    return LoadTarget(statements.path(table.schema, name), table.columns_to_load(), lock=lock)


def _create_and_load(
    table: TableLoad,
    source: RowSource,
    phases: PhaseLog,
    existing: TableDescription | None,
) -> None:
    """Create the table, and load its rows; other sessions see it empty in between."""
    database, name = table.database, table.request.name
    sql = _create_statement(table, name)
    with phases.ddl(sql), _mention_table(table), database.server.borrow_odbc() as connection:
        if existing is not None:  # not atomic: if the next statement fails, the old table is lost
            connection.run(statements.drop_table(table.schema, existing.name))
        connection.run(sql)
    database.cache.forget()
    try:
        if is_large(table.database, source):
            _replace_atomically(table, source, phases, name, drops_rows=False)
        else:
            with phases.dml():
                load_directly(database, _load_target(table, name), source, alone=True)
    except BaseException as error:
        _clean_up(table, error)
        raise


@contextmanager
def _mention_table(table: TableLoad) -> Iterator[None]:
    """Add a hint to the error of a cancelled CREATE TABLE, which may have succeeded."""
    try:
        yield
    except ServerError as error:
        if current().error() is not None:
            _add(error, f"table {table.title} may exist without rows")
        raise


def _clean_up(table: TableLoad, error: BaseException) -> None:
    """Drop the table of a failed load, and report both errors if that fails, too."""
    if isinstance(error, CommitUnknown):
        return
    was_cancelled = current().error() is not None or not isinstance(error, Exception)
    if not was_cancelled and not table.database.settings.ctas_drop_on_failure:
        _add(error, f"table {table.title} was created and has no rows")
        return
    try:
        with shield():
            retry_on_odbc(table.database.server, partial(_drop_if_empty, table=table))
    except ServerError as second:
        _add(error, f"and table {table.title} could not be dropped: {second}")


def _drop_if_empty(connection: SqlConnection, table: TableLoad) -> None:
    """Drop the table unless another session has inserted rows."""
    schema, name = table.schema, table.request.name
    with connection.transaction():
        if not connection.run(load.find_table(schema, name)):
            return
        if connection.run(load.lock_first(schema, name)):
            raise Conflict("another session inserted rows")
        connection.run(load.drop_if_exists(schema, name))


def _add(error: BaseException, addition: str) -> None:
    if isinstance(error, ServerError):
        error.args = (f"{error}; {addition}",)


def _replace_atomically(
    table: TableLoad, source: RowSource, phases: PhaseLog, old: str, *, drops_rows: bool
) -> None:
    """Load a staging table, which then replaces the old table in one transaction."""
    database = table.database
    with run_load(database, table.schema) as tables:
        sql = _create_statement(table, tables.rows)
        with phases.ddl(sql), database.server.borrow_core() as connection:
            connection.run(sql)
            connection.run(load.create_ledger(table.schema, tables.ledger_name))
        target = _load_target(table, tables.rows)
        with phases.dml():
            fill_staging_table(database, tables, target, source)
            publish_once(database, tables, _swap(table, tables, old, drops_rows=drops_rows))


def _swap(
    table: TableLoad, tables: LoadTables, old: str, *, drops_rows: bool
) -> Callable[[SqlConnection], None]:
    """Return a function that replaces the old table within a transaction."""

    def swap(connection: SqlConnection) -> None:
        if not drops_rows and connection.run(load.lock_first(table.schema, old)):
            raise Conflict(
                f"another session inserted rows into {table.title} during the load; run it again"
            )
        connection.run(load.drop_if_exists(table.schema, old))
        connection.run(statements.rename_table(table.schema, tables.rows, table.request.name))

    return swap
