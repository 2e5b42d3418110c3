"""Inserts, updates and deletes rows by the typed client. Each statement is one DoExchange."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from jetbridge.catalog import ROWID
from jetbridge.client.exchange import Exchange
from jetbridge.client.scan import ScanReader
from jetbridge.client.session import ClientSession, Statement
from jetbridge.errors import BadRequest
from jetbridge.wire.schemas import wire_type

BATCH_ROWS = 2048  # as many as DuckDB sends
_EXTENSION = b"ARROW:extension:"

Rows: TypeAlias = (
    pa.Table | pa.RecordBatch | pa.RecordBatchReader | ScanReader | Iterable[pa.RecordBatch]
)


class ChangeResult(NamedTuple):
    """Report what a statement changed.

    Attributes:
        affected_rows: The number of rows that were inserted, updated or deleted.
        returning: The rows of RETURNING; None without RETURNING.

    Examples:
        >>> client.delete("shop", "orders", [0]).affected_rows
        1
    """

    affected_rows: int
    returning: pa.Table | None


class DmlCalls(ClientSession):
    """Insert, update and delete rows. Each statement changes all of its rows or none."""

    def insert(
        self,
        schema: str,
        table: str,
        data: Rows,
        returning: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> ChangeResult:
        """Insert rows. Columns that `data` does not have get their default, or NULL.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            data: The rows: a table, batches, a reader, or a data frame of another library.
            returning: Whether to return the rows as they were inserted.
            batch_rows: The number of rows in each message.

        Raises:
            NotFound: The schema or the table does not exist.
            ConstraintViolation: A row breaks a constraint, or its key exists already.
            BadRequest: The table does not have a column, or a value does not fit the column.

        Examples:
            >>> rows = pa.table({"id": [4], "city": ["Bonn"]})
            >>> client.insert("shop", "orders", rows, returning=True).returning["price"].to_pylist()
            [None]
        """
        statement = self._statement(schema, table)
        sent, batches = _open_rows(data, statement.table.schema)
        return self._run("insert", statement, sent, _slices(batches, batch_rows), returning)

    def update(
        self,
        schema: str,
        table: str,
        data: Rows,
        returning: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> ChangeResult:
        """Update rows by their row ids, which a scan of the column `rowid` returns.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            data: The new values: the columns to set, and `rowid`.
            returning: Whether to return the columns that were sent, in that order.
            batch_rows: The number of rows in each message.

        Raises:
            NotFound: The schema, the table or the row does not exist.
            BadRequest: `data` has no column `rowid`, or the table has no row of such an id.
            Conflict: Another statement changed a row after the scan.
            ConstraintViolation: A row breaks a constraint, or its key exists already.

        Examples:
            >>> rows = client.read("shop", "orders", ["rowid", "price"]).slice(0, 1)
            >>> rows = rows.set_column(1, "price", pa.array([11.0]))
            >>> client.update("shop", "orders", rows).affected_rows
            1
        """
        statement = self._statement(schema, table)
        sent, batches = _open_rows(data, statement.table.announced)
        if ROWID not in sent.names:
            raise BadRequest(
                f"UPDATE of {schema}.{table} needs the column {ROWID!r} in its data; scan it too"
            )
        order = [*(name for name in sent.names if name != ROWID), ROWID]
        sent = pa.schema([sent.field(name) for name in order])
        ordered = (batch.select(order) for batch in batches)
        return self._run("update", statement, sent, _slices(ordered, batch_rows), returning)

    def delete(
        self,
        schema: str,
        table: str,
        rowids: pa.Array | pa.ChunkedArray | Sequence[Any],
        returning: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> ChangeResult:
        """Delete rows by their row ids, which a scan of the column `rowid` returns.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            rowids: The row ids.
            returning: Whether to return the rows that were deleted.
            batch_rows: The number of row ids in each message.

        Raises:
            NotFound: The schema, the table or the row does not exist.
            BadRequest: The table has no row of such an id.
            Conflict: Another statement changed a row after the scan.

        Examples:
            >>> rowids = client.read("shop", "orders", ["rowid"])["rowid"]
            >>> client.delete("shop", "orders", rowids).affected_rows
            3
        """
        statement = self._statement(schema, table)
        data_type = statement.table.row_id or pa.int64()
        if not isinstance(rowids, (pa.Array, pa.ChunkedArray)):
            rowids = pa.array(rowids, data_type)
        data = pa.table({ROWID: rowids})
        slices = _slices(data.to_batches(), batch_rows)
        return self._run("delete", statement, data.schema, slices, returning)

    def exchange(
        self,
        operation: str,
        schema: str,
        table: str,
        arrow_schema: pa.Schema,
        returning: bool = False,
    ) -> Exchange:
        """Begin a statement whose batches you write yourself.

        Args:
            operation: `insert`, `update` or `delete`.
            schema: The schema of the table.
            table: The name of the table.
            arrow_schema: The columns of the batches, `rowid` last for an update.
            returning: Whether the server answers each batch with the rows of RETURNING.

        Returns:
            The exchange; use it in a `with` block.

        Raises:
            NotFound: The schema or the table does not exist.
            BadRequest: The operation is another one, or the table does not have a column.
            NotSupported: The table does not support the operation.

        Examples:
            >>> batch = pa.record_batch({"id": [4]})
            >>> with client.exchange("insert", "shop", "orders", batch.schema) as exchange:
            ...     exchange.write(batch)
        """
        statement = self._statement(schema, table)
        return Exchange(self._connection, statement, operation, arrow_schema, returning)

    def _run(
        self,
        operation: str,
        statement: Statement,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        returning: bool,
    ) -> ChangeResult:
        sent = _sent_schema(schema)
        connection = self._connection
        with Exchange(connection, statement, operation, sent, returning) as exchange:
            answers = [exchange.write(_conform(batch, sent)) for batch in batches]
            affected = exchange.finish()
        if not returning:
            return ChangeResult(affected, None)
        return ChangeResult(affected, pa.Table.from_batches(answers, exchange.returning_schema))


def _open_rows(data: Rows, if_empty: pa.Schema) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns and the batches; an empty iterable has the columns `if_empty`."""
    if isinstance(data, ScanReader):
        data = data.to_reader()
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data.schema, iter(data.to_batches())
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, iter(data)
    if hasattr(data, "__arrow_c_stream__"):  # a data frame of another library
        reader = pa.RecordBatchReader.from_stream(data)
        return reader.schema, iter(reader)
    batches = iter(data)
    first = next(batches, None)
    if first is None:
        return if_empty, iter(())
    return first.schema, chain([first], batches)


def _slices(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    if rows < 1:
        raise ValueError(f"batch_rows must be at least 1, not {rows}")
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _sent_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema as DuckDB sends it.

    All fields are nullable, and none is a dictionary. Only extension types keep their metadata.
    """
    return pa.schema(
        [pa.field(f.name, wire_type(f.type), metadata=_extension_metadata(f)) for f in schema]
    )


def _extension_metadata(field: pa.Field) -> dict[bytes, bytes]:
    metadata = field.metadata or {}
    return {key: value for key, value in metadata.items() if key.startswith(_EXTENSION)}


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.names != schema.names:
        raise BadRequest(
            f"a batch has the columns {batch.schema.names}; the first one had {schema.names}"
        )
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
