"""Answers DoExchange: runs one INSERT, UPDATE or DELETE, or one call of a function.

The server sends its schema before the first batch arrives, because the client waits for it. It
publishes nothing before the client has half-closed: a broken stream leaves the table unchanged.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import (
    ROWID,
    CanDelete,
    CanInsert,
    CanUpdate,
    DMLOptions,
    ScalarFunction,
    Table,
    TableInfo,
    TableInOutFunction,
    Write,
    fold,
    supports,
)
from jetbridge.config.model import Limits
from jetbridge.errors import (
    BadRequest,
    LimitExceeded,
    NotFound,
    NotSupported,
    ServerError,
    Unavailable,
)
from jetbridge.runtime.array_sizes import array_bytes, null_bytes
from jetbridge.runtime.cancellation import current, shield
from jetbridge.service.admission.concurrency import ConcurrencyLimit, StagedBytes
from jetbridge.service.admission.prefetch import read_ahead, within
from jetbridge.service.batch_layout import conform, no_rows
from jetbridge.service.call_context import CallContext, ServedCatalog, input_limits
from jetbridge.service.functions import call_in_out, call_scalar, find_function
from jetbridge.service.table_lookup import LocatedTable, TableLookup
from jetbridge.wire.arrow_input import BatchDecoder, check_boolean_bytes
from jetbridge.wire.codec import encode
from jetbridge.wire.flight_data import (
    FlightData,
    encode_batch,
    encode_metadata,
    encode_schema,
    split,
)
from jetbridge.wire.limits import InputLimits
from jetbridge.wire.schemas import rowid_field, wire_schema
from jetbridge.wire.tickets import DescriptorName, read_descriptor

_log = logging.getLogger(__name__)

# Batches are decoded together, whenever so many bytes have arrived: one by one takes twice as long.
_DECODE_BYTES = 2 * 1024 * 1024

Start = Callable[[DMLOptions], AbstractContextManager[Write]]


def _inserting(table: Table) -> Start | None:
    return table.inserting if supports(table, CanInsert) else None


def _updating(table: Table) -> Start | None:
    return table.updating if supports(table, CanUpdate) else None


def _deleting(table: Table) -> Start | None:
    return table.deleting if supports(table, CanDelete) else None


# Each returns what starts the statement on a table, or None if the table does not support it.
_STATEMENTS: dict[str, Callable[[Table], Start | None]] = {
    "insert": _inserting,
    "update": _updating,
    "delete": _deleting,
}

_FUNCTIONS = ("scalar_function", "table_function_in_out")


@dataclass(frozen=True)
class ExchangeHeader:
    """Hold the first messages of an exchange: its target and the schema of the rows to come."""

    descriptor: bytes
    decoder: BatchDecoder
    metadata: bytes = b""


@dataclass(frozen=True)
class DoExchange:
    """Run a DML statement or a function over the batches of an exchange."""

    locator: TableLookup
    gate: ConcurrencyLimit
    staged: StagedBytes
    limits: Limits

    def __call__(self, requests: Iterator[bytes], call: CallContext) -> Iterator[bytes]:
        operation = call.headers.get("airport-operation", "")
        if operation not in (*_STATEMENTS, *_FUNCTIONS):
            known = ", ".join((*_STATEMENTS, *_FUNCTIONS))
            raise BadRequest(f"airport-operation must be one of {known}, not {operation[:100]!r}")
        requests = read_ahead(requests)
        with self.gate.enter(call.owner):
            with within(requests, self.limits.first_message_seconds):
                limits = input_limits(self.limits)
                header = read_header(requests, limits)
            descriptor = read_descriptor(header.descriptor)
            if operation in _FUNCTIONS:
                served, name = self.locator.name(call, descriptor)
                yield from _call(operation, served, name, header, requests, limits)
                return
            located = self.locator.to_write(call, descriptor, operation)
            yield from self._statement(operation, located, header.decoder, requests, call)

    def _statement(
        self,
        operation: str,
        located: LocatedTable,
        decoder: BatchDecoder,
        requests: Iterator[bytes],
        call: CallContext,
    ) -> Iterator[bytes]:
        info = located.table.info()
        _check_columns(operation, located, decoder.schema)
        options = DMLOptions(
            returning=call.headers.get("return-chunks") == "1",
            returning_columns=tuple(decoder.schema.names),
        )
        start = _starter(operation, located)
        reply = _reply_schema(operation, info, decoder.schema, options)
        yield encode_schema(reply)
        with self.staged.count(call.owner) as count, start(options) as write:
            unsent = _unsent_row_bytes(info.schema, decoder.schema) if operation == "insert" else 0
            statement = StatementInput(self.limits, requests, count, unsent)
            if options.returning:
                total = yield from _write_and_answer(statement, decoder, write, reply)
            else:
                total = _write(statement, decoder, write)
            confirm_half_close(requests, call)
        _move_pin(located)
        yield encode_metadata(encode({"total_changed": total}))


class StatementInput:
    """Count what a statement sends, both as sent and as unpacked: compressed batches grow.

    `unsent_row_bytes` are the bytes of a row in the columns that the statement does not send. They
    are staged, too.
    """

    def __init__(
        self,
        limits: Limits,
        requests: Iterator[bytes],
        count: Callable[[int], None],
        unsent_row_bytes: int = 0,
    ) -> None:
        self._limits, self._requests, self._count = limits, requests, count
        self._unsent_row_bytes = unsent_row_bytes
        self._sent = self._unpacked = self._staged = 0

    def messages(self) -> Iterator[FlightData]:
        """Yield the messages that have a batch. Raises LimitExceeded."""
        for message in self._requests:
            self._sent += len(message)
            self._refuse_over(self._sent)
            data = split(message)
            if data.header is not None:
                yield data

    def check(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count an unpacked batch and return it.

        Raises LimitExceeded or BadRequest, and what a cancelled call raises: a few bytes can hold
        thousands of batches.
        """
        current().check()
        self._unpacked += max(batch.get_total_buffer_size(), array_bytes(batch))
        self._unpacked += batch.num_rows * self._unsent_row_bytes
        self._refuse_over(self._unpacked)
        return check_boolean_bytes(batch)

    def _refuse_over(self, staged: int) -> None:
        """Count the larger one of both totals. Raises LimitExceeded."""
        if staged > self._limits.staged_bytes:
            raise LimitExceeded(
                f"the rows of the statement take more than {self._limits.staged_bytes} bytes, the "
                "most this server stages; split it, or raise limits.staged_bytes"
            )
        if staged > self._staged:
            self._count(staged - self._staged)
            self._staged = staged


def _write(statement: StatementInput, decoder: BatchDecoder, write: Write) -> int:
    total = 0
    for data in statement.messages():
        decoder.feed(data)
        if decoder.pending_bytes >= _DECODE_BYTES:
            total += _write_pending(statement, decoder, write)
    return total + _write_pending(statement, decoder, write)


def _write_pending(statement: StatementInput, decoder: BatchDecoder, write: Write) -> int:
    return sum(write(statement.check(batch)).affected_rows for batch in decoder.flush())


def _write_and_answer(
    statement: StatementInput, decoder: BatchDecoder, write: Write, reply: pa.Schema
) -> Generator[bytes, None, int]:
    total = 0
    empty = encode_batch(no_rows(reply))
    for data in statement.messages():
        decoder.feed(data)
        for batch in decoder.flush():
            if not batch.num_rows:
                yield empty
                continue
            result = write(statement.check(batch))
            total += result.affected_rows
            rows = result.returning_data
            if rows is None:
                raise TypeError("a write with RETURNING must return rows")
            yield encode_batch(conform(rows, reply))
    return total


def _call(
    operation: str,
    served: ServedCatalog,
    name: DescriptorName,
    header: ExchangeHeader,
    requests: Iterator[bytes],
    limits: InputLimits,
) -> Iterator[bytes]:
    if operation == "scalar_function":
        scalar = find_function(served, name, ScalarFunction)
        return call_scalar(scalar, header.decoder, requests)
    in_out = find_function(served, name, TableInOutFunction)
    return call_in_out(in_out, header.decoder, header.metadata, requests, limits)


def read_header(requests: Iterator[bytes], limits: InputLimits) -> ExchangeHeader:
    """Read messages up to the one with the schema.

    DuckDB sends the descriptor alone and then again with the schema; other clients send it once.
    """
    descriptor = metadata = b""
    for message in requests:
        data = split(message)
        if data.descriptor is not None:
            descriptor = bytes(data.descriptor)
        if data.app_metadata is not None:
            metadata = bytes(data.app_metadata)
        if data.header is not None:
            return ExchangeHeader(descriptor, BatchDecoder(data.header, limits), metadata)
    raise BadRequest("the exchange ended before an Arrow schema was sent")


def confirm_half_close(requests: Iterator[bytes], call: CallContext) -> None:
    """Raise BadRequest or Unavailable unless the caller has half-closed the stream.

    A broken connection also ends the iterator, a moment before gRPC reports the break. Two more
    reads pass through the same queue as that report, so after them it has arrived.
    """
    for _ in range(2):
        if next(requests, None) is not None:
            raise BadRequest("a message arrived after the end of the stream")
    if not call.context.is_active():
        raise Unavailable("the connection broke before the statement ended; run it again")


def _move_pin(located: LocatedTable) -> None:
    """Let the caller's transaction read what it wrote.

    An error is logged only: the statement is published already.
    """
    name = located.name
    try:
        with shield(), suppress(NotFound):  # dropped or renamed in the meantime
            located.transaction.move_pin(located.served.catalog, name.schema, name.name)
    except ServerError as error:
        _log.warning(
            "a transaction does not see what it wrote to %s.%s: %s", name.schema, name.name, error
        )


def _starter(operation: str, located: LocatedTable) -> Start:
    start = _STATEMENTS[operation](located.table)
    if start is None:
        name = located.name
        raise NotSupported(f"table {name.schema}.{name.name} does not support {operation.upper()}")
    return start


def _check_columns(operation: str, located: LocatedTable, sent: pa.Schema) -> None:
    info = located.table.info()
    known_names = {fold(name) for name in info.schema.names}
    table = f"{located.name.schema}.{located.name.name}"
    for name in sent.names:
        if fold(name) not in known_names and name != ROWID:
            raise BadRequest(
                f"table {table} has no column {name!r}; if it was altered, DETACH and ATTACH again"
            )
    if len({fold(name) for name in sent.names}) != len(sent.names):
        raise BadRequest(f"{operation} on {table}: a column was sent twice")
    if operation != "insert" and ROWID not in sent.names:
        raise BadRequest(f"{operation} on {table}: the column 'rowid' must be sent")


def _unsent_row_bytes(schema: pa.Schema, sent: pa.Schema) -> int:
    """Return the bytes of a row in the columns that are not sent, if they are NULL."""
    names = {fold(name) for name in sent.names}
    return sum(null_bytes(field.type) for field in schema if fold(field.name) not in names)


def _reply_schema(
    operation: str, info: TableInfo, sent: pa.Schema, options: DMLOptions
) -> pa.Schema:
    """Return the schema of the answer.

    The client reads the answer of an UPDATE by position, so it has the columns as they were sent.
    """
    if operation != "update" or not options.returning:
        return wire_schema(info)
    fields = {fold(field.name): field for field in wire_schema(info)}
    if info.row_id is not None:
        fields[ROWID] = rowid_field(info.row_id)
    return pa.schema([fields[fold(name)] for name in sent.names])
