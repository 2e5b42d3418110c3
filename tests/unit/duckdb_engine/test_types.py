"""What DuckDB calls an Arrow field."""

import pyarrow as pa

from jetbridge.duckdb_engine import duckdb_type

GEOMETRY = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"}


def test_fields_that_differ_in_inner_metadata_only_are_told_apart():
    blobs = pa.list_(pa.field("l", pa.binary()))
    shapes = pa.list_(pa.field("l", pa.binary(), metadata=GEOMETRY))
    assert blobs == shapes
    assert [duckdb_type(pa.field("c", kind)) for kind in (blobs, shapes, blobs)] == [
        "BLOB[]",
        "GEOMETRY[]",
        "BLOB[]",
    ]


def test_the_metadata_of_a_column_other_than_its_extension_does_not_matter():
    field = pa.field("c", pa.binary(), metadata={"default": "NULL", **GEOMETRY})
    assert duckdb_type(field) == "GEOMETRY"
