"""Values that a table could not give back equal, or not at all, are refused."""

import struct
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.errors import BadRequest
from tests.helpers.lake_types import table_for

GEO = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"}


def opaque(kind: str, *values: bytes) -> pa.Array:
    storage = pa.array(values, pa.binary(8) if kind == "time_tz" else pa.binary())
    return pa.opaque(storage.type, kind, "DuckDB").wrap_array(storage)


def raw(kind: pa.DataType, code: str, *values: Any) -> pa.Array:
    data = b"".join(struct.pack(code, *(v if isinstance(v, tuple) else (v,))) for v in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


DAY = 86400 * 10**6
# Two values each; the second cannot be kept.
UNFIT: dict[str, tuple[pa.Array, str]] = {
    "TIMESTAMP_S": (pa.array([0, 10**15], pa.timestamp("s")), "Could not convert"),
    "TIMESTAMP_NS": (pa.array([0, -(2**63) + 2], pa.timestamp("ns")), "out of range"),
    "TIMESTAMPTZ": (pa.array([1000, 1], pa.timestamp("ns", "UTC")), "lose data"),
    "TIME": (raw(pa.time64("us"), "<q", DAY, DAY + 1), "no time of day"),
    "TIME32": (raw(pa.time32("s"), "<i", 0, -1), "no time of day"),
    "TIME_NS": (raw(pa.time64("ns"), "<q", 0, 2**62), "no time of day"),
    "TIMETZ": (opaque("time_tz", bytes(8), b"\xff" * 8), "no time of day"),
    "INTERVAL": (
        raw(pa.month_day_nano_interval(), "<iiq", (1, 2, 3000), (0, 0, -1)),
        "fraction of a microsecond",
    ),
    "duration": (pa.array([1, 10**10], pa.duration("s")), "292 years"),
    "duration[ns]": (pa.array([1000, 1], pa.duration("ns")), "lose data"),
    "DECIMAL(38,0)": (raw(pa.decimal128(38, 0), "<QQ", (1, 0), (0, 2**63 - 1)), "precision"),
    "JSON": (pa.json_().wrap_array(pa.array(["{}", "{ no json"])), "same value"),
    "BIT": (opaque("bit", b"\x00\xff", b""), "no BIT"),
    "BIT with 255 bits too much": (opaque("bit", b"\x00\xff", b"\xff\xff"), "no BIT"),
    "BIGNUM": (opaque("bignum", b"\x80\x00\x01\x01", b""), "Invalid blob"),
    "MAP with a key twice": (
        pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8())),
        "duplicate key",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_values_that_cannot_be_kept_are_refused_with_column_and_row(name, nested):
    array, reason = UNFIT[name]
    if nested:
        array = pa.StructArray.from_arrays([array], ["x"])
        array = pa.ListArray.from_arrays(pa.array([0, 1, 1, 2], pa.int32()), array)
    batch = pa.RecordBatch.from_arrays([array], ["the column"])
    codec = table_for(batch.schema).codec
    codec.to_storage(batch.slice(0, len(array) - 1))
    row = 10 + len(array) - 1
    with pytest.raises(BadRequest, match=f"column 'the column', row {row}: .*{reason}"):
        codec.to_storage(batch, first_row=10)


def test_bytes_that_are_no_geometry_are_refused():
    schema = pa.schema([pa.field("g", pa.binary(), metadata=GEO)])
    batch = pa.RecordBatch.from_arrays([pa.array([None, b"junk"])], schema=schema)
    with pytest.raises(BadRequest, match="column 'g', row 1: b'junk' cannot be stored as GEOMETRY"):
        table_for(schema).codec.to_storage(batch)
