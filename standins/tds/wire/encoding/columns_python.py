"""Arrow columns to the values that Python has for them."""

from datetime import timedelta, timezone
from typing import Any

import pyarrow as pa

from standins.tds.arrow_types import OFFSET_TIME
from standins.tds.values import Row


def _with_offset(value: dict[str, Any] | None) -> Any:
    if value is None:
        return None
    return value["utc"].astimezone(timezone(timedelta(minutes=value["minutes"])))


def python_values(column: pa.Array) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return list(map(_with_offset, found)) if column.type == OFFSET_TIME else found


def python_rows(batch: pa.RecordBatch) -> list[Row]:
    return list(zip(*map(python_values, batch.columns), strict=True))
