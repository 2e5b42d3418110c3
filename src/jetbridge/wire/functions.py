"""Function signatures and arguments on the wire."""

import pyarrow as pa

from jetbridge.catalog import FunctionInfo, Parameter
from jetbridge.errors import BadRequest
from jetbridge.wire.arrow_input import read_stream
from jetbridge.wire.limits import REQUEST_LIMITS, InputLimits
from jetbridge.wire.schemas import as_bad_request

# What the client looks for in the metadata of an input field.
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
    """The one row of arguments; an IPC stream, empty for a function without any.

    Raises BadRequest and LimitExceeded.
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
    """The arguments with the types of the parameters; a client may send views for strings."""
    kinds = {parameter.name: parameter.type for parameter in info.parameters}
    columns = [
        _as_declared(column, kinds.get(name), f"argument {name!r} of function {info.name!r}")
        for name, column in zip(arguments.schema.names, arguments.columns, strict=True)
    ]
    # Built anew only where a type differs: this also keeps a row without columns.
    if all(new is old for new, old in zip(columns, arguments.columns, strict=True)):
        return arguments
    return pa.RecordBatch.from_arrays(columns, arguments.schema.names)


def _as_declared(column: pa.Array, kind: pa.DataType | None, what: str) -> pa.Array:
    if kind is None or column.type == kind or isinstance(column, pa.ExtensionArray):
        return column
    try:
        if _is_text(column.type) is not _is_text(kind):
            raise pa.ArrowNotImplementedError("a string is no number")
        return column.cast(kind)
    except pa.ArrowException as error:
        raise BadRequest(f"{what} must be {kind}, not {str(column.type)[:100]}") from error


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)
