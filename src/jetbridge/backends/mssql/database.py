"""Holds what all handles of a database share: connections, settings, spool, known tables."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.metadata.catalog_cache import CatalogCache
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription, describe, schema_info
from jetbridge.backends.mssql.metadata.row_changes import RowChanges
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.catalog import SchemaInfo
from jetbridge.catalog.identifiers import find_duplicate_name, fold
from jetbridge.catalog.settings import STAGED_BYTES
from jetbridge.dialects.tsql import statements
from jetbridge.errors import FailedPrecondition, LimitExceeded, NotFound
from jetbridge.runtime.temporary_folders import TemporaryFolder, sweep
from jetbridge.spark.engine import SparkEngine

# For a folder that the configuration names, so that workers may be of another user.
_SHARED_MODE = 0o777


@dataclass(frozen=True)
class SpoolOptions:
    """Define the folder in which statements spool their rows, and the most bytes of a statement.

    `spool` is the folder, empty for the temporary directory. With `shared`, workers on other
    machines read it, perhaps as another user.
    """

    spool: str = ""
    shared: bool = False
    staged_bytes: int = STAGED_BYTES

    def spool_folder(self) -> str:
        """Return the folder for spools."""
        return self.spool or tempfile.gettempdir()

    def new_folder(self) -> TemporaryFolder:
        """Create a folder for the rows of one statement. Raises OSError."""
        if self.shared:
            return TemporaryFolder("mssql", self.spool or None, mode=_SHARED_MODE)
        return TemporaryFolder("mssql", self.spool or None)

    def remove_orphans(self) -> None:
        """Remove the folders of processes of this machine that were killed."""
        sweep(self.spool_folder())

    @contextmanager
    def report_disk_errors(self) -> Iterator[None]:
        """Raise LimitExceeded with the name of the folder for an OSError of the block."""
        try:
            yield
        except OSError as error:
            raise LimitExceeded(
                f"rows cannot be spooled in {self.spool_folder()!r}: {str(error)[:200]}; "
                "free some space in it, or set `spool` to another folder"
            ) from None


@dataclass(frozen=True)
class Database:
    """Hold what all handles share. `dataclasses.replace` makes one with other settings."""

    server: ConnectionPool
    settings: MssqlSettings
    engine: SparkEngine | None
    options: SpoolOptions
    cache: CatalogCache = field(repr=False)
    changes: RowChanges = field(default_factory=RowChanges, repr=False)

    def schemas(self) -> list[str]:
        """Return the names of all schemas."""
        return self.cache.get(
            "schemas", lambda: [n for (n,) in self.server.query(statements.SCHEMAS)]
        )

    def schema(self, name: str) -> str:
        """Return the name as the server spells it. Raises NotFound."""
        names = [schema for schema in self.schemas() if fold(schema) == fold(name)]
        if not names:
            raise NotFound("schema", name)
        return name if name in names else names[0]

    def schema_info(self, name: str) -> SchemaInfo:
        """Return a schema with its comment and tags; Babelfish has none."""
        if self.server.is_babelfish():
            return SchemaInfo(name)
        rows = self.cache.get("properties", lambda: self.server.query(statements.SCHEMA_PROPERTIES))
        return schema_info(name, rows)

    def tables(self, schema: str) -> list[TableDescription]:
        """Return tables and views, without those that `table` refuses."""
        tables = self.cache.get(("tables", schema), lambda: self._describe(schema))
        return [
            table
            for table in tables
            if find_duplicate_name([c.name for c in table.columns]) is None
        ]

    def table(self, schema: str, name: str) -> TableDescription:
        """Return a table or view. Raises NotFound, and FailedPrecondition for ambiguous columns."""
        key = ("table", schema, fold(name))
        tables = self.cache.get(key, lambda: self._describe(schema, name))
        if not tables:
            raise NotFound("table", f"{schema}.{name}")
        table = next((described for described in tables if described.name == name), tables[0])
        duplicate = find_duplicate_name([column.name for column in table.columns])
        if duplicate is not None:
            raise FailedPrecondition(
                f"{table.title()} has columns that differ in case only, such as {duplicate!r}, "
                "which DuckDB cannot tell apart; read it through a view that renames them"
            )
        return table

    def _describe(self, schema: str, name: str | None = None) -> list[TableDescription]:
        folded = self.server.is_babelfish()
        return self.server.run_read(lambda c: describe(c, schema, name, folded=folded))
