"""Serves catalogs in memory: the current state, and snapshots."""

from collections.abc import Mapping, Sequence

from jetbridge.backends.memory.schema import MemorySchema, MemorySnapshotSchema
from jetbridge.backends.memory.store import Clock, MemoryOptions, SchemaCell, Store, utc_now
from jetbridge.catalog import CatalogVersion, SchemaInfo, fold
from jetbridge.catalog.settings import SPILL_BYTES, STAGED_BYTES
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, NotFound

MIB = 1024 * 1024


class MemoryCatalog:
    """Keep tables in the memory of this process; they are gone when it ends.

    `keep_versions` and `history_bytes` limit the old versions that each table keeps for AT, and
    `total_history_bytes` limits those of all tables together. The versions that were replaced
    first are dropped first. A statement stages `spill_bytes` in memory and writes what exceeds
    them to a temporary file; it fails if it stages more than `staged_bytes`.
    """

    def __init__(
        self,
        *,
        keep_versions: int = 1000,
        history_bytes: int = 1024 * MIB,
        total_history_bytes: int = 1024 * MIB,
        spill_bytes: int = SPILL_BYTES,
        staged_bytes: int = STAGED_BYTES,
        clock: Clock = utc_now,
    ) -> None:
        self._store = Store(
            MemoryOptions(
                keep_versions, history_bytes, total_history_bytes, spill_bytes, staged_bytes, clock
            )
        )

    def list_schemas(self) -> Sequence[MemorySchema]:
        """Return all schemas, by name."""
        return [MemorySchema(self._store, cell) for _, cell in sorted(self._store.schemas.items())]

    def load_schema(self, name: str) -> MemorySchema:
        """Return the schema; raise NotFound."""
        cell = self._store.schemas.get(fold(name))
        if cell is None:
            raise NotFound("schema", name)
        return MemorySchema(self._store, cell)

    def version(self) -> CatalogVersion:
        """Return the number that rises with every DDL statement."""
        return CatalogVersion(self._store.version)

    def snapshot(self) -> "MemorySnapshot":
        """Return all schemas and tables as they are now."""
        with self._store.lock:
            schemas = {
                name: MemorySnapshotSchema(
                    self._store,
                    cell.info,
                    {key: (table, table.state.version) for key, table in cell.tables.items()},
                )
                for name, cell in self._store.schemas.items()
            }
            return MemorySnapshot(schemas, CatalogVersion(self._store.version))

    def listing(self) -> "MemorySnapshot":
        """Return the snapshot that a client lists when it attaches."""
        return self.snapshot()

    def create_schema(self, info: SchemaInfo) -> MemorySchema:
        """Create a schema; raise AlreadyExists, and BadRequest if the name is empty."""
        if not info.name:
            raise BadRequest("a schema needs a name")
        cell = SchemaCell(info)
        with self._store.changing():
            if fold(info.name) in self._store.schemas:
                raise AlreadyExists("schema", info.name)
            self._store.schemas = {**self._store.schemas, fold(info.name): cell}
            self._store.version += 1
        return MemorySchema(self._store, cell)

    def drop_schema(self, name: str) -> None:
        """Drop a schema; raise NotFound, and FailedPrecondition while it has tables."""
        with self._store.changing():
            schemas = dict(self._store.schemas)
            cell = schemas.pop(fold(name), None)
            if cell is None:
                raise NotFound("schema", name)
            if cell.tables:
                raise FailedPrecondition(
                    f"schema {cell.info.name!r} has {len(cell.tables)} tables; drop them first"
                )
            cell.dropped = True
            self._store.schemas = schemas
            self._store.version += 1


class MemorySnapshot:
    """Hold a snapshot of all tables."""

    def __init__(
        self, schemas: Mapping[str, MemorySnapshotSchema], version: CatalogVersion
    ) -> None:
        self._schemas, self._version = schemas, version

    def list_schemas(self) -> Sequence[MemorySnapshotSchema]:
        return [self._schemas[name] for name in sorted(self._schemas)]

    def load_schema(self, name: str) -> MemorySnapshotSchema:
        schema = self._schemas.get(fold(name))
        if schema is None:
            raise NotFound("schema", name)
        return schema

    def version(self) -> CatalogVersion:
        return self._version
