"""What catalogs may offer to the engines that run queries, beside batches of Arrow.

Every table can be read as batches. DuckDB and Spark read some by themselves, in parallel and no
more of them than a query needs; and Spark can make a table without its rows leaving Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jetbridge.catalog.values import CreateTable, Scan


@dataclass(frozen=True)
class Reach:
    """What DuckDB needs to read the tables of a catalog: folders, and statements with secrets."""

    folders: Sequence[str]
    secrets: Sequence[str] = field(default=(), repr=False)


@runtime_checkable
class CanBeReached(Protocol):
    """A catalog whose tables DuckDB reads by itself."""

    def reach(self) -> Reach:
        """The same for all its tables."""


@runtime_checkable
class CanRelate(Protocol):
    """A table that DuckDB reads by itself."""

    def relation(self, *, row_ids: bool = False) -> AbstractContextManager[str | None]:
        """SQL with the columns of `info()`, and `rowid` at the end if that is wanted.

        It is good for the time of the block. None: not this table, not now; so scan it.
        """


# Given Spark, and what is needed of a table.
Prepare = Callable[[Any, Scan], AbstractContextManager[None]]


@dataclass(frozen=True)
class SparkRelation:
    """A table in Spark SQL, to stand in brackets.

    `types` are those of DuckDB, of the columns that Spark has just so; `missing` of the others.
    `size` is in bytes of its files. `prepare` makes what `sql` names, for a table that Spark does
    not have by itself: it is given Spark and what is needed of the table, which it may give NULL
    for otherwise.
    """

    sql: str
    types: Mapping[str, str]
    missing: Mapping[str, str]
    size: int
    prepare: Prepare | None = None


# Takes Spark and a query in Spark SQL. While the block lasts, its rows are in files, which the
# `jetbridge.spark.written_rows.Written` that it gives names.
SpoolRows = Callable[[Any, str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class SpoolFolder:
    """Where the rows of a query on Spark go before they are read.

    `location` is a folder that Spark's workers can write, or a location that `spool` writes to.
    `prefix` returns the beginning of a name in the folder by which the owner recognizes what
    crashes have left; None: whoever uses the folder takes care of that.
    """

    location: str
    prefix: Callable[[], str] | None = None
    spool: SpoolRows | None = None


@runtime_checkable
class CanRelateOnSpark(Protocol):
    """A table that Spark reads by itself."""

    def spark_relation(self) -> SparkRelation | None:
        """The table as it was when the handle was loaded; None: not this one."""


@dataclass(frozen=True)
class Filled:
    """What a table got; `size` is in bytes."""

    rows: int
    size: int


@runtime_checkable
class CanFillOnSpark(Protocol):
    """A schema in which Spark makes tables."""

    def create_on_spark(self, request: CreateTable, query: str) -> Filled:
        """As `CanFill.creating`, with the rows of a query in Spark SQL.

        Its columns have the names of the request and Spark's types for DuckDB's. A task that
        fails is done again, and no row comes twice.
        """
