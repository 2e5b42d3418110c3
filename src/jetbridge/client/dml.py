"""INSERT, UPDATE and DELETE, one DoExchange each."""

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

BATCH_ROWS = 2048  # what DuckDB sends
_EXTENSION = b"ARROW:extension:"

Rows: TypeAlias = (
    pa.Table | pa.RecordBatch | pa.RecordBatchReader | ScanReader | Iterable[pa.RecordBatch]
)


class ChangeResult(NamedTuple):
    """`returning` is None unless it was asked for."""

    affected_rows: int
    returning: pa.Table | None


class DmlCalls(ClientSession):
    def insert(
        self,
        schema: str,
        table: str,
        data: Rows,
        returning: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> ChangeResult:
        """All rows or none. A column that `data` lacks gets its default, or NULL."""
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
        """New values by row id: `data` holds the columns to set, and `rowid`.

        RETURNING answers the columns that were sent, in that order.
        """
        statement = self._statement(schema, table)
        sent, batches = _open_rows(data, statement.table.announced)
        if ROWID not in sent.names:
            raise BadRequest(f"UPDATE of {schema}.{table} needs a column {ROWID!r} in its data")
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
        statement = self._statement(schema, table)
        kind = statement.table.row_id or pa.int64()
        if not isinstance(rowids, (pa.Array, pa.ChunkedArray)):
            rowids = pa.array(rowids, kind)
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
        """The statement itself, for those who write batch by batch."""
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
    """The columns and the batches; an empty iterable has the columns `if_empty`."""
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
    """As DuckDB sends it: all nullable, no dictionaries, no metadata but of extension types."""
    return pa.schema(
        [pa.field(f.name, wire_type(f.type), metadata=_extension_metadata(f)) for f in schema]
    )


def _extension_metadata(field: pa.Field) -> dict[bytes, bytes]:
    metadata = field.metadata or {}
    return {key: value for key, value in metadata.items() if key.startswith(_EXTENSION)}


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.names != schema.names:
        raise BadRequest(f"a batch has columns {batch.schema.names}, the first had {schema.names}")
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
