"""Serves one database of SQL Server: its schemas, its version, and snapshots of all tables."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.database import Database, SpoolOptions
from jetbridge.backends.mssql.errors import name_errors
from jetbridge.backends.mssql.metadata.catalog_cache import CatalogCache
from jetbridge.backends.mssql.metadata.catalog_views import properties_of
from jetbridge.backends.mssql.read.snapshots import SnapshotReader, SnapshotReaders
from jetbridge.backends.mssql.schema import MssqlSchema
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.load_tables import LoadTableSweeper, sweep
from jetbridge.catalog import CatalogVersion, SchemaInfo, SpoolFolder
from jetbridge.dialects.tsql import statements as tsql
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    FailedPrecondition,
    NotFound,
    NotSupported,
)
from jetbridge.spark.engine import SparkEngine

__all__ = ["MssqlCatalog", "SpoolOptions"]

# Where SQL Server looks for tables without a schema.
DEFAULT_SCHEMA = "dbo"


class MssqlCatalog:
    """Serve a database as a catalog. It connects when it is first used.

    `engine` runs large loads.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        *,
        settings: MssqlSettings | None = None,
        engine: SparkEngine | None = None,
        options: SpoolOptions | None = None,
    ) -> None:
        pool = ConnectionPool(address)
        self._name = name
        self._database = Database(
            pool,
            settings or MssqlSettings(),
            engine,
            options or SpoolOptions(),
            CatalogCache(pool),
        )
        self._snapshots = SnapshotReaders(pool, self._database.options.staged_bytes)
        self._sweeper = LoadTableSweeper(self._database)

    @property
    def database(self) -> Database:
        return self._database

    def configured(self, values: Mapping[str, str]) -> "MssqlCatalog":
        """Return this catalog with other values of its settings; both share the connections."""
        settings = self._database.settings.with_changes(values)
        if settings == self._database.settings:
            return self
        other = copy(self)
        other._database = replace(self._database, settings=settings)
        return other

    def list_schemas(self) -> Sequence[MssqlSchema]:
        self._sweeper.start()
        return [MssqlSchema(self._database, name) for name in self._database.schemas()]

    def load_schema(self, name: str) -> MssqlSchema:
        self._sweeper.start()
        return MssqlSchema(self._database, self._database.schema(name))

    def version(self) -> CatalogVersion:
        self._sweeper.start()
        return CatalogVersion(self._database.cache.number())

    def snapshot(self) -> "MssqlSnapshot":
        self._sweeper.start()
        allowed = self._database.settings.snapshot_reads and self._database.cache.allows_snapshots()
        return MssqlSnapshot(self._database, self._snapshots.open() if allowed else None)

    def default_schema(self) -> str:
        return DEFAULT_SCHEMA

    def create_schema(self, info: SchemaInfo) -> MssqlSchema:
        if not info.name:
            raise BadRequest("a schema needs a name")
        try:
            self._database.schema(info.name)
        except NotFound:
            pass
        else:
            raise AlreadyExists("schema", info.name)
        self._run(*self._creation(info))
        return self.load_schema(info.name)

    def _creation(self, info: SchemaInfo) -> Iterator[str]:
        properties = properties_of(info)
        if properties and self._database.server.is_babelfish():
            raise NotSupported(
                f"Babelfish cannot store the comment and the tags of schema {info.name!r}; "
                "create it without them"
            )
        yield tsql.create_schema(info.name)
        for name, value in properties:
            yield tsql.add_schema_property(info.name, name, value)

    def drop_schema(self, name: str) -> None:
        schema = self._database.schema(name)
        tables = self._database.tables(schema)
        if tables:
            raise FailedPrecondition(f"schema {schema!r} has {len(tables)} tables; drop them first")
        self._run(tsql.drop_schema(schema))

    def _run(self, *statements: str) -> None:
        """Run all of them or none."""
        try:
            with name_errors("the schema"), self._database.server.borrow_core() as connection:
                if len(statements) == 1:
                    connection.run(statements[0])
                    return
                with connection.transaction():
                    for sql in statements:
                        connection.run(sql)
        finally:
            self._database.cache.forget()

    def spool_folder(self) -> SpoolFolder | None:
        folder = self._database.options.spool
        return SpoolFolder(folder) if folder else None

    def start_sweeper(self) -> None:
        """Do nothing: the first use of the catalog, and later ones, start a sweep that is due."""

    def sweep(self) -> list[str]:
        """Drop the tables of loads that crashed; return their names."""
        return sweep(self._database)

    def close(self) -> None:
        self._sweeper.stop()
        self._snapshots.close()
        self._database.server.close()


class MssqlSnapshot:
    """Read all tables from one snapshot, that of the first read, if the database supports that."""

    def __init__(self, database: Database, reader: SnapshotReader | None) -> None:
        self._database, self._reader = database, reader
        self._since = database.changes.latest()

    def allow_expiry(self) -> None:
        if self._reader is not None:
            self._reader.may_lapse()

    def list_schemas(self) -> Sequence[MssqlSchema]:
        return [self._schema(name) for name in self._database.schemas()]

    def load_schema(self, name: str) -> MssqlSchema:
        return self._schema(self._database.schema(name))

    def _schema(self, name: str) -> MssqlSchema:
        return MssqlSchema(self._database, name, self._reader, self._since)

    def version(self) -> CatalogVersion:
        return CatalogVersion(self._database.cache.number())
