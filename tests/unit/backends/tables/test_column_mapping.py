"""Columns that a batch does not have."""

import pyarrow as pa
import pytest

from jetbridge.backends.tables import column_mapping
from jetbridge.backends.tables.column_mapping import map_insert_columns
from jetbridge.errors import LimitExceeded

LONG = pa.field("s", pa.string(), metadata={b"default": b"repeat('x', 100000)"})
SCHEMA = pa.schema([("n", pa.int64()), LONG])


def numbers(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64())})


def test_columns_that_are_not_sent_have_their_defaults():
    batch = numbers(3)
    columns = map_insert_columns(batch.schema, SCHEMA, "t").convert(batch, 1)
    assert [column.to_pylist() for column in columns] == [[0, 1, 2], ["x" * 100_000] * 3]


def test_defaults_of_one_batch_are_bounded(monkeypatch):
    monkeypatch.setattr(column_mapping, "MOST_UNSENT_BYTES", 1_000_000)
    batch = numbers(11)
    mapping = map_insert_columns(batch.schema, SCHEMA, "t")
    with pytest.raises(LimitExceeded, match="default of column 's' makes more than 1000000 bytes"):
        mapping.convert(batch, 1)


def test_nulls_of_one_batch_are_bounded_for_all_columns_together():
    wide = pa.schema([("n", pa.int64()), *((f"w{i}", pa.list_(pa.int8(), 100)) for i in range(30))])
    batch = numbers(100_000)
    with pytest.raises(LimitExceeded, match="write fewer rows at once"):
        map_insert_columns(batch.schema, wide, "t").convert(batch, 1)
