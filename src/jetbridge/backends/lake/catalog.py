"""The catalog of a lake, and what it looked like at one moment."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from jetbridge.backends.lake.connection import IcebergConnection, connected
from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.lake import Lake, LakeOptions
from jetbridge.backends.lake.maintenance.sweeper import Grace, Sweeper, SweepReport, sweep
from jetbridge.backends.lake.metadata.pointers import LakeListing
from jetbridge.backends.lake.schema import LakeSchema, SnapshotSchema, namespace_properties
from jetbridge.backends.lake.write.spool_tables import spooled
from jetbridge.catalog import CatalogVersion, Reach, SchemaInfo, SpoolFolder
from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, NotFound
from jetbridge.spark.engine import SparkConnection, SparkEngine
from jetbridge.spark.written_rows import WrittenFiles


class LakeCatalog:
    """Iceberg tables below a warehouse folder.

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
        """`reader`: one that may read the warehouse, if it is to be shared with other lakes."""
        connection: IcebergConnection = connected(name, str(warehouse), properties or {})
        self._connection = connection
        engine.add_catalog(name, connection.spark_properties)
        self._lake = Lake(
            connection.catalog,
            engine,
            reader or connection.reader,
            connection.files,
            options or LakeOptions(connection.warehouse),
        )
        self._sweeper: Sweeper | None = None

    @property
    def lake(self) -> Lake:
        return self._lake

    def reach(self) -> Reach:
        return self._connection.reach

    def list_schemas(self) -> Sequence[LakeSchema]:
        listing = self._lake.pointers.listing()
        return [
            LakeSchema(self._lake, name, listing.properties_of(name))
            for _, name in sorted(listing.namespaces.items())
        ]

    def load_schema(self, name: str) -> LakeSchema:
        found = self._lake.pointers.find_namespace(name)
        if found is None:
            raise NotFound("schema", name)
        return LakeSchema(self._lake, found)

    def version(self) -> CatalogVersion:
        return self._version(self._lake.pointers.known_listing())

    def _version(self, listing: LakeListing) -> CatalogVersion:
        return CatalogVersion(self._lake.versions.number(listing))

    def snapshot(self) -> "LakeSnapshot":
        listing = self._lake.pointers.listing()
        return LakeSnapshot(self._lake, listing, self._version(listing))

    def listing(self) -> "LakeSnapshot":
        listing = self._lake.pointers.listing()
        listing = replace(listing, properties=self._lake.namespaces.all_properties(listing))
        return LakeSnapshot(self._lake, listing, self._version(listing), for_listing=True)

    def create_schema(self, info: SchemaInfo) -> LakeSchema:
        if not info.name:
            raise BadRequest("a schema needs a name")
        if "\0" in info.name or not all(info.name.split(".")):
            raise BadRequest(
                f"{info.name!r} is no name for a schema of a lake: dots part names that are "
                "within each other, so none may be empty or hold a NUL character"
            )
        if self._lake.pointers.find_namespace(info.name) is not None:
            raise AlreadyExists("schema", info.name)
        self._lake.namespaces.create(info.name, namespace_properties(info))
        return LakeSchema(self._lake, info.name)

    def drop_schema(self, name: str) -> None:
        schema = self.load_schema(name).info().name
        listed = self._lake.pointers.listing().tables
        tables = [key for key in listed if key[0] == fold(schema)]
        if tables:
            raise FailedPrecondition(f"schema {schema!r} has {len(tables)} tables; drop them first")
        self._lake.namespaces.drop(schema)

    @contextmanager
    def spooled(self, session: SparkConnection, query: str) -> Iterator[WrittenFiles]:
        """The rows of a query in Spark SQL, in files of the warehouse, for as long as one reads."""
        with spooled(self._lake, session, query) as written:
            yield replace(written, secrets=tuple(self._connection.reach.secrets))

    def spool_folder(self) -> SpoolFolder:
        folder = self._lake.staging_folder()
        local = local_path(folder)
        if local is not None:
            return SpoolFolder(local, self._lake.prefix)
        return SpoolFolder(folder, self._lake.prefix, self.spooled)

    def start_sweeper(self, grace: Grace | None = None) -> None:
        """Clears up after crashes, in the background, for as long as the catalog is open."""
        if self._sweeper is None:
            self._sweeper = Sweeper(self._lake, grace)
            self._lake.on_trouble = self._sweeper.soon
            self._sweeper.start()

    def sweep(self, grace: Grace | None = None) -> SweepReport:
        """Clears up now."""
        return sweep(self._lake, grace)

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.stop()
        self._lake.presence.close()
        self._lake.turns.close()
        self._connection.reader.close()


class LakeSnapshot:
    """All tables as of one moment; `for_listing`, if they are listed at once, and not kept."""

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

    def list_schemas(self) -> Sequence[SnapshotSchema]:
        return [self.load_schema(name) for name in sorted(self._listing.namespaces)]

    def load_schema(self, name: str) -> SnapshotSchema:
        found = self._listing.namespaces.get(fold(name))
        if found is None:
            raise NotFound("schema", name)
        return SnapshotSchema(self._lake, found, self._listing, for_listing=self._for_listing)

    def version(self) -> CatalogVersion:
        return self._version
