"""The interfaces that a catalog implements: a small core, and one Protocol for each capability.

Names match without regard to case and keep their spelling. Every method may be called from
several threads at once. Methods raise the errors of `jetbridge.errors`; any other error reaches
the client as INTERNAL with a trace id. A `Table` is a handle on the table as it was when it was
loaded: its `info` and `scan` never change, however often the table is written afterwards.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import pyarrow as pa

from jetbridge.catalog.engines import SpoolFolder
from jetbridge.catalog.values import (
    CatalogVersion,
    CreateTable,
    DMLResult,
    Scan,
    SchemaInfo,
    TableInfo,
)

T = TypeVar("T")


def supports(candidate: Any, capability: type[T]) -> TypeGuard[T]:
    """Return whether an object has a capability.

    `isinstance` would look at every method of the Protocol each time. Here the answer for a class
    is kept, so all objects of a class must have the same capabilities.

    Args:
        candidate: A catalog, schema or table.
        capability: A Protocol of `jetbridge.catalog`.

    Examples:
        >>> supports(MemoryCatalog(), CanSnapshot), supports(MemoryCatalog(), CanClose)
        (True, False)
    """
    return issubclass(type(candidate), capability)


@runtime_checkable
class Table(Protocol):
    """Represent one version of a table.

    Examples:
        >>> pa.Table.from_batches(table.scan(Scan(("id", "city")))).to_pylist()[0]
        {'id': 1, 'city': 'Ulm'}
    """

    def info(self) -> TableInfo:
        """Return name, columns, constraints and version. Cheap: called for every statement."""

    def scan(self, request: Scan) -> Iterable[pa.RecordBatch]:
        """Read rows, as batches of exactly `request.columns` with the types of `info().schema`.

        Reading is lazy: the caller may stop early, and then closes the iterator if it has `close`.
        """


@runtime_checkable
class Schema(Protocol):
    """Represent a schema with its tables.

    Examples:
        >>> [table.info().name for table in catalog.load_schema("shop").list_tables()]
        ['orders']
    """

    def info(self) -> SchemaInfo:
        """Return name, comment and tags."""

    def list_tables(self) -> Sequence[Table]:
        """Return all tables, by name."""

    def load_table(self, name: str) -> Table:
        """Return the table as it is now; raises NotFound."""


@runtime_checkable
class Catalog(Protocol):
    """Represent a named collection of schemas, which clients ATTACH.

    Examples:
        >>> [schema.info().name for schema in catalog.list_schemas()]
        ['shop']
    """

    def list_schemas(self) -> Sequence[Schema]:
        """Return all schemas, by name."""

    def load_schema(self, name: str) -> Schema:
        """Return the schema as it is now; raises NotFound."""

    def version(self) -> CatalogVersion:
        """Return a number that rises with every DDL statement. Cheap: called for each one."""


@runtime_checkable
class CanSnapshot(Protocol):
    """Let clients read all tables of a catalog from one snapshot.

    Examples:
        >>> before = catalog.snapshot().load_schema("shop").load_table("orders")
        >>> with table.deleting(DMLOptions()) as write:
        ...     write(pa.record_batch({"rowid": [0, 1, 2]})).affected_rows
        3
        >>> before.count_rows(), catalog.load_schema("shop").load_table("orders").count_rows()
        (3, 0)
    """

    def snapshot(self) -> Catalog:
        """Return all schemas and tables as they are now, for the reads of one transaction.

        Its tables can be written if the live ones can. A write goes to the live table, and raises
        Conflict for a row that was changed after the snapshot. A table that was dropped since
        raises NotFound, and one whose version is no longer kept raises Conflict.
        """


@runtime_checkable
class CanList(Protocol):
    """Collect once what a client requests when it attaches a catalog.

    Examples:
        >>> [schema.info().name for schema in catalog.listing().list_schemas()]
        ['shop']
    """

    def listing(self) -> Catalog:
        """Return version, schemas and tables of one snapshot, to be listed at once and not kept.

        Nothing is read again later: a table that is dropped since may still be listed.
        """


@runtime_checkable
class CanExpire(Protocol):
    """Hold a resource, such as a connection, until a snapshot is forgotten.

    Examples:
        >>> class Pinned:
        ...     def allow_expiry(self):
        ...         print("ends when it is idle")
        >>> supports(Pinned(), CanExpire)
        True
    """

    def allow_expiry(self) -> None:
        """Let the snapshot give the resource back if nobody uses it for a while.

        Whoever keeps a snapshot and cannot tell when it ends calls this. A table of an expired
        snapshot raises FailedPrecondition.
        """


@runtime_checkable
class CanClose(Protocol):
    """Close the connections, files and threads of a catalog.

    Examples:
        >>> class Connected:
        ...     def close(self):
        ...         print("disconnected")
        >>> supports(Connected(), CanClose)
        True
    """

    def close(self) -> None:
        """Give back what the catalog holds. Nobody uses the catalog afterwards."""


@runtime_checkable
class CanSweep(Protocol):
    """Remove what crashes leave in a catalog: files, staging tables, locks.

    Examples:
        >>> class Staged:
        ...     def start_sweeper(self):
        ...         pass
        ...     def sweep(self):
        ...         return ["dbo.left_over"]
        >>> supports(Staged(), CanSweep)
        True
    """

    def start_sweeper(self) -> None:
        """Start to remove it in the background, until the catalog is closed; returns at once."""

    def sweep(self) -> Sequence[str]:
        """Remove it now, and return the names of what was removed.

        Never removes what a running statement, of this process or another one, still needs.
        """


@runtime_checkable
class CanSpool(Protocol):
    """Provide room in a catalog for the rows of queries that Spark runs.

    Examples:
        >>> class InFiles:
        ...     def spool_folder(self):
        ...         return SpoolFolder("/data/spool")
        >>> supports(InFiles(), CanSpool)
        True
    """

    def spool_folder(self) -> SpoolFolder | None:
        """Return where the rows go, or None if this catalog has no room for them."""


@runtime_checkable
class CanCreateSchemas(Protocol):
    """Support CREATE SCHEMA and DROP SCHEMA in a catalog.

    Examples:
        >>> catalog.create_schema(SchemaInfo("archive")).info().name
        'archive'
    """

    def create_schema(self, info: SchemaInfo) -> Schema:
        """Create a schema and return it; raises AlreadyExists, and BadRequest for a bad name."""

    def drop_schema(self, name: str) -> None:
        """Drop a schema; raises NotFound, and FailedPrecondition while it has tables."""


@runtime_checkable
class CanConfigure(Protocol):
    """Support settings of a catalog, which a session may set for its own statements.

    Examples:
        >>> class Configurable:
        ...     def configured(self, values):
        ...         return self
        >>> supports(Configurable(), CanConfigure)
        True
    """

    def configured(self, values: Mapping[str, str], /) -> Catalog:
        """Return the same catalog with other values of settings, by their full names.

        Cheap, and both may be used at once. Connections and the like belong to the first one,
        which is also the one to close. Raises BadRequest for an unknown name or a value that is
        not allowed.
        """


@runtime_checkable
class CanDefaultSchema(Protocol):
    """Name the schema of a catalog for names without a schema, besides `main`.

    Examples:
        >>> class WithDbo:
        ...     def default_schema(self):
        ...         return "dbo"
        >>> supports(WithDbo(), CanDefaultSchema)
        True
    """

    def default_schema(self) -> str:
        """Return the schema of such names where the catalog has no schema `main`."""


@runtime_checkable
class CanCreateTables(Protocol):
    """Support CREATE TABLE and DROP TABLE in a schema.

    Examples:
        >>> schema = catalog.load_schema("shop")
        >>> schema.create_table(CreateTable("items", pa.schema([("id", pa.int64())]))).info().name
        'items'
    """

    def create_table(self, request: CreateTable) -> Table:
        """Create a table and return it. REPLACE swaps an existing one in one step.

        With IGNORE, returns the existing table. Raises AlreadyExists, and BadRequest for a column
        or constraint that is not supported.
        """

    def drop_table(self, name: str) -> None:
        """Drop a table; raises NotFound."""


Write = Callable[[pa.RecordBatch], DMLResult]


@runtime_checkable
class CanFill(Protocol):
    """Create a table with its rows in one step.

    Examples:
        >>> schema = catalog.load_schema("shop")
        >>> with schema.creating(CreateTable("items", pa.schema([("id", pa.int64())]))) as write:
        ...     write(pa.record_batch({"id": [1, 2]})).affected_rows
        2
    """

    def creating(self, request: CreateTable) -> AbstractContextManager[Write]:
        """Run one CREATE TABLE AS: each write takes all columns by name and stages them.

        A clean exit publishes the table with all rows at once, with REPLACE in the place of
        another one. An exception leaves everything unchanged. Raises what `create_table` and
        `inserting` raise, and AlreadyExists also with IGNORE.
        """
