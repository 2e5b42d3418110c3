"""Function signatures and arguments on the wire."""

import pyarrow as pa

from jetbridge.catalog import FunctionInfo, Parameter
from jetbridge.errors import BadRequest

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


def read_arguments(data: bytes) -> pa.RecordBatch:
    """The one row of arguments; an IPC stream, empty for a function without any."""
    if not data:
        return pa.RecordBatch.from_pydict({})
    try:
        batches = pa.ipc.open_stream(pa.py_buffer(data)).read_all().combine_chunks().to_batches()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadRequest("the function's arguments are not an Arrow IPC stream") from error
    if not batches:
        return pa.RecordBatch.from_pydict({})
    batches[0].validate(full=True)
    return batches[0]
