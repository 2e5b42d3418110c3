"""Encodes the signatures of functions, and decodes their arguments."""

import pyarrow as pa

from jetbridge.catalog import FunctionInfo, Parameter
from jetbridge.errors import BadRequest
from jetbridge.wire.arrow_input import read_stream
from jetbridge.wire.limits import REQUEST_LIMITS, InputLimits
from jetbridge.wire.schemas import as_bad_request

# The metadata of an input field that the client reads.
_FLAGS = {"type": "is_any_type", "named": "is_named_parameter", "table": "is_table_type"}
CHUNK_CONTINUES, CHUNK_FINISHED = b"chunk_continues", b"chunk_finished"


def input_schema(info: FunctionInfo) -> pa.Schema:
    return pa.schema([_field(parameter) for parameter in info.parameters])


def _field(parameter: Parameter) -> pa.Field:
    flags = {
        _FLAGS["type"]: parameter.type is None and not parameter.table,
        _FLAGS["named"]: parameter.named,
        _FLAGS["table"]: parameter.table,
    }
    metadata = {name: "1" for name, is_set in flags.items() if is_set}
    return pa.field(parameter.name, parameter.type or pa.null(), metadata=metadata or None)


def read_arguments(data: bytes, limits: InputLimits = REQUEST_LIMITS) -> pa.RecordBatch:
    """Return the one row of arguments in an IPC stream, which is empty if there are none.

    Raise BadRequest and LimitExceeded.
    """
    what = "the function's arguments are not an Arrow IPC stream"
    try:
        with as_bad_request(what):
            batches = read_stream(data, limits) if data else []
    except BadRequest as error:
        reason = str(error)
        raise BadRequest(reason if reason.startswith(what) else f"{what}: {reason}") from error
    with_rows = [batch for batch in batches if batch.num_rows]
    rows = sum(batch.num_rows for batch in with_rows)
    if rows == 1:
        return with_rows[0]
    if any(batch.num_columns for batch in batches):
        raise BadRequest(f"the function's arguments must be one row, not {rows}")
    return pa.RecordBatch.from_pydict({})


def as_declared(arguments: pa.RecordBatch, info: FunctionInfo) -> pa.RecordBatch:
    """Return the arguments with the types of the parameters: a client may send string views."""
    types = {parameter.name: parameter.type for parameter in info.parameters}
    columns = [
        _as_declared(column, types.get(name), f"argument {name!r} of function {info.name!r}")
        for name, column in zip(arguments.schema.names, arguments.columns, strict=True)
    ]
    # Built anew only if a type differs, which also keeps a row without columns.
    if all(new is old for new, old in zip(columns, arguments.columns, strict=True)):
        return arguments
    return pa.RecordBatch.from_arrays(columns, arguments.schema.names)


def _as_declared(column: pa.Array, data_type: pa.DataType | None, what: str) -> pa.Array:
    if data_type is None or column.type == data_type or isinstance(column, pa.ExtensionArray):
        return column
    try:
        if _is_text(column.type) is not _is_text(data_type):
            raise pa.ArrowNotImplementedError("a string is not a number")
        return column.cast(data_type)
    except pa.ArrowException as error:
        raise BadRequest(f"{what} must be {data_type}, not {str(column.type)[:100]}") from error


def _is_text(data_type: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(data_type) for test in tests)
