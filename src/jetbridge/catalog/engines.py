"""What catalogs may offer to the engines that run queries, beside batches of Arrow.

Every table can be read as batches. DuckDB and Spark read some tables by themselves, in parallel and
only as much as a query needs. Spark can also fill a table, so that its rows never leave Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jetbridge.catalog.values import CreateTable, Scan


@dataclass(frozen=True)
class Reach:
    """Say what DuckDB needs to read the tables of a catalog.

    Attributes:
        folders: The folders, or locations in an object store, that hold the files.
        secrets: CREATE SECRET statements of DuckDB for these locations; `repr` leaves them out.

    Examples:
        >>> Reach(["s3://bucket/lake"], ["CREATE SECRET ..."])
        Reach(folders=['s3://bucket/lake'])
    """

    folders: Sequence[str]
    secrets: Sequence[str] = field(default=(), repr=False)


@runtime_checkable
class CanBeReached(Protocol):
    """Let DuckDB read the tables of a catalog by itself.

    Examples:
        >>> class InFiles:
        ...     def reach(self):
        ...         return Reach(["/data/lake"])
        >>> supports(InFiles(), CanBeReached)
        True
    """

    def reach(self) -> Reach:
        """Return what DuckDB needs; it is the same for all tables."""


@runtime_checkable
class CanRelate(Protocol):
    """Let DuckDB read a table by itself.

    Examples:
        >>> from contextlib import contextmanager
        >>> class InFiles:
        ...     @contextmanager
        ...     def relation(self, *, row_ids=False):
        ...         yield "SELECT * FROM read_parquet('/data/lake/orders.parquet')"
        >>> supports(InFiles(), CanRelate)
        True
    """

    def relation(self, *, row_ids: bool = False) -> AbstractContextManager[str | None]:
        """Give a query in DuckDB's SQL that reads the table, valid for the block.

        It has the columns of `info()`, and with `row_ids` also `rowid` at the end. None: DuckDB
        cannot read this table now, so scan it.
        """


# Takes Spark, and the columns and rows of the table that a query needs.
Prepare = Callable[[Any, Scan], AbstractContextManager[None]]


@dataclass(frozen=True)
class SparkRelation:
    """Describe a table in Spark SQL.

    Attributes:
        sql: A query or name in Spark SQL that can stand in parentheses.
        types: DuckDB's types of the columns that Spark has with the same values, by name.
        missing: DuckDB's types of all other columns, by name.
        size: The bytes of the table's files.
        prepare: Creates what `sql` names, for the time of a block. It gets Spark and the part of
            the table that is needed, and may fill everything else with NULL. None: Spark has the
            table by itself.

    Examples:
        >>> SparkRelation("lake.shop.orders", {"id": "BIGINT"}, {}, size=4096).prepare is None
        True
    """

    sql: str
    types: Mapping[str, str]
    missing: Mapping[str, str]
    size: int
    prepare: Prepare | None = None


# Takes Spark and a query in Spark SQL. While the block lasts, its rows are in files, which the
# `jetbridge.spark.written_rows.WrittenFiles` that it gives names.
SpoolRows = Callable[[Any, str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class SpoolFolder:
    """Say where the rows of a query on Spark go before they are read.

    Attributes:
        location: A folder that Spark's workers can write, or a location that `spool` writes to.
        prefix: Returns the beginning of a file name in the folder, by which the catalog recognizes
            what crashes have left. None: whoever uses the folder removes that.
        spool: Writes the rows of a query. None: Spark writes them into the folder.

    Examples:
        >>> SpoolFolder("/data/spool").prefix is None
        True
    """

    location: str
    prefix: Callable[[], str] | None = None
    spool: SpoolRows | None = None


@runtime_checkable
class CanRelateOnSpark(Protocol):
    """Let Spark read a table by itself.

    Examples:
        >>> class OnSpark:
        ...     def spark_relation(self):
        ...         return SparkRelation("lake.shop.orders", {"id": "BIGINT"}, {}, size=4096)
        >>> supports(OnSpark(), CanRelateOnSpark)
        True
    """

    def spark_relation(self) -> SparkRelation | None:
        """Return the table as it was when the handle was loaded; None: Spark cannot read it."""


@dataclass(frozen=True)
class Filled:
    """Say what a CREATE TABLE AS has written.

    Attributes:
        rows: The number of rows.
        size: The number of bytes.

    Examples:
        >>> Filled(rows=3, size=4096).rows
        3
    """

    rows: int
    size: int


@runtime_checkable
class CanFillOnSpark(Protocol):
    """Let Spark create tables in a schema.

    Examples:
        >>> class OnSpark:
        ...     def create_on_spark(self, request, query):
        ...         return Filled(rows=3, size=4096)
        >>> supports(OnSpark(), CanFillOnSpark)
        True
    """

    def create_on_spark(self, request: CreateTable, query: str) -> Filled:
        """Do what `CanFill.creating` does, with the rows of a query in Spark SQL.

        The columns of the query have the names of the request, and Spark's types for DuckDB's.
        Spark repeats a task that fails, and no row is written twice. Raises what
        `CanFill.creating` raises, and Unavailable if Spark cannot start.
        """
