"""The backends under test, what each claims to do, and words to talk to their tables."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import (
    CanAlter,
    CanBeReached,
    CanClose,
    CanConfigure,
    CanCount,
    CanCreateSchemas,
    CanCreateTables,
    CanDefaultSchema,
    CanDelete,
    CanFill,
    CanFillOnSpark,
    CanInsert,
    CanLayOut,
    CanList,
    CanMerge,
    CanRelate,
    CanRelateOnSpark,
    CanSnapshot,
    CanSplit,
    CanSpool,
    CanSweep,
    CanTravel,
    CanUpdate,
    DMLOptions,
    Scan,
)
from tests.helpers.lakes import engine, new_lake
from tests.helpers.mssql_server import is_babelfish, new_catalog

CATALOG_CAPABILITIES = frozenset(
    {CanSnapshot, CanList, CanCreateSchemas, CanBeReached, CanClose, CanSweep, CanSpool}
) | {CanConfigure, CanDefaultSchema}
SCHEMA_CAPABILITIES = frozenset({CanCreateTables, CanFill, CanFillOnSpark})
TABLE_CAPABILITIES = frozenset(
    {CanAlter, CanInsert, CanUpdate, CanDelete, CanMerge, CanLayOut, CanTravel, CanSplit, CanCount}
) | {CanRelate, CanRelateOnSpark}


@dataclass(frozen=True)
class Harness:
    """Describe a backend; `make` returns an empty catalog for CREATE SCHEMA and CREATE TABLE.

    `with_spark`: the same with an engine to run queries, where `make` gives one without.
    `returns_row_ids`: INSERT RETURNING knows the row ids before the rows are published.
    `keyed`: rows have ids by their primary key only, so tables with a column `id` or `n` get one.
    A row that someone else has changed is then the same row still and takes the new values; one
    that is gone, or never was, raises Conflict.
    `frozen`: a handle keeps the rows that it was loaded with. Else it reads what is there when it
    is asked, and raises Conflict if its columns are not; one moment is a snapshot's, from its
    first read on, and schemas and tables are always those of now.
    `comments`: comments of tables and columns are kept.
    `schema_comments`: comments and tags of schemas are kept.
    `always`: schemas that are there from the beginning and stay.
    `own_words`: constraints are judged here, with the first row that breaks them in the message.
    Else by the server, whose message has the table and the number of the error.
    `nulls_clash`: two NULLs are a duplicate for UNIQUE.
    `longest_key`: characters of a text in a key.
    `own_types`: a column may come back with another type of the same values, as it is stored.
    `lacks`: types of DuckDB that no column can have, for one or for both kinds of clients.
    `refuses`: types, and how clients send them, with a value in the tests that cannot be kept.
    `computes`: ALTER COLUMN ... TYPE ... USING takes any expression, not only a cast.
    """

    make: Callable[[], Any]
    claims: frozenset[type]
    with_spark: Callable[[], Any] | None = None
    returns_row_ids: bool = True
    keyed: bool = False
    frozen: bool = True
    comments: bool = True
    schema_comments: Callable[[], bool] = lambda: True
    always: tuple[str, ...] = ()
    own_words: bool = True
    nulls_clash: bool = False
    longest_key: int = 10_000
    own_types: bool = False
    lacks: frozenset[tuple[str, str]] = frozenset()
    refuses: frozenset[tuple[str, str]] = frozenset()
    computes: bool = True

    def has_structs(self) -> bool:
        return not any(kind.startswith("STRUCT") for kind, _ in self.lacks)

    def words(self, own: str, table: str) -> str:
        """Return what a refusal must say: our words, or at least the table."""
        return own if self.own_words else table


# What lets DuckDB and Spark read and write by themselves.
ENGINES = frozenset({CanBeReached, CanRelate, CanRelateOnSpark, CanFillOnSpark, CanSpool})
# What a backend of one vendor needs.
VENDOR = frozenset({CanConfigure, CanDefaultSchema})
ALL = CATALOG_CAPABILITIES | SCHEMA_CAPABILITIES | TABLE_CAPABILITIES


def _both(*kinds: str) -> frozenset[tuple[str, str]]:
    return frozenset((kind, client) for kind in kinds for client in ("lossless", "plain"))


# A client that is not lossless sends the three at the end as text or as a number.
_LACKED_BY_MSSQL = _both(
    *("BIGNUM", "TIME_NS", "TIMESTAMP_NS", "INTERVAL", "INTEGER[]", "UUID[]", "INTEGER[2]"),
    *("STRUCT(a INTEGER, b BOOLEAN)", "STRUCT(h HUGEINT[], u UUID)", "MAP(VARCHAR, BOOLEAN)"),
    *("UNION(n INTEGER, s VARCHAR)", "GEOMETRY"),
) | {(kind, "lossless") for kind in ("UHUGEINT", "BIT", "TIMETZ")}
# A new backend is one line here.
HARNESSES = {
    "memory": Harness(
        MemoryCatalog, ALL - {CanLayOut, CanMerge, CanClose, CanSweep} - ENGINES - VENDOR
    ),
    # A client that is not lossless sends a HUGEINT of 39 digits as DECIMAL(38,0).
    "lake": Harness(
        new_lake, ALL - VENDOR, returns_row_ids=False, refuses=frozenset({("HUGEINT", "plain")})
    ),
    # In the default collation of the server, and with ALLOW_SNAPSHOT_ISOLATION.
    "mssql": Harness(
        partial(new_catalog, mssql_ctas_extended_types="true"),
        ALL - {CanBeReached, CanList, CanRelate, CanLayOut, CanTravel},
        with_spark=lambda: new_catalog(engine(), mssql_ctas_drop_on_failure="true"),
        keyed=True,
        frozen=False,
        computes=False,
        comments=False,
        schema_comments=lambda: not is_babelfish(),
        always=("dbo",),
        own_words=False,
        nulls_clash=True,
        longest_key=450,
        own_types=True,
        lacks=_LACKED_BY_MSSQL,
        # NaN, infinity, years before 1 and after 9999; 39 digits; `tinyint` is 0 to 255.
        refuses=_both("TINYINT", "HUGEINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP"),
    ),
}

RETURNING = DMLOptions(returning=True)
SILENT = DMLOptions()


def insert(table: Any, data: Any, options: DMLOptions = SILENT) -> Any:
    """Run one statement with one write."""
    with table.inserting(options) as write:
        return write(as_batch(data))


def update(table: Any, data: Any, options: DMLOptions = SILENT) -> Any:
    with table.updating(options) as write:
        return write(as_batch(data))


def delete(table: Any, rowids: Any, options: DMLOptions = SILENT) -> Any:
    with table.deleting(options) as write:
        return write(pa.record_batch({"rowid": pa.array(rowids, pa.int64())}))


def as_batch(data: Any) -> pa.RecordBatch:
    return data if isinstance(data, pa.RecordBatch) else pa.record_batch(data)


def read(table: Any, columns: tuple[str, ...] | None = None, **request: Any) -> pa.Table:
    batches = list(table.scan(Scan(columns, **request)))
    if batches:
        return pa.Table.from_batches(batches)
    names = [*table.info().schema.names, "rowid"] if columns is None else columns
    return pa.table({name: [] for name in names})


def rows(table: Any, *columns: str, **request: Any) -> list[tuple[Any, ...]]:
    """Return the contents as sorted tuples."""
    wanted = columns or tuple(table.info().schema.names)
    data = read(table, wanted, **request)
    return sorted(zip(*(data.column(n).to_pylist() for n in wanted), strict=True), key=repr)


def rowids(table: Any, column: str, value: Any) -> list[int]:
    """Return the row ids of the rows with this value."""
    data = read(table, (column, "rowid")).to_pydict()
    return [r for v, r in zip(data[column], data["rowid"], strict=True) if v == value]
