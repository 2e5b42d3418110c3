"""Rows in a temporary table of one connection, to be joined with others; gone with it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import ConnectionPool, CoreConnection
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.types import ServerColumn, is_read_as_text
from jetbridge.backends.mssql.write.bulk_load import Batches, LoadTarget, load
from jetbridge.backends.mssql.write.driver_batches import BulkColumn
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.dialects.tsql.load import TEMPORARY
from jetbridge.duckdb_engine import cast
from jetbridge.errors import ServerError

_BULK = MssqlSettings()
_BY_INSERT = replace(_BULK, ctas_use_bcp=False)


@contextmanager
def staged(
    server: ConnectionPool,
    connection: CoreConnection,
    columns: Sequence[BulkColumn],
    batches: Batches,
    rows: int,
) -> Iterator[str]:
    """The name of the table; within a transaction of the caller.

    Babelfish knows no bulk copy into temporary tables.
    """
    settings = _BY_INSERT if server.is_babelfish() else _BULK
    connection.run(tsql_load.staging(TEMPORARY, [(each.name, each.kind) for each in columns]))
    done = load(connection, LoadTarget(TEMPORARY, tuple(columns)), batches, settings)
    if done != rows:
        raise ServerError(f"{done} of {rows} rows were staged")
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
