"""INSERT, UPDATE and DELETE, one DoExchange each."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, NoReturn, TypeAlias

import msgspec
import pyarrow as pa

from jetbridge.catalog import ROWID
from jetbridge.client.connection import Connection
from jetbridge.client.errors import reading_answer
from jetbridge.client.scan import ScanReader
from jetbridge.client.session import ClientSession, Statement
from jetbridge.client.streams import Buffer
from jetbridge.errors import BadRequest, ServerError
from jetbridge.wire.arrow_input import BatchDecoder
from jetbridge.wire.codec import decode
from jetbridge.wire.flight_data import encode_batch, encode_schema, split
from jetbridge.wire.flight_pb2 import FlightData, FlightDescriptor
from jetbridge.wire.limits import ANSWER_LIMITS
from jetbridge.wire.schemas import wire_type

BATCH_ROWS = 2048  # as many as DuckDB sends
_UNSENT_MESSAGES = 4
_EXTENSION = b"ARROW:extension:"

Rows: TypeAlias = (
    pa.Table | pa.RecordBatch | pa.RecordBatchReader | ScanReader | Iterable[pa.RecordBatch]
)


class _Changed(msgspec.Struct, frozen=True):
    total_changed: int


class Exchange:
    """Nothing is published before `finish` has returned. Not for use by several threads.

    A clean exit from the `with` block finishes, an exception cancels.
    """

    def __init__(
        self,
        connection: Connection,
        statement: Statement,
        operation: str,
        schema: pa.Schema,
        returning: bool,
    ) -> None:
        self.schema = schema
        self._returning = returning
        self._total: int | None = None
        self._cancelled = False
        self._outbox: Buffer[bytes] = Buffer(_UNSENT_MESSAGES)
        self._outbox.put(_opening(statement.table.descriptor, schema))
        headers = (
            *statement.path_headers,
            ("airport-operation", operation),
            ("return-chunks", "1" if returning else "0"),
        )
        self._answers = connection.both_ways("DoExchange", self._outbox, headers)
        # Frees a blocked write, and gRPC's thread that waits for the next one.
        if not self._answers.call.add_callback(self._outbox.close):
            self._outbox.close()
        try:
            self._decoder = self._read_schema()
        except BaseException:
            self.cancel()
            raise

    @property
    def returning_schema(self) -> pa.Schema:
        """The schema the server answers with."""
        return self._decoder.schema

    def write(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """With RETURNING, the server's batch for this one."""
        if self._cancelled or self._total is not None:
            raise ValueError("the statement has ended")
        if batch.schema.types != self.schema.types or batch.schema.names != self.schema.names:
            raise ValueError(f"the batch has other columns than announced: {batch.schema}")
        if not self._outbox.put(encode_batch(batch)):
            self._raise_early_end()
        return self._read_batch() if self._returning else None

    def finish(self) -> int:
        """Half-closes and waits for the server to publish; the number of rows changed."""
        if self._cancelled:
            raise ValueError("the statement has ended")
        if self._total is None:
            self._outbox.finish()
            total = 0
            for message in self._answers:
                with reading_answer("DoExchange"):
                    metadata = split(message).app_metadata
                    if metadata:
                        total = decode(_Changed, bytes(metadata), "metadata").total_changed
            self._total = total
        return self._total

    def cancel(self) -> None:
        """Nothing of the statement is applied, unless it was finished before."""
        self._cancelled = True
        self._answers.call.cancel()
        self._outbox.close()

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._cancelled:
            return
        try:
            if kind is None:
                self.finish()
        finally:
            self.cancel()

    def _read_schema(self) -> BatchDecoder:
        data = self._receive()
        with reading_answer("DoExchange"):
            header = split(data).header
            if header is None:
                raise ValueError("no schema came first")
            return BatchDecoder(header, ANSWER_LIMITS)

    def _read_batch(self) -> pa.RecordBatch:
        while True:
            message = self._receive()
            with reading_answer("DoExchange"):
                self._decoder.feed(split(message))
                batches = list(self._decoder.flush())
            if batches:  # else it was a dictionary
                return batches[0]

    def _receive(self) -> bytes:
        for message in self._answers:
            return bytes(message)
        raise ServerError("the server ended the statement too early")

    def _raise_early_end(self) -> NoReturn:
        for _ in self._answers:
            pass  # up to the error
        raise ServerError("the server ended the statement too early")


def _opening(descriptor: bytes, schema: pa.Schema) -> bytes:
    """The parts of a protobuf message may be joined from serialized pieces."""
    first = FlightData(flight_descriptor=FlightDescriptor.FromString(descriptor))
    return first.SerializeToString() + encode_schema(schema)


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
