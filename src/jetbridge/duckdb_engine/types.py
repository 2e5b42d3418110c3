"""What DuckDB calls an Arrow field, and kinds of Arrow types."""

from functools import lru_cache

import duckdb
import pyarrow as pa

from jetbridge.duckdb_engine.sandbox import first_line, session
from jetbridge.duckdb_engine.statements import execute
from jetbridge.errors import BadRequest


def is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_ordinal(kind: pa.DataType) -> bool:
    """Types whose values are integers underneath, ordered as those are."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    )


def duckdb_types(schema: pa.Schema) -> list[str]:
    """Return DuckDB's type of every field, as SQL; raise BadRequest for one it cannot read."""
    return [_named(field) for field in schema]


def duckdb_type(field: pa.Field) -> str:
    return _named(field)


def _named(field: pa.Field) -> str:
    # GEOMETRY is plain binary whose extension name stands in the metadata of the field.
    metadata = field.metadata or {}
    extension = {key: value for key, value in metadata.items() if key.startswith(b"ARROW:")}
    schema = pa.schema([pa.field("c", field.type, metadata=extension or None)])
    try:
        # By its bytes: Arrow takes types for equal whose inner fields differ in metadata.
        return _described(schema.serialize().to_pybytes())
    except (duckdb.Error, pa.ArrowException) as error:
        raise BadRequest(
            f"column {field.name!r}: DuckDB has no type for Arrow {field.type}: {first_line(error)}"
        ) from None


@lru_cache(maxsize=1024)
def _described(serialized: bytes) -> str:
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    # A reader without batches, because pyarrow cannot make an empty array of every type.
    with session(pa.RecordBatchReader.from_batches(schema, [])) as cursor:
        row = execute(cursor, "DESCRIBE jetbridge_data").fetchone()
    assert row is not None  # noqa: S101 - DESCRIBE of one column
    return str(row[1])
