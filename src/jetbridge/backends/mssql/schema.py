"""Serves a schema: lists its tables, creates and drops them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.ddl import create_table_as
from jetbridge.backends.mssql.ddl.create_table import create_table
from jetbridge.backends.mssql.errors import name_errors
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.read.snapshots import SnapshotReader
from jetbridge.backends.mssql.table import MssqlTable, MssqlView
from jetbridge.backends.mssql.write.load_tables import is_load_table
from jetbridge.catalog import CreateTable, Filled, OnConflict, SchemaInfo, Write
from jetbridge.dialects.tsql import statements
from jetbridge.errors import AlreadyExists, FailedPrecondition


class MssqlSchema:
    """List, create and drop the tables of one schema.

    `reader` is the snapshot to read them at. Statements conflict with changes after `since`.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        reader: SnapshotReader | None = None,
        since: int | None = None,
    ) -> None:
        self._database, self._name, self._reader, self._since = database, name, reader, since

    def info(self) -> SchemaInfo:
        return self._database.schema_info(self._name)

    def list_tables(self) -> Sequence[MssqlView]:
        """List tables and views, without the tables of running loads."""
        tables = self._database.tables(self._name)
        return [self._handle(table) for table in tables if not is_load_table(table.name)]

    def load_table(self, name: str) -> MssqlView:
        return self._handle(self._database.table(self._name, name))

    def _handle(self, table: TableDescription) -> MssqlView:
        handle = MssqlView if table.is_view else MssqlTable
        return handle(self._database, table, self._reader, self._since)

    def create_table(self, request: CreateTable) -> MssqlView:
        existing = create_table_as.find_table(self._database, self._name, request.name)
        if existing is not None and request.on_conflict is OnConflict.IGNORE:
            return self.load_table(existing.name)
        if existing is not None and request.on_conflict is OnConflict.ERROR:
            raise AlreadyExists("table", f"{self._name}.{request.name}")
        sql = create_table(self._name, request, self._database.settings)
        title = f"{self._name}.{request.name}"
        try:
            with (
                name_errors(title),
                self._database.server.borrow_odbc() as connection,
                connection.transaction(),
            ):
                if existing is not None:
                    create_table_as.refuse_view(existing)
                    connection.run(statements.drop_table(self._name, existing.name))
                connection.run(sql)
        finally:
            self._database.cache.forget()
        return self.load_table(request.name)

    def creating(self, request: CreateTable) -> AbstractContextManager[Write]:
        return create_table_as.creating(self._database, self._name, request)

    def create_on_spark(self, request: CreateTable, query: str) -> Filled:
        return create_table_as.create_on_spark(self._database, self._name, request, query)

    def drop_table(self, name: str) -> None:
        table = self._database.table(self._name, name)
        if table.is_view:
            raise FailedPrecondition(f"{table.title()} is a view; drop it in SQL Server")
        try:
            with (
                name_errors(table.title()),
                self._database.server.borrow_odbc() as connection,
            ):
                connection.run(statements.drop_table(self._name, table.name))
        finally:
            self._database.cache.forget()
