"""Schemas: what SQL Server calls so."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.ddl import create_table_as, spark_load
from jetbridge.backends.mssql.ddl.create_table import create_table
from jetbridge.backends.mssql.errors import naming
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.read.snapshots import SnapshotReader
from jetbridge.backends.mssql.table import MssqlTable, MssqlView
from jetbridge.backends.mssql.write.load_tables import is_leftover
from jetbridge.catalog import CreateTable, Filled, OnConflict, SchemaInfo, Write
from jetbridge.dialects.tsql import statements
from jetbridge.errors import AlreadyExists, FailedPrecondition


class MssqlSchema:
    def __init__(self, database: Database, name: str, moment: SnapshotReader | None = None) -> None:
        self._database, self._name, self._moment = database, name, moment

    def info(self) -> SchemaInfo:
        return self._database.schema_info(self._name)

    def list_tables(self) -> Sequence[MssqlView]:
        """Views among them; what loads put beside their targets is not."""
        found = [each for each in self._database.tables(self._name) if not is_leftover(each.name)]
        return [self._handle(each) for each in found]

    def load_table(self, name: str) -> MssqlView:
        return self._handle(self._database.table(self._name, name))

    def _handle(self, described: TableDescription) -> MssqlView:
        kind = MssqlView if described.is_view else MssqlTable
        return kind(self._database, described, self._moment)

    def create_table(self, request: CreateTable) -> MssqlView:
        there = create_table_as.existing(self._database, self._name, request.name)
        if there is not None and request.on_conflict is OnConflict.IGNORE:
            return self.load_table(there.name)
        if there is not None and request.on_conflict is OnConflict.ERROR:
            raise AlreadyExists("table", f"{self._name}.{request.name}")
        sql = create_table(self._name, request, self._database.settings)
        title = f"{self._name}.{request.name}"
        try:
            with (
                naming(title),
                self._database.server.asking() as connection,
                connection.transaction(),
            ):
                if there is not None:
                    create_table_as.refuse_view(there)
                    connection.run(statements.drop_table(self._name, there.name))
                connection.run(sql)
        finally:
            self._database.known.forget()
        return self.load_table(request.name)

    def creating(self, request: CreateTable) -> AbstractContextManager[Write]:
        return create_table_as.creating(self._database, self._name, request)

    def create_on_spark(self, request: CreateTable, query: str) -> Filled:
        return spark_load.create_on_spark(self._database, self._name, request, query)

    def drop_table(self, name: str) -> None:
        found = self._database.table(self._name, name)
        if found.is_view:
            raise FailedPrecondition(f"{self._name}.{found.name} is a view: drop it in SQL Server")
        try:
            with (
                naming(f"{self._name}.{found.name}"),
                self._database.server.asking() as connection,
            ):
                connection.run(statements.drop_table(self._name, found.name))
        finally:
            self._database.known.forget()
