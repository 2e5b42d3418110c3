"""The interfaces a catalog implements: a small core, and one Protocol per capability.

Names match without regard to case and keep their spelling. Every method may be called from
several threads at once. Methods raise the errors of `jetbridge.errors`; anything else reaches the
client as INTERNAL with a trace id. A `Table` is a handle on the table as it was when it was
loaded: its `info` and `scan` never change, however often the table is written afterwards.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import pyarrow as pa

from jetbridge.catalog.alterations import Alteration
from jetbridge.catalog.engines import SpoolFolder
from jetbridge.catalog.values import (
    AsOf,
    CatalogVersion,
    CreateTable,
    DMLOptions,
    DMLResult,
    Scan,
    SchemaInfo,
    TableInfo,
)

T = TypeVar("T")


def supports(candidate: Any, capability: type[T]) -> TypeGuard[T]:
    """Whether the class of an object has a capability.

    `isinstance` would look at every method of the Protocol each time; a class's answer is kept.
    """
    return issubclass(type(candidate), capability)


@runtime_checkable
class Table(Protocol):
    def info(self) -> TableInfo:
        """Name, columns, constraints and version; cheap, called for every statement."""

    def scan(self, request: Scan) -> Iterable[pa.RecordBatch]:
        """The rows, as batches of exactly `request.columns` with the types of `info().schema`.

        Reading is lazy: the caller may stop early and closes the iterator if it has `close`.
        """


@runtime_checkable
class Schema(Protocol):
    def info(self) -> SchemaInfo:
        """Name, comment and tags."""

    def list_tables(self) -> Sequence[Table]:
        """All tables, by name."""

    def load_table(self, name: str) -> Table:
        """The table as it is now; raises NotFound."""


@runtime_checkable
class Catalog(Protocol):
    def list_schemas(self) -> Sequence[Schema]:
        """All schemas, by name."""

    def load_schema(self, name: str) -> Schema:
        """Raises NotFound."""

    def version(self) -> CatalogVersion:
        """Rises with every DDL statement; cheap, called for every statement."""


@runtime_checkable
class CanSnapshot(Protocol):
    """A catalog whose tables can all be read as of one moment."""

    def snapshot(self) -> Catalog:
        """All schemas and tables as they are now, for the reads of one transaction.

        Its tables take writes too, if the live ones do: such a write goes to the live table, and
        raises Conflict for a row that was changed after the snapshot. A table that is dropped
        meanwhile raises NotFound, and one whose version is no longer kept Conflict.
        """


@runtime_checkable
class CanList(Protocol):
    """A catalog that looks up once what a client asks for when it attaches."""

    def listing(self) -> Catalog:
        """The version, schemas and tables of one moment, to be listed at once and not kept.

        Nothing is looked up again: a table that is dropped meanwhile may still be listed.
        """


@runtime_checkable
class CanExpire(Protocol):
    """A snapshot that holds a resource, such as a connection, until it is forgotten."""

    def allow_expiry(self) -> None:
        """Let the snapshot give the resource back when nobody has used it for a while.

        Whoever keeps a snapshot without saying when it ends calls this. A table of an expired
        snapshot raises FailedPrecondition.
        """


@runtime_checkable
class CanClose(Protocol):
    """A catalog that holds connections, files or threads."""

    def close(self) -> None:
        """Give back what the catalog holds; nobody uses it afterwards."""


@runtime_checkable
class CanSweep(Protocol):
    """A catalog in which crashes leave something behind: files, staging tables, locks."""

    def start_sweeper(self) -> None:
        """Start to remove it in the background, until the catalog is closed; returns at once."""

    def sweep(self) -> Sequence[str]:
        """Remove it now, and return the names of what was removed.

        Never removes what a running statement, of this process or another one, still needs.
        """


@runtime_checkable
class CanSpool(Protocol):
    """A catalog with room for the rows of queries that Spark runs."""

    def spool_folder(self) -> SpoolFolder | None:
        """Return where the rows go, or None if this catalog has no room for them."""


@runtime_checkable
class CanCreateSchemas(Protocol):
    """A catalog that takes CREATE SCHEMA and DROP SCHEMA."""

    def create_schema(self, info: SchemaInfo) -> Schema:
        """Raises AlreadyExists."""

    def drop_schema(self, name: str) -> None:
        """Raises NotFound, and FailedPrecondition while the schema has tables."""


@runtime_checkable
class CanConfigure(Protocol):
    """A catalog whose kind has settings, which a session may set for its own statements."""

    def configured(self, given: Mapping[str, str]) -> Catalog:
        """The same catalog with other values of settings, by their full names.

        Cheap, and both may be used at once: connections and whatever else is open belong to the
        first one, which is also the one to be closed. Raises BadRequest for a name or a value
        that it does not know.
        """


@runtime_checkable
class CanDefaultSchema(Protocol):
    """A catalog with a schema for names that say no schema, beside `main`."""

    def default_schema(self) -> str:
        """Return the schema of such names where the catalog has no schema `main`."""


@runtime_checkable
class CanCreateTables(Protocol):
    """A schema that takes CREATE TABLE and DROP TABLE."""

    def create_table(self, request: CreateTable) -> Table:
        """The new table, or with IGNORE the one that is there; REPLACE swaps it in one step.

        Raises AlreadyExists, and BadRequest for a column or constraint it cannot take.
        """

    def drop_table(self, name: str) -> None:
        """Raises NotFound."""


Write = Callable[[pa.RecordBatch], DMLResult]


@runtime_checkable
class CanFill(Protocol):
    """A schema that makes a table with its rows in one step."""

    def creating(self, request: CreateTable) -> AbstractContextManager[Write]:
        """CREATE TABLE AS: each write takes all columns by name and stages them.

        A clean exit publishes the table with all rows at once, in the place of another one with
        REPLACE; an exception leaves everything as it was. Raises what `create_table` and
        `inserting` raise, and AlreadyExists with IGNORE, too.
        """


@runtime_checkable
class CanAlter(Protocol):
    """A table that takes ALTER TABLE."""

    def alter(self, change: Alteration) -> Table:
        """Makes the change wholly or not at all; answers the table as it is afterwards.

        Raises NotFound, AlreadyExists, BadRequest, FailedPrecondition where a value does not
        survive, and NotSupported for a kind of change it does not know.
        """


@runtime_checkable
class CanInsert(Protocol):
    """A table that takes INSERT."""

    def inserting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """One statement: each write takes the columns by name and stages them.

        A clean exit publishes all rows at once; an exception leaves the table as it was.
        A column that is not sent gets its default, or NULL. Values are cast to the column's
        type; a value that does not fit raises BadRequest with its row and column.
        With RETURNING each write answers its rows as they will be stored, in order: all visible
        columns, then `rowid`. Raises ConstraintViolation and DuplicateKey, at the latest on exit.
        """


@runtime_checkable
class CanUpdate(Protocol):
    """A table whose rows can be changed by row id."""

    def updating(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """One statement: each write takes the new values by name, and `rowid`.

        As `inserting`; a row that was changed or deleted by someone else after this handle was
        loaded raises Conflict, and nothing is applied. A row id that comes twice: the last wins.
        With RETURNING each write answers the columns it was sent, in the order it was sent.
        """


@runtime_checkable
class CanDelete(Protocol):
    """A table whose rows can be deleted by row id."""

    def deleting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """One statement: each write takes one column, `rowid`. As `updating`.

        With RETURNING each write answers the deleted rows: all visible columns, then `rowid`.
        """


@runtime_checkable
class CanMerge(Protocol):
    """A table whose rows change, go and come in one statement."""

    def merging(self) -> AbstractContextManager[Write]:
        """One MERGE INTO: each write takes all columns, `rowid` and `MERGE_ACTION`.

        `MERGE_ACTION` is a value of `Merging`; a row that is new has no row id. A row id that
        comes twice raises BadRequest. As `updating` and `inserting`, all of it or nothing.
        """


@runtime_checkable
class CanLayOut(Protocol):
    """A table whose rows lie in partitions or in an order."""

    def lay_out(self, partition_by: str | None, sort_by: str | None) -> Table:
        """For the rows to come; None leaves as it is, '' takes away. Both or neither happen.

        `partition_by` is as in `day(ts), bucket(8, id), truncate(4, name), region`, `sort_by` as
        in `id, ts DESC NULLS LAST`. Answers the table afterwards; what it holds is the same.
        Raises BadRequest that names what is wrong.
        """


@runtime_checkable
class CanTravel(Protocol):
    """A table that keeps its past."""

    def at(self, point: AsOf) -> Table:
        """The table as it was, to be read; raises NotFound with the oldest version kept."""


@runtime_checkable
class CanSplit(Protocol):
    """A table that can be read in parts at the same time."""

    def split(self, request: Scan) -> Sequence[str]:
        """Names of parts that together hold every row once, for `Scan.part`; at least one."""


@runtime_checkable
class CanCount(Protocol):
    """A table that knows its size; used for progress and for the planner of the client."""

    def count_rows(self) -> int:
        """The number of rows, without reading them."""
