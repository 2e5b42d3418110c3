"""How columns of every DuckDB type are kept in Iceberg tables, and come back equal."""

from jetbridge.backends.lake.types.iceberg_schema import (
    Iceberg,
    Note,
    arrow_field,
    iceberg_type,
    note,
    signature,
    storage_field,
)
from jetbridge.backends.lake.types.promotion import promotes
from jetbridge.backends.lake.types.row_codec import Codec
from jetbridge.backends.lake.types.storage_types import KEPT, Kept

__all__ = [
    "KEPT",
    "Codec",
    "Iceberg",
    "Kept",
    "Note",
    "arrow_field",
    "iceberg_type",
    "note",
    "promotes",
    "signature",
    "storage_field",
]
