"""Functions: found by descriptor, listed as FlightInfo, called by DoExchange."""

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
from jetbridge.service.batch_layout import conform, nulls
from jetbridge.service.call_context import ServedCatalog
from jetbridge.wire.arrow_input import BatchDecoder, check_boolean_bytes
from jetbridge.wire.codec import decode, encode
from jetbridge.wire.contents import item_metadata
from jetbridge.wire.flight_data import encode_batch, encode_schema, split
from jetbridge.wire.flight_pb2 import FlightInfo
from jetbridge.wire.functions import (
    CHUNK_CONTINUES,
    CHUNK_FINISHED,
    as_declared,
    input_schema,
    read_arguments,
)
from jetbridge.wire.limits import InputLimits
from jetbridge.wire.messages import InOutRequest
from jetbridge.wire.tickets import DescriptorName, TicketSealer

F = TypeVar("F")

_RESULT = "result"


def find_function(served: ServedCatalog, name: DescriptorName, kind: type[F]) -> F:
    schema = served.catalog.load_schema(name.schema)
    for function in _functions(schema):
        if fold(function.info().name) == fold(name.name) and supports(function, kind):
            return function
    raise NotFound("function", f"{name.schema}.{name.name}")


def function_flights(
    served: ServedCatalog, schema: Schema, schema_name: str, sealer: TicketSealer
) -> Iterator[FlightInfo]:
    for function in _functions(schema):
        info = function.info()
        kind, columns, extra = "table_function", pa.schema([]), None
        if supports(function, ScalarFunction):
            kind, columns = "scalar_function", result_schema(function)
            extra = encode({"stability": "consistent" if info.stable else "volatile"})
        yield FlightInfo(
            schema=columns.serialize().to_pybytes(),
            flight_descriptor=sealer.descriptor(
                served.name, DescriptorName(schema_name, info.name, kind)
            ),
            total_records=-1,
            total_bytes=-1,
            app_metadata=item_metadata(
                kind,
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
    return pa.schema([pa.field(_RESULT, function.returns())])


def call_scalar(
    function: ScalarFunction, decoder: BatchDecoder, requests: Iterable[bytes]
) -> Iterator[bytes]:
    """One answer per batch; the stream lasts as long as the expression does."""
    reply = result_schema(function)
    yield encode_schema(reply)
    for batch in _batches(decoder, requests):
        result = function.call(batch)
        if len(result) != batch.num_rows:
            raise ServerError(f"function {function.info().name} gave a wrong number of rows")
        yield encode_batch(pa.RecordBatch.from_arrays([result.cast(reply[0].type)], schema=reply))


def call_in_out(
    function: TableInOutFunction,
    decoder: BatchDecoder,
    metadata: bytes,
    requests: Iterable[bytes],
    limits: InputLimits,
) -> Iterator[bytes]:
    """Each batch is answered by batches of which the last is marked; the end likewise."""
    opened = decode(InOutRequest, metadata, "table_function_in_out", limits)
    arguments = as_declared(read_arguments(opened.parameters, limits), function.info())
    reply = function.bind_table(arguments, decoder.schema)
    yield encode_schema(reply)
    transform = function.transforming(arguments, decoder.schema)
    for batch in _batches(decoder, requests):
        yield from _marked(transform(batch), reply)
    yield from _marked(transform(None), reply)


def _marked(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    held: pa.RecordBatch | None = None
    for batch in batches:
        if held is not None:
            yield encode_batch(held, CHUNK_CONTINUES)
        held = conform(batch, schema)
    if held is None:
        held = pa.RecordBatch.from_arrays([nulls(f.type, 0) for f in schema], schema=schema)
    yield encode_batch(held, CHUNK_FINISHED)


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
    """The columns a table function will produce, with an input table or without."""
    arguments = read_arguments(parameters, limits)
    if table is None:
        plain = find_function(served, name, TableFunction)
        return plain.bind(as_declared(arguments, plain.info()))
    function = find_function(served, name, TableInOutFunction)
    if not any(parameter.table for parameter in function.info().parameters):
        raise BadRequest(f"function {name.schema}.{name.name} takes no table")
    return function.bind_table(as_declared(arguments, function.info()), table)
