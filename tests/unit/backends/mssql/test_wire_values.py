"""Values on their way to SQL Server: what fits, and which row does not."""

from decimal import Decimal

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.connection.core import align
from jetbridge.backends.mssql.write.driver_batches import (
    BulkColumn,
    convert_batch,
    max_bytes,
    max_utf16_units,
    with_length,
)
from jetbridge.errors import BadRequest

# The last is 24:00:00, a time of DuckDB.
_TIMES = pa.array([None, 86_399_999_999, 86_400_000_000], pa.int64()).cast(pa.time64("us"))


@pytest.mark.parametrize(
    ("kind", "values", "row", "part"),
    [
        ("tinyint", pa.array([0, 127, -1], pa.int8()), 2, "0 to 255"),
        ("tinyint", pa.array([None, 256], pa.int16()), 1, "0 to 255"),
        ("float", pa.array([1.0, None, float("nan")]), 2, "use NULL"),
        ("real", pa.array([float("-inf")], pa.float32()), 0, "use NULL"),
        ("date", pa.array([0, 2_932_897], pa.int32()).cast(pa.date32()), 1, "years 1 to 9999"),
        ("datetime2(7)", pa.array([-(2**62)], pa.int64()).cast(pa.timestamp("us")), 0, "years 1"),
        ("int", pa.array([1, 2**31], pa.int64()), 1, "int32"),
        ("time(6)", _TIMES, 2, r"24:00:00 is not a time of SQL Server \(.* 23:59:59"),
        ("time(7)", _TIMES.slice(2), 0, "use 00:00:00"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_row(kind, values, row, part):
    with pytest.raises(BadRequest, match=rf"column 'c', row {100 + row}: .*{part}"):
        BulkColumn("c", kind).array(values, 100)


def test_batches_get_the_types_that_the_driver_takes():
    columns = [
        BulkColumn("a", "tinyint"),
        BulkColumn("b", "nvarchar(max)"),
        BulkColumn("c", "decimal(10,2)"),
    ]
    values = [pa.array([1], pa.int8()), pa.array(["x"], pa.large_string()), pa.array([Decimal(3)])]
    made = convert_batch(columns, values, 0)
    assert made.schema.types == [pa.uint8(), pa.string(), pa.decimal128(10, 2)]


@pytest.mark.parametrize(
    ("text", "in_units", "in_octets"), [("abc", 3, 3), ("ééé", 3, 6), ("a😀", 4, 5), ("", 0, 0)]
)
def test_lengths_of_texts(text, in_units, in_octets):
    column = pa.array([None, text, ""])
    assert (max_utf16_units(column), max_bytes(column)) == (in_units, in_octets)


@pytest.mark.parametrize(
    ("kind", "most", "found"),
    [
        ("nvarchar(max)", 0, "nvarchar(10)"),
        ("nvarchar(max)", 11, "nvarchar(20)"),
        ("nvarchar(max)", 4001, "nvarchar(max)"),
        ("varchar(max)", 4001, "varchar(8000)"),
        ("varchar(max)", 8001, "varchar(max)"),
    ],
)
def test_lengths_are_rounded_up(kind, most, found):
    assert with_length(BulkColumn("c", kind), most).sql_type == found


def test_decimals_are_where_the_driver_can_read_them():
    """Those of a file are at multiples of eight only."""
    numbers = pa.array([Decimal(n) for n in range(101)], pa.decimal128(12, 2))
    batch = pa.record_batch({"n": numbers, "t": pa.array(["x"] * 101)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for start in range(8):
            writer.write_batch(batch.slice(start, 90 - start))
    found = list(pa.ipc.open_stream(sink.getvalue()))
    assert any(each.column("n").buffers()[1].address % 16 for each in found)
    for each in found:
        made = align(each)
        assert made.column("n").buffers()[1].address % 16 == 0
        assert made.equals(each)
    nulls = pa.record_batch({"n": pa.nulls(3, pa.decimal128(5, 1))})
    assert align(nulls).equals(nulls)
