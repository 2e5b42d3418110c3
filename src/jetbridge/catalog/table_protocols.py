"""The capabilities of tables: one Protocol each, as in `jetbridge.catalog.protocols`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from jetbridge.catalog.alterations import Alteration
from jetbridge.catalog.protocols import Table, Write
from jetbridge.catalog.values import AsOf, DMLOptions, Scan


@runtime_checkable
class CanAlter(Protocol):
    """Support ALTER TABLE.

    Examples:
        >>> table.alter(RenameTable("sales")).info().name
        'sales'
    """

    def alter(self, change: Alteration) -> Table:
        """Make the whole change or nothing; return the table as it is afterwards.

        Raises NotFound, AlreadyExists, BadRequest, FailedPrecondition if a value cannot be kept,
        and NotSupported for a kind of change that the table does not support.
        """


@runtime_checkable
class CanInsert(Protocol):
    """Support INSERT into a table.

    Examples:
        >>> with table.inserting(DMLOptions()) as write:
        ...     write(pa.record_batch({"id": [4], "city": ["Ulm"]})).affected_rows
        1
    """

    def inserting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """Run one INSERT: each write takes columns by name and stages them.

        A clean exit publishes all rows at once. An exception leaves the table unchanged. A column
        that is not sent gets its default, or NULL. Values are cast to the type of the column; a
        value that does not fit raises BadRequest with its row and column. With RETURNING, each
        write returns its rows as they will be stored, in order: all visible columns, then
        `rowid`. Raises ConstraintViolation and DuplicateKey, at the latest on exit.
        """


@runtime_checkable
class CanUpdate(Protocol):
    """Change rows of a table by row id.

    Examples:
        >>> with table.updating(DMLOptions()) as write:
        ...     write(pa.record_batch({"rowid": [0], "city": ["Bonn"]})).affected_rows
        1
    """

    def updating(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """Run one UPDATE: each write takes new values by name, and `rowid`.

        It publishes as `inserting` does. A row that was changed or deleted since this handle was
        loaded raises Conflict, and nothing is published. If a row id comes twice, the last one
        wins. With RETURNING, each write returns the columns that it was sent, in that order.
        """


@runtime_checkable
class CanDelete(Protocol):
    """Delete rows of a table by row id.

    Examples:
        >>> with table.deleting(DMLOptions()) as write:
        ...     write(pa.record_batch({"rowid": [0, 1]})).affected_rows
        2
    """

    def deleting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """Run one DELETE: each write takes one column, `rowid`. It publishes as `updating` does.

        With RETURNING, each write returns the deleted rows: all visible columns, then `rowid`.
        """


@runtime_checkable
class CanMerge(Protocol):
    """Change, delete and insert rows of a table in one statement.

    Examples:
        >>> class Merged:
        ...     def merging(self):
        ...         raise NotImplementedError
        >>> supports(Merged(), CanMerge)
        True
    """

    def merging(self) -> AbstractContextManager[Write]:
        """Run one MERGE INTO: each write takes all columns, `rowid` and `MERGE_ACTION`.

        `MERGE_ACTION` is a value of `Merging`; a new row has no row id. A row id that comes twice
        raises BadRequest. It publishes as `updating` and `inserting` do.
        """


@runtime_checkable
class CanLayOut(Protocol):
    """Divide the files of a table into partitions, or sort them.

    Examples:
        >>> class LaidOut:
        ...     def lay_out(self, partition_by, sort_by):
        ...         return self
        >>> supports(LaidOut(), CanLayOut)
        True
    """

    def lay_out(self, partition_by: str | None, sort_by: str | None) -> Table:
        """Set the layout for rows to come; return the table afterwards, with the same rows.

        None leaves one of them unchanged, '' removes it. Both happen, or neither. `partition_by`
        is written as `day(ts), bucket(8, id), truncate(4, name), region`, and `sort_by` as
        `id, ts DESC NULLS LAST`. Raises BadRequest, which names what is wrong.
        """


@runtime_checkable
class CanTravel(Protocol):
    """Keep past versions of a table.

    Examples:
        >>> with table.deleting(DMLOptions()) as write:
        ...     write(pa.record_batch({"rowid": [0, 1, 2]})).affected_rows
        3
        >>> table = catalog.load_schema("shop").load_table("orders")
        >>> table.count_rows(), table.at(AsOf(AtUnit.VERSION, "1")).count_rows()
        (0, 3)
    """

    def at(self, point: AsOf) -> Table:
        """Return a past version, to be read; raises NotFound, which names the oldest one kept."""


@runtime_checkable
class CanSplit(Protocol):
    """Divide a table into splits that are read at the same time.

    Examples:
        >>> len(table.split(Scan()))
        1
    """

    def split(self, request: Scan) -> Sequence[str]:
        """Return names for `Scan.part`, at least one; together they cover every row once."""


@runtime_checkable
class CanCount(Protocol):
    """Count the rows of a table, for progress bars and the planner of the client.

    Examples:
        >>> table.count_rows()
        3
    """

    def count_rows(self) -> int:
        """Return the number of rows, without reading them."""
