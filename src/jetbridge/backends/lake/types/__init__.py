"""How columns of every DuckDB type are kept in Iceberg tables, and come back equal."""

from jetbridge.backends.lake.types.iceberg_schema import (
    ColumnTypeNote,
    Iceberg,
    arrow_field,
    iceberg_type,
    note,
    signature,
    storage_field,
)
from jetbridge.backends.lake.types.promotion import promotes
from jetbridge.backends.lake.types.row_codec import RowCodec
from jetbridge.backends.lake.types.storage_types import KEPT, StorageType

__all__ = [
    "KEPT",
    "RowCodec",
    "Iceberg",
    "StorageType",
    "ColumnTypeNote",
    "arrow_field",
    "iceberg_type",
    "note",
    "promotes",
    "signature",
    "storage_field",
]
