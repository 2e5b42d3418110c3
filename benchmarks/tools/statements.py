"""Runs UPDATE and DELETE by the Python client, with the calls of DuckDB's extension."""

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from jetbridge.client.client import Client
from jetbridge.duckdb_engine.instance import extension_file
from jetbridge.expr import And, Column, Comparison, Constant, Expr

SCHEMA = "s"
_SENT_ROWS = 2048
_ROWID = pa.field("rowid", pa.int64())


def equals(column: str, value: int) -> Expr:
    """Return `column = value`."""
    return Comparison("=", Column(column), Constant("BIGINT", value))


def between(column: str, low: float, high: float) -> Expr:
    """Return `low <= column < high`."""
    bounds = Constant("DOUBLE", low), Constant("DOUBLE", high)
    return And(
        (Comparison(">=", Column(column), bounds[0]), Comparison("<", Column(column), bounds[1]))
    )


def update(client: Client, table: str, where: Expr, field: pa.Field, value: pa.Scalar) -> int:
    """Set one column to one value; the exchange is open when the scan for the rows begins."""
    schema = pa.schema([field, _ROWID])
    with (
        client.transaction() as transaction,
        transaction.exchange("update", SCHEMA, table, schema) as exchange,
    ):
        for rowids in _row_ids(transaction, table, where):
            exchange.write(pa.record_batch([pa.repeat(value, len(rowids)), rowids], schema=schema))
        return exchange.finish()


def delete(client: Client, table: str, where: Expr) -> int:
    """Delete rows; return their number."""
    schema = pa.schema([_ROWID])
    with (
        client.transaction() as transaction,
        transaction.exchange("delete", SCHEMA, table, schema) as exchange,
    ):
        for rowids in _row_ids(transaction, table, where):
            exchange.write(pa.record_batch([rowids], schema=schema))
        return exchange.finish()


def _row_ids(client: Client, table: str, where: Expr) -> Iterator[pa.Array]:
    with client.scan(SCHEMA, table, [_ROWID.name], where) as batches:
        for batch in batches:
            rowids = batch.column(0)
            for start in range(0, len(rowids), _SENT_ROWS):
                yield rowids.slice(start, _SENT_ROWS)


def plain_duckdb() -> duckdb.DuckDBPyConnection:
    """Open a DuckDB without jetbridge, with the extensions that `iceberg_scan` needs."""
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD '{extension_file(name)}'")
    return connection
