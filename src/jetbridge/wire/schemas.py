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


# An ARRAY of DuckDB holds no more (ArrayType::MAX_ARRAY_SIZE).
_MAX_FIXED_SIZE = 100_000
# Arrow has them, but pyarrow no class for their arrays: the first look at a column is a KeyError.
_WITHOUT_ARRAYS = frozenset({pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME})


def wire_type(kind: pa.DataType) -> pa.DataType:
    """The client takes an ENUM back as VARCHAR, so a dictionary is sent as its values."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return wire_type(kind.value_type)
    if not kind.num_fields:
        return kind
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
        check_fields(schema)
        return schema
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else "no data"
        raise BadRequest(f"{what} is not an Arrow IPC schema: {reason}") from error


def check_fields(fields: Iterable[pa.Field], width: int = 1) -> None:
    """Raises ValueError for what breaks later: a name that is not UTF-8, a value of gigabytes.

    Arrow keeps names as they came, and makes even a NULL of a fixed-size type in full.
    """
    for field in fields:
        kind, _ = field.type, field.name
        if kind.id in _WITHOUT_ARRAYS:
            raise ValueError(f"type {kind} is not supported; use month_day_nano_interval")
        wide = width
        if pa.types.is_fixed_size_list(kind):
            wide *= kind.list_size
        elif pa.types.is_fixed_size_binary(kind):
            wide *= kind.byte_width
        if wide > _MAX_FIXED_SIZE:
            raise ValueError(f"type {kind} has a fixed size of more than {_MAX_FIXED_SIZE}")
        check_fields((kind.field(i) for i in range(kind.num_fields)), wide)


def read_single_field(data: bytes, what: str) -> pa.Field:
    schema = read_schema(data, what)
    if len(schema) != 1:
        raise BadRequest(f"{what} must hold exactly one field, not {len(schema)}")
    return schema.field(0)
