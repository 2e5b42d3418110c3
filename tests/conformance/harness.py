"""The backends under test, what each claims to do, and words to talk to their tables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import (
    CanAlter,
    CanBeReached,
    CanCount,
    CanCreateSchemas,
    CanCreateTables,
    CanDelete,
    CanFill,
    CanFillOnSpark,
    CanInsert,
    CanLayOut,
    CanMerge,
    CanRelate,
    CanRelateOnSpark,
    CanSnapshot,
    CanSplit,
    CanTravel,
    CanUpdate,
    DMLOptions,
    Scan,
)
from tests.lakes import new_lake
from tests.mssql_server import new_catalog

CATALOG_CAPABILITIES = frozenset({CanSnapshot, CanCreateSchemas, CanBeReached})
SCHEMA_CAPABILITIES = frozenset({CanCreateTables, CanFill, CanFillOnSpark})
TABLE_CAPABILITIES = frozenset(
    {CanAlter, CanInsert, CanUpdate, CanDelete, CanMerge, CanLayOut, CanTravel, CanSplit, CanCount}
) | {CanRelate, CanRelateOnSpark}


@dataclass(frozen=True)
class Harness:
    """`make` gives an empty catalog that takes CREATE SCHEMA and CREATE TABLE.

    `returns_row_ids`: INSERT RETURNING knows the row ids before the rows are published.
    `refuses`: types, and how clients send them, with a value in the tests that cannot be kept.
    `keyed`: rows have ids by their primary key only, so tables with a column `id` get one.
    """

    make: Callable[[], Any]
    claims: frozenset[type]
    returns_row_ids: bool = True
    refuses: frozenset[tuple[str, str]] = frozenset()
    keyed: bool = False


# What lets DuckDB and Spark read and write by themselves.
ENGINES = frozenset({CanBeReached, CanRelate, CanRelateOnSpark, CanFillOnSpark})
# A new backend is one line here.
ALL = CATALOG_CAPABILITIES | SCHEMA_CAPABILITIES | TABLE_CAPABILITIES
HARNESSES = {
    "memory": Harness(MemoryCatalog, ALL - {CanLayOut, CanMerge} - ENGINES),
    # A client that is not lossless sends a HUGEINT of 39 digits as DECIMAL(38,0).
    "lake": Harness(
        new_lake, ALL, returns_row_ids=False, refuses=frozenset({("HUGEINT", "plain")})
    ),
    "mssql": Harness(
        new_catalog,
        ALL - {CanBeReached, CanRelate, CanRelateOnSpark, CanLayOut, CanTravel},
        keyed=True,
    ),
}

RETURNING = DMLOptions(returning=True)
SILENT = DMLOptions()


def insert(table: Any, data: Any, options: DMLOptions = SILENT) -> Any:
    """One statement with one write."""
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
    """The contents as sorted tuples."""
    wanted = columns or tuple(table.info().schema.names)
    data = read(table, wanted, **request)
    return sorted(zip(*(data.column(n).to_pylist() for n in wanted), strict=True), key=repr)


def rowids(table: Any, column: str, value: Any) -> list[int]:
    """The row ids of the rows with this value."""
    data = read(table, (column, "rowid")).to_pydict()
    return [r for v, r in zip(data[column], data["rowid"], strict=True) if v == value]
