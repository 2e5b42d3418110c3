"""Arrow schemas as the client sees them: visible columns, then `rowid`; no dictionaries."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from jetbridge.catalog import ROWID, TableInfo
from jetbridge.errors import BadRequest
from jetbridge.wire.codec import encode

_CHECKS = "check_constraints"


def wire_schema(info: TableInfo) -> pa.Schema:
    """The rowid column stands last: column_statistics of the client miscounts otherwise."""
    fields = [field.with_type(wire_type(field.type)) for field in info.schema]
    if info.row_id is not None:
        fields.append(rowid_field(info.row_id))
    metadata = {}
    if info.checks:
        metadata[_CHECKS] = encode({"constraints": list(info.checks)})
    return pa.schema(fields, metadata=metadata or None)


def rowid_field(kind: pa.DataType) -> pa.Field:
    return pa.field(ROWID, kind, metadata={"is_rowid": "1"})


def wire_type(kind: pa.DataType) -> pa.DataType:
    """The client takes an ENUM back as VARCHAR, so a dictionary is sent as its values."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return wire_type(kind.value_type)
    for is_kind, rebuild in _NESTED:
        if is_kind(kind):
            return rebuild(kind)
    return kind


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


def read_schema(data: bytes, what: str) -> pa.Schema:
    """An Arrow IPC schema sent by a client; raises BadRequest."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        read_names(schema)
        return schema
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else "no data"
        raise BadRequest(f"{what} is not an Arrow IPC schema: {reason}") from error


def read_names(fields: Iterable[pa.Field]) -> None:
    """Raises UnicodeDecodeError where later code would: Arrow keeps a name as it came."""
    for field in fields:
        _ = field.name
        read_names(field.type.field(i) for i in range(field.type.num_fields))


def read_single_field(data: bytes, what: str) -> pa.Field:
    schema = read_schema(data, what)
    if len(schema) != 1:
        raise BadRequest(f"{what} must hold exactly one field, not {len(schema)}")
    return schema.field(0)
