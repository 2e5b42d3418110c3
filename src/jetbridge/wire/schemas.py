"""Reads and writes Arrow schemas. Clients get the columns without dictionaries, then `rowid`."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from jetbridge.catalog import ROWID, FunctionInfo, Parameter, TableInfo
from jetbridge.errors import BadRequest
from jetbridge.runtime.array_sizes import has_union
from jetbridge.wire.codec import encode
from jetbridge.wire.flatbuffer import OUTSIDE
from jetbridge.wire.ipc_headers import check_schema, read_message, split_stream

_CONTINUATION = b"\xff\xff\xff\xff"
_PADDING = tuple(b"\0" * n for n in range(8))
_CHECKS = "check_constraints"
# The metadata of an input field that the client reads.
_PARAMETER_FLAGS = {"type": "is_any_type", "named": "is_named_parameter", "table": "is_table_type"}


def wire_schema(info: TableInfo) -> pa.Schema:
    """Return the schema that the client sees, with `rowid` last.

    With `rowid` elsewhere, the client's column_statistics would count the columns wrongly.
    """
    fields = [field.with_type(wire_type(field.type)) for field in info.schema]
    if info.row_id is not None:
        fields.append(rowid_field(info.row_id))
    metadata = {}
    if info.checks:
        metadata[_CHECKS] = encode({"constraints": list(info.checks)})
    return pa.schema(fields, metadata=metadata or None)


def rowid_field(data_type: pa.DataType) -> pa.Field:
    """Return the field of the row ids, by whose metadata the client recognises them."""
    return pa.field(ROWID, data_type, metadata={"is_rowid": "1"})


def input_schema(info: FunctionInfo) -> pa.Schema:
    """Return the parameters of a function as the client reads them."""
    return pa.schema([_parameter_field(parameter) for parameter in info.parameters])


def _parameter_field(parameter: Parameter) -> pa.Field:
    flags = {
        _PARAMETER_FLAGS["type"]: parameter.type is None and not parameter.table,
        _PARAMETER_FLAGS["named"]: parameter.named,
        _PARAMETER_FLAGS["table"]: parameter.table,
    }
    metadata = {name: "1" for name, is_set in flags.items() if is_set}
    return pa.field(parameter.name, parameter.type or pa.null(), metadata=metadata or None)


# The largest ARRAY of DuckDB (ArrayType::MAX_ARRAY_SIZE).
_MAX_FIXED_SIZE = 100_000
# pyarrow has no class for arrays of these types of Arrow: reading a column is a KeyError.
_WITHOUT_ARRAYS = frozenset({pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME})


def wire_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries and run-length encoding: an ENUM becomes VARCHAR."""
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return wire_type(data_type.value_type)
    if not data_type.num_fields:
        return data_type
    for matches, rebuild in _NESTED:
        if matches(data_type):
            return rebuild(data_type)
    return data_type


def _inner(field: pa.Field) -> pa.Field:
    return field.with_type(wire_type(field.type))


_NESTED: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]], ...] = (
    (pa.types.is_struct, lambda t: pa.struct([_inner(field) for field in t.fields])),
    (
        pa.types.is_map,
        lambda t: pa.map_(_inner(t.key_field), _inner(t.item_field), keys_sorted=t.keys_sorted),
    ),
    (pa.types.is_list, lambda t: pa.list_(_inner(t.value_field))),
    (pa.types.is_large_list, lambda t: pa.large_list(_inner(t.value_field))),
    (pa.types.is_fixed_size_list, lambda t: pa.list_(_inner(t.value_field), t.list_size)),
)


def read_schema(data: bytes | memoryview, title: str) -> pa.Schema:
    """Return an Arrow IPC schema of the other side. Raises BadRequest and LimitExceeded."""
    with as_bad_request(f"{title} is not an Arrow IPC schema"):
        header, _ = next(split_stream(memoryview(data)), (memoryview(b""), None))
        return read_schema_header(header)


def read_schema_header(header: memoryview) -> pa.Schema:
    """Return the schema in the header of a message. Raises Arrow's errors, too."""
    check_schema(read_message(header))
    schema = pa.ipc.read_schema(pa.py_buffer(b"".join(encapsulate(header))))
    check_fields(schema)
    return schema


_UNREADABLE = (pa.ArrowException, OSError, ValueError, MemoryError, TypeError, OUTSIDE)


class as_bad_request:  # noqa: N801
    """Turn Arrow's errors into a BadRequest. `contextmanager` would cost more for each batch."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def __enter__(self) -> None:
        return None

    def __exit__(self, data_type: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _UNREADABLE):
            reason = str(error).splitlines()[0][:200] if str(error) else "no data"
            raise BadRequest(f"{self._sentence}: {reason}") from error


def encapsulate(
    header: memoryview, body: memoryview | None = None, body_bytes: int = 0
) -> tuple[bytes | memoryview, ...]:
    """Return a message of an IPC stream, with a body of exactly `body_bytes`."""
    padding = -len(header) % 8
    size = (len(header) + padding).to_bytes(4, "little")
    start = (_CONTINUATION + size, header, _PADDING[padding])
    if body is None or not body_bytes:
        return start
    return (*start, body[:body_bytes], _PADDING[max(0, body_bytes - len(body))])


def check_fields(fields: Iterable[pa.Field], width: int = 1, is_inner: bool = False) -> None:
    """Raise ValueError for names that are not UTF-8, and for types that would fail later.

    Arrow does not check names, and allocates a NULL of a fixed-size type in full: that may be
    gigabytes.
    """
    for field in fields:
        data_type = field.type
        _ = field.name, getattr(data_type, "tz", None)  # UnicodeDecodeError is a ValueError
        _refuse_unsupported(data_type)
        wide = width
        if pa.types.is_fixed_size_list(data_type):
            wide *= data_type.list_size
        elif pa.types.is_fixed_size_binary(data_type):
            wide *= data_type.byte_width
        if wide > _MAX_FIXED_SIZE:
            raise ValueError(f"type {data_type} has a fixed size of more than {_MAX_FIXED_SIZE}")
        if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
            _check_values(data_type, is_inner)
            continue
        inner = data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type
        check_fields((inner.field(i) for i in range(inner.num_fields)), wide, is_inner=True)


def _refuse_unsupported(data_type: pa.DataType) -> None:
    if data_type.id in _WITHOUT_ARRAYS:
        raise ValueError(f"type {data_type} is not supported; use month_day_nano_interval")
    # Arrow crashes when it makes NULLs of these, or counts their bytes.
    if pa.types.is_union(data_type) and not data_type.num_fields:
        raise ValueError(f"type {data_type} is not supported; a union needs a member")
    if isinstance(data_type, pa.BaseExtensionType) and has_union(data_type):
        raise ValueError(f"type {data_type} is not supported; send the union itself")
    # DuckDB fails with an internal error for such a decimal.
    if pa.types.is_decimal(data_type) and not 0 <= data_type.scale <= data_type.precision:
        raise ValueError(
            f"type {data_type} is not supported; its scale must be 0 to {data_type.precision}"
        )


def _check_values(data_type: pa.DataType, is_inner: bool) -> None:
    """Raise ValueError for runs within other types: DuckDB fails and must be restarted."""
    values = data_type.value_type
    is_plain = not (values.num_fields or pa.types.is_dictionary(values) or values == pa.null())
    if not is_plain or (is_inner and pa.types.is_run_end_encoded(data_type)):
        raise ValueError(f"type {data_type} is not supported; send the values themselves")
    check_fields([pa.field("values", values)], is_inner=True)


def read_single_field(data: bytes, title: str) -> pa.Field:
    """Return the only field of a schema. Raises BadRequest and LimitExceeded."""
    schema = read_schema(data, title)
    if len(schema) != 1:
        raise BadRequest(f"{title} must have exactly one field, not {len(schema)}")
    return schema.field(0)
