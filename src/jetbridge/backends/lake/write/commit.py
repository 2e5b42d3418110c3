"""Commits changes of tables with Iceberg's Java library, in the JVM that Spark runs in.

A commit names the metadata file it starts from. It is made only if that is still the current one;
else it raises StaleMetadata and the caller reads the table again. So whatever the caller learned
about the table still holds when the change is published, whichever engine works beside it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from jetbridge.backends.lake.errors import ICEBERG_EXCEPTIONS, StaleMetadata
from jetbridge.backends.lake.metadata.snapshot_files import DeletionVector
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataFile
from jetbridge.backends.lake.types import IcebergField
from jetbridge.backends.lake.warehouse.java_catalog import JavaCatalog, identifier, static
from jetbridge.errors import Conflict, ServerError
from jetbridge.runtime.cancellation import current
from jetbridge.spark.engine import SparkConnection
from jetbridge.spark.errors import is_java

# In the summary of a snapshot: the id of the commit that made it.
COMMIT_ID = "jetbridge.change"


@dataclass(frozen=True)
class TableCommit:
    """Describe one commit, which is made as a whole.

    `fields` and `properties` redefine the table; `replaces_rows` removes all rows before the new
    files are added. A commit without rows also makes a snapshot, so that every change of a table
    is a version that AT can name. The summary of that snapshot has the `commit_id`.
    """

    fields: Sequence[IcebergField] | None = None
    identifiers: Sequence[int] = ()
    properties: Mapping[str, str] | None = None
    files: Sequence[DataFile] = ()
    added: Sequence[DeletionVector] = ()
    removed: Sequence[DeletionVector] = ()
    replaces_rows: bool = False
    commit_id: str = field(default_factory=lambda: uuid4().hex)

    def is_in(self, state: TableState) -> bool:
        """Return whether the table has this commit, for one whose answer was lost."""
        return any(s.property(COMMIT_ID) == self.commit_id for s in state.snapshots())


class IcebergCommitter:
    """Make commits with Iceberg's Java library."""

    def __init__(self, java: JavaCatalog) -> None:
        self._java = java

    def commit(self, state: TableState, change: TableCommit) -> None:
        """Commit a change; raises StaleMetadata if the table is no longer what `state` says."""
        with self._java.connect(state.title()) as (session, catalog):
            space, name = state.pointer.namespace, state.pointer.name
            table = catalog.loadTable(identifier(session, space, name))
            operations = table.operations()
            base = operations.current()
            if base.metadataFileLocation() != state.location:
                raise StaleMetadata
            transaction = table.newTransaction()
            if change.fields is not None or change.properties is not None:
                self._redefine(session, state, transaction, change)
            self._write(session, table, transaction, change)
            try:
                with current().publishing():
                    operations.commit(base, transaction.currentMetadata())
            except (Py4JJavaError, ServerError) as error:
                refused = isinstance(error, ServerError)
                if refused or is_java(error, ICEBERG_EXCEPTIONS + "CommitFailedException"):
                    discard(table, transaction)
                raise
            _remove_unused(table, transaction)

    def _redefine(
        self, session: SparkConnection, state: TableState, transaction: Any, change: TableCommit
    ) -> None:
        before = transaction.currentMetadata()
        after = before
        if change.fields is not None:
            text = state.schema.with_fields(change.fields, change.identifiers)
            after = after.updateSchema(static(session, "SchemaParser.fromJson")(text))
        if change.properties is not None:
            after = after.replaceProperties(dict(change.properties))
        transaction.table().operations().commit(before, after)

    def _write(
        self, session: SparkConnection, table: Any, transaction: Any, change: TableCommit
    ) -> None:
        files = [data_file(session, table, transaction, file) for file in change.files]
        if change.replaces_rows:
            overwrite = transaction.newOverwrite()
            overwrite.overwriteByRowFilter(static(session, "expressions.Expressions.alwaysTrue")())
            for file in files:
                overwrite.addFile(file)
            overwrite.set(COMMIT_ID, change.commit_id).commit()
        elif change.added:
            delta = transaction.newRowDelta().validateFromSnapshot(
                table.currentSnapshot().snapshotId()
            )
            for file in files:
                delta.addRows(file)
            for vector in change.added:
                delta.addDeletes(_delete_file(session, table, vector))
            for vector in change.removed:
                delta.removeDeletes(_delete_file(session, table, vector))
            delta.set(COMMIT_ID, change.commit_id).commit()
        else:
            append = transaction.newAppend()
            for file in files:
                append.appendFile(file)
            append.set(COMMIT_ID, change.commit_id).commit()


def data_file(session: SparkConnection, table: Any, transaction: Any, file: DataFile) -> Any:
    """Return a file of rows as Java has it, for a commit in the same transaction."""
    source = table.io().newInputFile(file.location)
    config = static(session, "MetricsConfig.forTable")(transaction.table())
    metrics = static(session, "parquet.ParquetUtil.fileMetrics")(source, config)
    builder = static(session, "DataFiles.builder")(_plain_spec(table)).withInputFile(source)
    return builder.withFormat("PARQUET").withMetrics(metrics).build()


def _plain_spec(table: Any) -> Any:
    """Return the spec for rows without a partition, also of a table that has partitions by now."""
    current = table.spec()
    if current.isUnpartitioned():
        return current
    for spec in table.specs().values():
        if spec.isUnpartitioned():
            return spec
    raise partitioned_meanwhile(table.name())


def partitioned_meanwhile(title: str) -> Conflict:
    """Return the error for files and deletion vectors that name no partition, but need one."""
    return Conflict(f"table {title!r} was partitioned meanwhile; run the statement again")


def discard(table: Any, transaction: Any) -> None:
    """Remove the manifests of a snapshot that was not committed."""
    snapshot = transaction.currentMetadata().currentSnapshot()
    with suppress(Exception):
        for manifest in snapshot.allManifests(table.io()):
            if manifest.snapshotId() == snapshot.snapshotId():
                table.io().deleteFile(manifest.path())
        table.io().deleteFile(snapshot.manifestListLocation())


def _remove_unused(table: Any, transaction: Any) -> None:
    """Remove manifests that the commit wrote and then joined with others into one.

    `commitTransaction` would remove them, but it also repeats the change on another base.
    """
    with suppress(Exception):
        method = transaction.getClass().getDeclaredMethod("deletedFiles", None)
        method.setAccessible(True)
        deleted = method.invoke(transaction, None)
        # The end of an iterator is an exception in Java, which takes PySpark 70 calls to read.
        if deleted.isEmpty():
            return
        snapshot = transaction.currentMetadata().currentSnapshot()
        used = {manifest.path() for manifest in snapshot.allManifests(table.io())}
        for location in set(deleted) - used:
            table.io().deleteFile(location)


def _delete_file(session: SparkConnection, table: Any, vector: DeletionVector) -> Any:
    builder = static(session, "FileMetadata.deleteFileBuilder")(table.spec())
    return (
        builder.ofPositionDeletes()
        .withFormat("PUFFIN")
        .withPath(vector.location)
        .withFileSizeInBytes(vector.file_size)
        .withReferencedDataFile(vector.data_file)
        .withContentOffset(vector.offset)
        .withContentSizeInBytes(vector.length)
        .withRecordCount(vector.rows)
        .build()
    )
