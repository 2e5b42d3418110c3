"""Stores columns of every DuckDB type in Iceberg tables, and reads them back unchanged."""

from jetbridge.backends.lake.types.iceberg_schema import (
    FIELD_ID,
    ROW_ID_COLUMN,
    UPDATED_COLUMN,
    ColumnTypeNote,
    arrow_field,
    iceberg_type,
    note,
    storage_field,
)
from jetbridge.backends.lake.types.iceberg_types import (
    IcebergField,
    IcebergType,
    ListType,
    MapType,
    StructType,
    signature,
)
from jetbridge.backends.lake.types.row_codec import RowCodec
from jetbridge.backends.lake.types.storage_types import KEPT, StorageType, promotes

__all__ = [
    "FIELD_ID",
    "KEPT",
    "ROW_ID_COLUMN",
    "UPDATED_COLUMN",
    "ColumnTypeNote",
    "IcebergField",
    "IcebergType",
    "ListType",
    "MapType",
    "RowCodec",
    "StorageType",
    "StructType",
    "arrow_field",
    "iceberg_type",
    "note",
    "promotes",
    "signature",
    "storage_field",
]
