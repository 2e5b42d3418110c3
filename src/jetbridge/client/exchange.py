"""Runs one DML statement batch by batch, as one DoExchange."""

from typing import NoReturn

import msgspec
import pyarrow as pa

from jetbridge.client.connection import Connection
from jetbridge.client.errors import reading_answer
from jetbridge.client.session import Statement
from jetbridge.client.streams import Buffer
from jetbridge.errors import ServerError
from jetbridge.wire.arrow_input import BatchDecoder
from jetbridge.wire.codec import decode
from jetbridge.wire.flight_data import encode_batch, encode_schema, split
from jetbridge.wire.flight_pb2 import FlightData, FlightDescriptor
from jetbridge.wire.limits import ANSWER_LIMITS

_UNSENT_MESSAGES = 4


class _Changed(msgspec.Struct, frozen=True):
    total_changed: int


class Exchange:
    """Run one statement batch by batch; `Client.exchange` begins it.

    Nothing is published before `finish`. The end of a `with` block calls `finish`, an exception in
    the block calls `cancel`. Use an exchange from one thread only.

    Attributes:
        schema: The columns of the batches to write.

    Examples:
        >>> batch = pa.record_batch({"id": [4, 5]})
        >>> with client.exchange("insert", "shop", "orders", batch.schema) as exchange:
        ...     exchange.write(batch)
        ...     exchange.finish()
        2
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
        self._outbox.put(_first_message(statement.table.descriptor, schema))
        headers = (
            *statement.path_headers,
            ("airport-operation", operation),
            ("return-chunks", "1" if returning else "0"),
        )
        self._answers = connection.both_ways("DoExchange", self._outbox, headers)
        # Ends a blocked write, and the wait of gRPC's thread for the next message.
        if not self._answers.call.add_callback(self._outbox.close):
            self._outbox.close()
        try:
            self._decoder = self._read_schema()
        except BaseException:
            self.cancel()
            raise

    @property
    def returning_schema(self) -> pa.Schema:
        """Return the columns of the batches that the server answers with RETURNING.

        Examples:
            >>> batch = pa.record_batch({"id": [4]})
            >>> with client.exchange("insert", "shop", "orders", batch.schema, True) as exchange:
            ...     exchange.returning_schema.names
            ['id', 'city', 'price', 'rowid']
        """
        return self._decoder.schema

    def write(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Send a batch.

        Args:
            batch: Rows with the columns of `schema`.

        Returns:
            The rows of RETURNING for this batch; None without RETURNING.

        Raises:
            ValueError: The statement has ended, or the batch has other columns.
            ConstraintViolation: A row breaks a constraint of the table.
            Unavailable: The connection broke.

        Examples:
            >>> batch = pa.record_batch({"id": [4]})
            >>> with client.exchange("insert", "shop", "orders", batch.schema, True) as exchange:
            ...     exchange.write(batch)["city"].to_pylist()
            [None]
        """
        if self._cancelled or self._total is not None:
            raise ValueError("the statement has ended; begin another exchange")
        if batch.schema.types != self.schema.types or batch.schema.names != self.schema.names:
            raise ValueError(
                f"the columns of the batch differ from those of the exchange: {batch.schema}"
            )
        if not self._outbox.put(encode_batch(batch)):
            self._raise_early_end()
        return self._read_batch() if self._returning else None

    def finish(self) -> int:
        """End the statement and wait until the server has published it.

        Returns:
            The number of rows that were changed.

        Raises:
            ValueError: The statement was cancelled.
            ConstraintViolation: A row breaks a constraint of the table.
            Conflict: Another statement changed the same rows.
            Unavailable: The connection broke.

        Examples:
            >>> batch = pa.record_batch({"id": [4, 5]})
            >>> with client.exchange("insert", "shop", "orders", batch.schema) as exchange:
            ...     exchange.write(batch)
            ...     exchange.finish()
            2
        """
        if self._cancelled:
            raise ValueError("the statement was cancelled; begin another exchange")
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
        """Cancel the statement. Nothing of it is published, unless it was finished before.

        Examples:
            >>> batch = pa.record_batch({"id": [4]})
            >>> with client.exchange("insert", "shop", "orders", batch.schema) as exchange:
            ...     exchange.write(batch)
            ...     exchange.cancel()
            >>> client.read("shop", "orders").num_rows
            3
        """
        self._cancelled = True
        self._answers.call.cancel()
        self._outbox.close()

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if self._cancelled:
            return
        try:
            if error_type is None:
                self.finish()
        finally:
            self.cancel()

    def _read_schema(self) -> BatchDecoder:
        data = self._receive()
        with reading_answer("DoExchange"):
            header = split(data).header
            if header is None:
                raise ValueError("the first message has no Arrow schema")
            return BatchDecoder(header, ANSWER_LIMITS)

    def _read_batch(self) -> pa.RecordBatch:
        while True:
            message = self._receive()
            with reading_answer("DoExchange"):
                self._decoder.feed(split(message))
                batches = list(self._decoder.flush())
            if batches:  # otherwise the message was a dictionary
                return batches[0]

    def _receive(self) -> bytes:
        for message in self._answers:
            return bytes(message)
        raise ServerError("the server ended the statement too early; see its log")

    def _raise_early_end(self) -> NoReturn:
        for _ in self._answers:
            pass  # the last answer raises the error
        raise ServerError("the server ended the statement too early; see its log")


def _first_message(descriptor: bytes, schema: pa.Schema) -> bytes:
    """Return the message with descriptor and schema. Protobuf allows to join serialized pieces."""
    first = FlightData(flight_descriptor=FlightDescriptor.FromString(descriptor))
    return first.SerializeToString() + encode_schema(schema)
