"""Columns that Iceberg keeps beside those of the table, in files whose rows are not new."""

import pyarrow as pa

from jetbridge.backends.lake.types.iceberg_schema import FIELD_ID
from jetbridge.dialects.duckdb import iceberg as queries


def _column(name: str, field_id: int) -> pa.Field:
    return pa.field(name, pa.int64(), metadata={FIELD_ID: str(field_id)})


# The id a row has, and the sequence number of the snapshot that last changed it.
ROW_ID = _column(queries.ROW_ID, queries.ROW_ID_FIELD)
UPDATED = _column(queries.UPDATED, queries.UPDATED_FIELD)
