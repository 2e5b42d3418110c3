"""Finds functions by descriptor, lists them as FlightInfo and calls them by DoExchange."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from jetbridge.catalog import (
    CanOfferFunctions,
    Function,
    ScalarFunction,
    Schema,
    TableFunction,
    TableInOutFunction,
    fold,
    supports,
)
from jetbridge.errors import BadRequest, NotFound, ServerError
from jetbridge.service.batch_layout import conform, no_rows
from jetbridge.service.call_context import ServedCatalog
from jetbridge.wire.arrow_input import (
    BatchDecoder,
    cast_arguments,
    check_boolean_bytes,
    read_arguments,
)
from jetbridge.wire.codec import decode, encode
from jetbridge.wire.contents import item_metadata
from jetbridge.wire.flight_data import (
    CHUNK_CONTINUES,
    CHUNK_FINISHED,
    encode_batch,
    encode_schema,
    split,
)
from jetbridge.wire.flight_pb2 import FlightInfo
from jetbridge.wire.limits import InputLimits
from jetbridge.wire.messages import InOutRequest
from jetbridge.wire.schemas import input_schema
from jetbridge.wire.tickets import DescriptorName, TicketSealer

F = TypeVar("F")

_RESULT = "result"


def find_function(served: ServedCatalog, name: DescriptorName, function_type: type[F]) -> F:
    """Return the function of this name and type. Raises NotFound."""
    schema = served.catalog.load_schema(name.schema)
    for function in _functions(schema):
        if fold(function.info().name) == fold(name.name) and supports(function, function_type):
            return function
    raise NotFound("function", f"{name.schema}.{name.name}")


def function_flights(
    served: ServedCatalog, schema: Schema, schema_name: str, sealer: TicketSealer
) -> Iterator[FlightInfo]:
    """Yield the FlightInfo of each function of a schema."""
    for function in _functions(schema):
        info = function.info()
        item_type, columns, extra = "table_function", pa.schema([]), None
        if supports(function, ScalarFunction):
            item_type, columns = "scalar_function", result_schema(function)
            extra = encode({"stability": "consistent" if info.stable else "volatile"})
        yield FlightInfo(
            schema=columns.serialize().to_pybytes(),
            flight_descriptor=sealer.descriptor(
                served.name, DescriptorName(schema_name, info.name, item_type)
            ),
            total_records=-1,
            total_bytes=-1,
            app_metadata=item_metadata(
                item_type,
                served.spelling,
                schema_name,
                info.name,
                comment=info.comment or None,
                input_schema=input_schema(info).serialize().to_pybytes(),
                description=info.comment,
                extra_data=extra,
            ),
        )


def result_schema(function: ScalarFunction) -> pa.Schema:
    """Return the schema of a scalar function's answers: one column."""
    return pa.schema([pa.field(_RESULT, function.returns())])


def call_scalar(
    function: ScalarFunction, decoder: BatchDecoder, requests: Iterable[bytes]
) -> Iterator[bytes]:
    """Answer each batch of arguments with a batch of results, until the stream ends."""
    reply = result_schema(function)
    yield encode_schema(reply)
    for batch in _batches(decoder, requests):
        result = function.call(batch)
        if len(result) != batch.num_rows:
            raise ServerError(
                f"function {function.info().name} returned {len(result)} rows for "
                f"{batch.num_rows}; correct the function"
            )
        yield encode_batch(pa.RecordBatch.from_arrays([result.cast(reply[0].type)], schema=reply))


def call_in_out(
    function: TableInOutFunction,
    decoder: BatchDecoder,
    metadata: bytes,
    requests: Iterable[bytes],
    limits: InputLimits,
) -> Iterator[bytes]:
    """Answer each batch, and the end of the stream, with batches of which the last is marked."""
    request = decode(InOutRequest, metadata, "table_function_in_out", limits)
    arguments = cast_arguments(read_arguments(request.parameters, limits), function.info())
    reply = function.bind_table(arguments, decoder.schema)
    yield encode_schema(reply)
    transform = function.transforming(arguments, decoder.schema)
    for batch in _batches(decoder, requests):
        yield from _mark(transform(batch), reply)
    yield from _mark(transform(None), reply)


def _mark(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    """Yield the batches, of which the last is marked; one without rows if there are none."""
    previous: pa.RecordBatch | None = None
    for batch in batches:
        if previous is not None:
            yield encode_batch(previous, CHUNK_CONTINUES)
        previous = conform(batch, schema)
    if previous is None:
        previous = no_rows(schema)
    yield encode_batch(previous, CHUNK_FINISHED)


def _batches(decoder: BatchDecoder, requests: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    for message in requests:
        data = split(message)
        if data.header is not None:
            decoder.feed(data)
            yield from map(check_boolean_bytes, decoder.flush())


def _functions(schema: Schema) -> Iterable[Function]:
    return schema.list_functions() if supports(schema, CanOfferFunctions) else ()


def bind_table_function(
    served: ServedCatalog,
    name: DescriptorName,
    parameters: bytes,
    table: pa.Schema | None,
    limits: InputLimits,
) -> pa.Schema:
    """Return the columns that a table function has for these arguments.

    `table` is the schema of the input table, for functions that have one.
    """
    arguments = read_arguments(parameters, limits)
    if table is None:
        function = find_function(served, name, TableFunction)
        return function.bind(cast_arguments(arguments, function.info()))
    in_out = find_function(served, name, TableInOutFunction)
    if not any(parameter.table for parameter in in_out.info().parameters):
        raise BadRequest(f"function {name.schema}.{name.name} does not accept a table")
    return in_out.bind_table(cast_arguments(arguments, in_out.info()), table)
