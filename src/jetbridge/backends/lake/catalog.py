"""Implements the catalog of a lake, and a snapshot of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from jetbridge.backends.lake.connection import IcebergConnection, connect
from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.lake import Lake, open_lake
from jetbridge.backends.lake.maintenance.sweeper import Grace, Sweeper, SweepReport
from jetbridge.backends.lake.metadata.pointers import LakeListing
from jetbridge.backends.lake.options import LakeOptions
from jetbridge.backends.lake.schema import LakeSchema, LakeSnapshotSchema, namespace_properties
from jetbridge.backends.lake.warehouse.spool_tables import spool_rows
from jetbridge.catalog import CatalogVersion, Reach, SchemaInfo, SpoolFolder
from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, NotFound
from jetbridge.spark.engine import SparkConnection, SparkEngine
from jetbridge.spark.written_rows import WrittenFiles


class LakeCatalog:
    """Serve Iceberg tables below a warehouse folder.

    `properties` go to Iceberg, in Spark and in PyIceberg alike; without a `uri` the catalog is a
    SQLite file in the warehouse. The engine is shared by all lakes of a server.
    """

    def __init__(
        self,
        name: str,
        warehouse: str | Path,
        engine: SparkEngine,
        properties: Mapping[str, str] | None = None,
        *,
        options: LakeOptions | None = None,
        reader: LakeReader | None = None,
    ) -> None:
        """Open the catalog; lakes may share a `reader` that can read all their warehouses."""
        connection: IcebergConnection = connect(name, str(warehouse), properties or {})
        self._connection = connection
        engine.add_catalog(name, connection.spark_properties)
        self._lake = open_lake(
            connection.catalog,
            engine,
            reader or connection.reader,
            connection.files,
            options or LakeOptions(connection.warehouse),
        )
        self._sweeper = Sweeper(self._lake)

    @property
    def lake(self) -> Lake:
        """Return the owners behind the catalog."""
        return self._lake

    def reach(self) -> Reach:
        """Return the folders and secrets with which DuckDB reads the lake."""
        return self._connection.reach

    def list_schemas(self) -> Sequence[LakeSchema]:
        """Return all schemas."""
        listing = self._lake.tables.listing()
        return [
            LakeSchema(self._lake, name, listing.properties_of(name))
            for _, name in sorted(listing.namespaces.items())
        ]

    def load_schema(self, name: str) -> LakeSchema:
        """Return a schema; raises NotFound."""
        spelling = self._lake.tables.pointers.find_namespace(name)
        if spelling is None:
            raise NotFound("schema", name)
        return LakeSchema(self._lake, spelling)

    def version(self) -> CatalogVersion:
        """Return the version of the catalog, which rises with each DDL."""
        return self._version(self._lake.tables.pointers.known_listing())

    def _version(self, listing: LakeListing) -> CatalogVersion:
        return CatalogVersion(self._lake.tables.version(listing))

    def snapshot(self) -> "LakeSnapshot":
        """Return all tables as they are now."""
        listing = self._lake.tables.listing()
        return LakeSnapshot(self._lake, listing, self._version(listing))

    def listing(self) -> "LakeSnapshot":
        """Return all tables as they are now, to be listed at once."""
        listing = self._lake.tables.listing()
        listing = replace(listing, properties=self._lake.namespaces.all_properties(listing))
        return LakeSnapshot(self._lake, listing, self._version(listing), for_listing=True)

    def create_schema(self, info: SchemaInfo) -> LakeSchema:
        """Create a schema; raises AlreadyExists or BadRequest."""
        if not info.name:
            raise BadRequest("a schema needs a name")
        if "\0" in info.name or not all(info.name.split(".")):
            raise BadRequest(
                f"{info.name!r} is not a name for a schema of a lake: dots separate nested names, "
                "so none may be empty or hold a NUL character"
            )
        if self._lake.tables.pointers.find_namespace(info.name) is not None:
            raise AlreadyExists("schema", info.name)
        self._lake.namespaces.create(info.name, namespace_properties(info))
        return LakeSchema(self._lake, info.name)

    def drop_schema(self, name: str) -> None:
        """Drop an empty schema; raises NotFound or FailedPrecondition."""
        schema = self.load_schema(name).info().name
        listing = self._lake.tables.listing()
        tables = [key for key in listing.tables if key[0] == fold(schema)]
        if tables:
            raise FailedPrecondition(f"schema {schema!r} has {len(tables)} tables; drop them first")
        self._lake.namespaces.drop(schema)

    @contextmanager
    def spooled(self, session: SparkConnection, query: str) -> Iterator[WrittenFiles]:
        """Yield the files of the warehouse to which Spark wrote the rows of a query."""
        with spool_rows(self._lake.warehouse, session, query) as files:
            yield replace(files, secrets=tuple(self._connection.reach.secrets))

    def spool_folder(self) -> SpoolFolder:
        """Return the folder for results of queries on Spark."""
        warehouse = self._lake.warehouse
        folder = warehouse.staging_folder()
        local = local_path(folder)
        if local is not None:
            return SpoolFolder(local, warehouse.file_prefix)
        return SpoolFolder(folder, warehouse.file_prefix, self.spooled)

    def start_sweeper(self, grace: Grace | None = None) -> None:
        """Remove what crashes left behind, in the background, while the catalog is open."""
        self._sweeper.start(grace)

    def sweep(self, grace: Grace | None = None) -> SweepReport:
        """Remove what crashes left behind, now."""
        return self._sweeper.sweep(grace)

    def close(self) -> None:
        """Release locks and files."""
        self._sweeper.stop()
        self._lake.warehouse.close()
        self._connection.reader.close()


class LakeSnapshot:
    """Read all tables of one moment; with `for_listing`, they are listed at once, and not kept."""

    def __init__(
        self,
        lake: Lake,
        listing: LakeListing,
        version: CatalogVersion,
        *,
        for_listing: bool = False,
    ) -> None:
        self._lake, self._listing, self._version = lake, listing, version
        self._for_listing = for_listing

    def list_schemas(self) -> Sequence[LakeSnapshotSchema]:
        """Return all schemas."""
        return [self.load_schema(name) for name in sorted(self._listing.namespaces)]

    def load_schema(self, name: str) -> LakeSnapshotSchema:
        """Return a schema; raises NotFound."""
        spelling = self._listing.namespaces.get(fold(name))
        if spelling is None:
            raise NotFound("schema", name)
        return LakeSnapshotSchema(
            self._lake, spelling, self._listing, for_listing=self._for_listing
        )

    def version(self) -> CatalogVersion:
        """Return the version of the catalog at that moment."""
        return self._version
