"""Commits through Iceberg's Java API, in the JVM that Spark runs in.

Every change of a table names the metadata file it starts from, and is made only if that is still
the current one; else `Stale` is raised and the caller looks again. So whatever the caller found
out about the table still holds when his change is published, whichever engine works beside him.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.errors import (
    AlreadyExists,
    Conflict,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    ServerError,
    Unavailable,
)
from jetbridge.runtime.cancellation import current
from jetbridge.spark.engine import SparkConnection, SparkEngine
from jetbridge.spark.errors import is_java, java_message

Json = dict[str, Any]
_ICEBERG = "org.apache.iceberg.exceptions."
# In the summary of a snapshot: which change made it.
MARK = "jetbridge.change"


class CommitRefused(Unavailable):
    """The catalog has refused the change, so nobody need wonder whether it was made."""


class StaleMetadata(Exception):  # noqa: N818 - never leaves the backend
    """The table has another metadata file than the one the change starts from."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file with rows, not part of the table yet."""

    location: str
    rows: int


@dataclass(frozen=True)
class DeletionVector:
    """Deleted positions of one data file: a blob in a Puffin file."""

    location: str
    data_file: str
    offset: int
    length: int
    rows: int
    file_size: int


@dataclass(frozen=True)
class TableCommit:
    """What one commit does, all of it or nothing.

    `fields` and `properties` redefine the table; `replaces_rows` takes all rows away before the
    new files come. A change without rows still makes a snapshot, so that every change of a table
    is a version that AT can name. The summary of that snapshot has the `mark`.
    """

    fields: Sequence[Json] | None = None
    identifiers: Sequence[int] = ()
    properties: Mapping[str, str] | None = None
    files: Sequence[DataFile] = ()
    added: Sequence[DeletionVector] = ()
    removed: Sequence[DeletionVector] = ()
    replaces_rows: bool = False
    mark: str = field(default_factory=lambda: uuid4().hex)

    def is_in(self, state: TableState) -> bool:
        """Whether the table has it; for a commit whose answer was lost."""
        return any((each.get("summary") or {}).get(MARK) == self.mark for each in state.snapshots())


class IcebergCommitter:
    def __init__(
        self, engine: SparkEngine, catalog: str, entered: Callable[[SparkConnection], None]
    ) -> None:
        """`entered` is told of each session before it is used."""
        self._engine, self._catalog, self._entered = engine, catalog, entered
        self._known: tuple[SparkConnection, Any] | None = None

    @contextmanager
    def _java(self, what: str) -> Iterator[tuple[SparkConnection, Any]]:
        with self._engine.session() as session, translating(what):
            self._entered(session)
            yield session, self._java_catalog(session)

    def _java_catalog(self, session: SparkConnection) -> Any:
        """Spark hands out the same object as long as its session lives; to ask takes 20 calls."""
        known = self._known
        if known is None or known[0] is not session:
            known = self._known = (session, session.catalog(self._catalog))
        return known[1]

    def change(self, state: TableState, change: TableCommit) -> None:
        """Raises Stale if the table is no longer what `state` says."""
        with self._java(state.title()) as (session, catalog):
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
                if refused or is_java(error, _ICEBERG + "CommitFailedException"):
                    discard(table, transaction)
                raise
            _remove_unused(table, transaction)

    def _redefine(
        self, session: SparkConnection, state: TableState, transaction: Any, change: TableCommit
    ) -> None:
        current = transaction.currentMetadata()
        after = current
        if change.fields is not None:
            schema = {**state.iceberg_schema, "fields": list(change.fields)}
            schema["identifier-field-ids"] = list(change.identifiers)
            parse = static(session, "SchemaParser.fromJson")
            after = after.updateSchema(parse(json.dumps(schema)))
        if change.properties is not None:
            after = after.replaceProperties(dict(change.properties))
        transaction.table().operations().commit(current, after)

    def _write(
        self, session: SparkConnection, table: Any, transaction: Any, change: TableCommit
    ) -> None:
        files = [data_file(session, table, transaction, file) for file in change.files]
        if change.replaces_rows:
            overwrite = transaction.newOverwrite()
            overwrite.overwriteByRowFilter(static(session, "expressions.Expressions.alwaysTrue")())
            for file in files:
                overwrite.addFile(file)
            overwrite.set(MARK, change.mark).commit()
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
            delta.set(MARK, change.mark).commit()
        else:
            append = transaction.newAppend()
            for file in files:
                append.appendFile(file)
            append.set(MARK, change.mark).commit()

    def drop(self, namespace: str, name: str) -> None:
        """Takes the table out of the catalog; its files stay."""
        with self._java(f"{namespace}.{name}") as (session, catalog):
            table = identifier(session, namespace, name)
            with current().publishing():
                dropped = catalog.dropTable(table, False)
            if not dropped:
                raise NotFound("table", f"{namespace}.{name}")

    def rename(self, namespace: str, name: str, new_name: str) -> None:
        with self._java(f"{namespace}.{new_name}") as (session, catalog):
            before = identifier(session, namespace, name)
            after = identifier(session, namespace, new_name)
            with current().publishing():
                catalog.renameTable(before, after)


def static(session: SparkConnection, name: str) -> Callable[..., Any]:
    """A static method of Iceberg."""
    return session.static(f"org.apache.iceberg.{name}")


def identifier(session: SparkConnection, namespace: str, name: str) -> Any:
    if "." not in name:
        return static(session, "catalog.TableIdentifier.parse")(f"{namespace}.{name}")
    levels = namespace.split(".")
    gateway: Any = session.spark.sparkContext._gateway
    array = gateway.new_array(session.jvm.java.lang.String, len(levels))
    for index, level in enumerate(levels):
        array[index] = level
    space = static(session, "catalog.Namespace.of")(array)
    return static(session, "catalog.TableIdentifier.of")(space, name)


def data_file(session: SparkConnection, table: Any, transaction: Any, file: DataFile) -> Any:
    """A file of rows, for a commit in the same transaction."""
    source = table.io().newInputFile(file.location)
    config = static(session, "MetricsConfig.forTable")(transaction.table())
    metrics = static(session, "parquet.ParquetUtil.fileMetrics")(source, config)
    builder = static(session, "DataFiles.builder")(_plain_spec(table)).withInputFile(source)
    return builder.withFormat("PARQUET").withMetrics(metrics).build()


def _plain_spec(table: Any) -> Any:
    """The table may have been partitioned since the rows were written; they still may go in."""
    current = table.spec()
    if current.isUnpartitioned():
        return current
    for spec in table.specs().values():
        if spec.isUnpartitioned():
            return spec
    raise partitioned(table.name())


def partitioned(what: str) -> Conflict:
    """A deletion vector would have to tell in which partition its file is, for one."""
    return Conflict(f"table {what!r} was partitioned meanwhile; run the statement again")


def discard(table: Any, transaction: Any) -> None:
    """Removes the manifests of a snapshot that did not become one."""
    snapshot = transaction.currentMetadata().currentSnapshot()
    with suppress(Exception):
        for manifest in snapshot.allManifests(table.io()):
            if manifest.snapshotId() == snapshot.snapshotId():
                table.io().deleteFile(manifest.path())
        table.io().deleteFile(snapshot.manifestListLocation())


def _remove_unused(table: Any, transaction: Any) -> None:
    """Manifests that the commit wrote and then joined with others into one.

    `commitTransaction` would remove them, but it also repeats the change on another base.
    """
    with suppress(Exception):
        method = transaction.getClass().getDeclaredMethod("deletedFiles", None)
        method.setAccessible(True)
        found = method.invoke(transaction, None)
        # The end of an iterator is an exception in Java, about which PySpark asks 70 questions.
        if found.isEmpty():
            return
        snapshot = transaction.currentMetadata().currentSnapshot()
        used = {manifest.path() for manifest in snapshot.allManifests(table.io())}
        for location in set(found) - used:
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


@contextmanager
def translating(what: str) -> Iterator[None]:
    # Here, because it takes half a second to load: scans are served before Spark is.
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise translated(error, what) from error


def translated(error: Exception, what: str) -> Exception:
    """The Java error as one of ours; what nobody expected as it is."""
    for name, answer in _BY_CLASS.items():
        if is_java(error, _ICEBERG + name):
            return answer(what, java_message(error))
    message = str(error)
    for text, answer in _BY_TEXT.items():
        if text in message:
            return answer(what, message)
    return error


_UNKNOWN = (
    "nobody knows whether the change of {!r} was made: the catalog did not answer; "
    "look at the table before you try again"
)
_LOCKED = "the catalog of the lake is locked by another process; {!r} was not changed, try again"
_FULL = "the disk of the warehouse is full; {!r} was not changed, free some space there"
_SILENT = "the lake's catalog does not answer; look at {!r} before you try again"
_REFUSED = "the lake's catalog does not let the server change {!r}: look at its credentials"

Answer = Callable[[str, str], Exception]
_BY_CLASS: dict[str, Answer] = {
    "CommitFailedException": lambda _what, _why: StaleMetadata(),
    "CommitStateUnknownException": lambda what, _: Unavailable(_UNKNOWN.format(what)),
    "NoSuchTableException": lambda what, _: NotFound("table", what),
    "NoSuchNamespaceException": lambda what, _: NotFound("schema", what.rsplit(".", 1)[0]),
    "AlreadyExistsException": lambda what, _: AlreadyExists("table", what),
    "RESTException": lambda what, _: Unavailable(_SILENT.format(what)),
    "ServiceFailureException": lambda what, _: Unavailable(_SILENT.format(what)),
    "ServiceUnavailableException": lambda what, _: Unavailable(_SILENT.format(what)),
    "NotAuthorizedException": lambda what, _: PermissionDenied(_REFUSED.format(what)),
    "ForbiddenException": lambda what, _: PermissionDenied(_REFUSED.format(what)),
    "ValidationException": lambda what, why: Conflict(
        f"table {what!r} was changed by someone else: {why}"[:450]
    ),
}
_BY_TEXT: dict[str, Answer] = {
    "No space left": lambda what, _: LimitExceeded(_FULL.format(what)),
    "SQLITE_FULL": lambda what, _: LimitExceeded(_FULL.format(what)),
    "SQLITE_BUSY": lambda what, _: CommitRefused(_LOCKED.format(what)),
    "database is locked": lambda what, _: CommitRefused(_LOCKED.format(what)),
    "UncheckedSQLException": lambda what, _: Unavailable(_SILENT.format(what)),
}
