"""Owns what statements on one warehouse share: folders, locks, and the way to Spark."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jetbridge.backends.lake.errors import translating
from jetbridge.backends.lake.files import Files, local_path
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.metadata.table_store import TableStore
from jetbridge.backends.lake.options import LakeOptions
from jetbridge.backends.lake.warehouse.commit_turns import CommitTurns
from jetbridge.backends.lake.warehouse.dropped_tables import DroppedTables
from jetbridge.backends.lake.warehouse.java_catalog import JavaCatalog, load_java_table
from jetbridge.backends.lake.warehouse.server_locks import ServerLock
from jetbridge.spark.engine import SparkConnection, SparkEngine
from jetbridge.spark.shared_folders import check_shared


class Warehouse:
    """Own the locks of this server, the spool tables and the notes of dropped tables."""

    def __init__(
        self,
        name: str,
        engine: SparkEngine,
        tables: TableStore,
        files: Files,
        options: LakeOptions,
    ) -> None:
        self.name, self.engine, self.tables, self.files = name, engine, tables, files
        self.folder, self.server = options.warehouse, options.server
        self.lock = ServerLock(self.folder, self.server)
        self.turns = CommitTurns(self.folder)
        self.dropped = DroppedTables(files, self.folder)
        self.java = JavaCatalog(engine, name, self.lock.hold_in)
        # Names of the spool tables that are in use.
        self.spools: set[str] = set()
        # Called when a job failed and may have left files behind.
        self.on_trouble: Callable[[], None] = _ignore
        weakref.finalize(self, self.lock.close)
        weakref.finalize(self, self.turns.close)

    def is_remote(self) -> bool:
        """Return whether the warehouse is not a local folder, so Spark reaches it by Iceberg."""
        return local_path(self.folder) is None

    def staging_folder(self) -> str:
        """Return the folder for files that Spark's workers read and that no table keeps."""
        return f"{self.folder}/.jetbridge/staging"

    def file_prefix(self) -> str:
        """Return how the names of this server's files begin; the sweeper knows them by it."""
        self.lock.hold()
        return f"jetbridge-{self.server}"

    @contextmanager
    def session(self, title: str) -> Iterator[SparkConnection]:
        """Yield Spark; errors of Java are about the table `title`."""
        with self.engine.session() as session, translating(title):
            if not self.is_remote():
                check_shared(session, local_path(self.staging_folder()) or "")
            self.lock.hold_in(session)
            yield session

    def java_table(self, session: SparkConnection, state: TableState) -> Any:
        """Return a table as Iceberg's Java library has it now."""
        return load_java_table(session, self.name, state)

    def close(self) -> None:
        """Release the locks."""
        self.lock.close()
        self.turns.close()


def _ignore() -> None:
    """Do nothing: no sweeper runs."""
