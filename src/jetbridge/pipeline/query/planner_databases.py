"""Opens the DuckDB databases in which statements of one session are planned and run."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from jetbridge.catalog import CanBeReached, supports
from jetbridge.catalog.settings import SQL_MEMORY
from jetbridge.duckdb_engine.connection import (
    DuckDBAccess,
    StatementConnection,
    StatementDatabase,
    StatementEngine,
)
from jetbridge.duckdb_engine.instance import needs_extensions
from jetbridge.errors import NotFound
from jetbridge.pipeline.access import AccessRules, FileScope, reads_files
from jetbridge.pipeline.name_resolution import NameResolver
from jetbridge.pipeline.parsing.statements import ObjectName


@dataclass(frozen=True)
class DuckDBLimits:
    """Hold the limits of DuckDB for one statement. None: DuckDB's own limit."""

    memory_limit: str = SQL_MEMORY
    threads: int | None = None
    spill_bytes: int | None = None


class PlannerDatabases:
    """Open databases as statements need them, and keep them until the catalogs change.

    A database depends on the catalogs whose files it may read, and on whether it has DuckDB's
    extensions for table formats and object stores, which take 0.3 s to load.
    """

    def __init__(self, access: AccessRules, limits: DuckDBLimits, engine: StatementEngine) -> None:
        self.limits = limits
        self._access, self._engine = access, engine
        self._databases: dict[tuple[frozenset[str] | None, bool], StatementDatabase] = {}

    @contextmanager
    def connect(
        self, names: NameResolver, query: str = "", target: str | None = None
    ) -> Iterator[StatementConnection]:
        """Open a connection in which this query may be planned and run.

        `target` is the catalog whose rows the statement changes.
        """
        readable = self._readable_catalogs(names, query, target)
        with self._database(names, query, readable).connect() as connection:
            yield connection

    def close(self) -> None:
        """Close all databases; the next statement opens new ones."""
        for database in self._databases.values():
            database.close()
        self._databases = {}

    def _readable_catalogs(
        self, names: NameResolver, query: str, target: str | None
    ) -> frozenset[str] | None:
        """Return the catalogs whose files DuckDB must read, or None if it may read other files.

        A caller who may read some folders must not read the files of a warehouse by their names.
        """
        if self._access.trusted:
            return frozenset(names.catalogs)
        references = self._engine.references(query) if query else None
        if references and self._access.files is FileScope.FOLDERS and reads_files(references):
            return None
        catalogs = {target} if target else set()
        for parts in references.tables if references else ():
            with suppress(NotFound):
                catalogs.add(names.path(ObjectName(*reversed(parts[-3:])))[0])
        return frozenset(n for n in catalogs if supports(names.catalogs[n], CanBeReached))

    def _database(
        self, names: NameResolver, query: str, readable: frozenset[str] | None
    ) -> StatementDatabase:
        reads_lake = any(supports(names.catalogs[name], CanBeReached) for name in readable or ())
        extended = reads_lake or needs_extensions(query)
        if (readable, extended) not in self._databases:
            access = self._duckdb_access(names, readable, extended)
            self._databases[readable, extended] = self._engine.open(list(names.catalogs), access)
        return self._databases[readable, extended]

    def _duckdb_access(
        self, names: NameResolver, readable: frozenset[str] | None, extended: bool
    ) -> DuckDBAccess:
        reaches = [
            catalog.reach()
            for name, catalog in names.catalogs.items()
            if readable and name in readable and supports(catalog, CanBeReached)
        ]
        folders = [folder for reach in reaches for folder in reach.folders]
        if readable is None:
            folders += self._access.folders
        return DuckDBAccess(
            None if self._access.files is FileScope.ALL else folders,
            [secret for reach in reaches for secret in reach.secrets],
            self.limits.memory_limit,
            include_table_folders=readable is not None,
            load_extensions=extended,
            threads=self.limits.threads,
            spill_bytes=self.limits.spill_bytes,
        )
