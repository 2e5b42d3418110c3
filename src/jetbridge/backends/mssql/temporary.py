"""Rows in a temporary table of one connection, to be joined with others; gone with it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from jetbridge.backends.mssql.connect import Loading
from jetbridge.backends.mssql.types import ServerColumn, is_read_as_text
from jetbridge.backends.mssql.wire import Loaded, wire_schema
from jetbridge.embedded import cast
from jetbridge.sqltext import tsql_load
from jetbridge.sqltext.tsql_load import TEMPORARY


@contextmanager
def staged(
    connection: Loading, columns: Sequence[Loaded], batches: Iterator[pa.RecordBatch]
) -> Iterator[str]:
    """The name of the table; within a transaction of the caller."""
    connection.run(tsql_load.staging(TEMPORARY, [(each.name, each.kind) for each in columns]))
    rows = pa.RecordBatchReader.from_batches(wire_schema(columns), batches)
    connection.load(TEMPORARY, rows, [each.name for each in columns])
    yield TEMPORARY
    connection.run(tsql_load.drop_temporary(TEMPORARY))


def is_answered_as_text(column: ServerColumn) -> bool:
    """What the core gives as an object that Arrow cannot read."""
    return column.type == "uniqueidentifier" or is_read_as_text(column)


def answered(rows: Sequence[tuple[Any, ...]], fields: Sequence[pa.Field]) -> list[pa.Array]:
    """Rows of the core as columns of these fields."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    return [cast(_array(values, each), each) for values, each in zip(columns, fields, strict=True)]


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if isinstance(field.type, pa.BaseExtensionType):
        return pa.array(values, pa.string())
    return pa.array(values, field.type)
