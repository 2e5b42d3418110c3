"""Values of every type come back equal from a Parquet file, at any depth."""

import struct
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.helpers.lake_types import NESTINGS, connected, listed, rows_of, table_for, texts
from tests.integration.rows.type_cases import CASES, TWO_WAYS

NAN = float("nan")
GEO = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"}
WKB = struct.pack("<BIdd", 1, 1, 1.0, 2.0)


@pytest.fixture(scope="module")
def local() -> Iterator[duckdb.DuckDBPyConnection]:
    with connected() as connection:
        yield connection


def every_way(
    local: duckdb.DuckDBPyConnection, batch: pa.RecordBatch, folder: Path
) -> Iterator[pa.RecordBatch]:
    """Yield the rows from a Parquet file by `select`, and by `condition` where that differs."""
    codec = table_for(batch.schema).codec
    stored = codec.to_storage(batch)
    assert stored.schema.equals(codec.storage_schema, check_metadata=True)
    file = folder / f"{uuid4()}.parquet"  # DuckDB may remember one that it has read
    pq.write_table(pa.Table.from_batches([stored]), file, store_schema=False)
    for columns in dict.fromkeys((listed(codec, "select"), listed(codec, "condition"))):
        local.execute("SET arrow_lossless_conversion = true")
        answer = local.execute(f"SELECT {columns} FROM read_parquet('{file}')").to_arrow_table()
        (rows,) = answer.combine_chunks().to_batches()
        found = codec.from_result(rows, batch.schema)
        assert found.schema.equals(batch.schema, check_metadata=True)
        yield found


def stored_and_read(
    local: duckdb.DuckDBPyConnection, batch: pa.RecordBatch, folder: Path
) -> pa.RecordBatch:
    return list(every_way(local, batch, folder))[-1]


# How DuckDB exports a type; where it has one way only, the plain one is the lossless one.
WAYS = [(case.type, way) for case in CASES for way in (True, False) if way or case.type in TWO_WAYS]


@pytest.mark.parametrize(("kind", "lossless"), WAYS)
def test_every_type_comes_back_equal(local, tmp_path, kind, lossless):
    # DuckDB 1.5 dies of an Arrow array of ENUMs, even of its own.
    names = [name for name in NESTINGS if not (kind.startswith("ENUM") and name == "arrays")]
    batch = rows_of(local, kind, lossless=lossless, nestings=names)
    for found in every_way(local, batch, tmp_path):
        assert texts(local, found) == texts(local, batch)


@pytest.mark.parametrize("kind", ["UUID", "JSON", "HUGEINT", "DOUBLE", "GEOMETRY"])
def test_rows_of_nothing_but_null_come_back(local, tmp_path, kind):
    batch = rows_of(local, kind, lossless=True)
    last = batch.take(pa.array([batch.num_rows - 1]))
    for found in every_way(local, last, tmp_path):
        assert texts(local, found) == texts(local, last)
    codec = table_for(batch.schema).codec
    nothing = codec.staged(codec.to_storage(batch.slice(0, 0)))
    assert (nothing.num_rows, nothing.schema) == (0, codec.staged_schema)


def union(codes: list[int], children: list[pa.Array], names: list[str]) -> pa.Array:
    return pa.UnionArray.from_sparse(pa.array(codes, pa.int8()), children, names)


def opaque(kind: str, storage: pa.Array) -> pa.Array:
    return pa.opaque(storage.type, kind, "Someone").wrap_array(storage)


STRUCT = pa.struct([("x", pa.uint8()), ("y", pa.string())])
ARROW: dict[str, pa.Array] = {
    "null": pa.nulls(3),
    "null in a list": pa.array([[None], [], None], pa.list_(pa.null())),
    "bool8": pa.bool8().wrap_array(pa.array([1, 0, None], pa.int8())),
    "decimal32": pa.array([1, -2, None], pa.decimal32(5, 2)),
    "decimal64": pa.array([1, -2, None], pa.decimal64(12, 2)),
    "large_string": pa.array(["a", "", None], pa.large_string()),
    "string_view": pa.array(["a", "", None]).cast(pa.string_view()),
    "large_binary": pa.array([b"a", b"", None], pa.large_binary()),
    "binary_view": pa.array([b"a", b"", None]).cast(pa.binary_view()),
    "fixed_size_binary": pa.array([b"abc", b"\0\0\0", None], pa.binary(3)),
    "date64": pa.array([86400000, -86400000, None], pa.date64()),
    "time32[s]": pa.array([0, 86399, None], pa.time32("s")),
    "time32[ms]": pa.array([0, 86399999, None], pa.time32("ms")),
    "timestamp[ns, UTC]": pa.array([1000, -1000, None], pa.timestamp("ns", "UTC")),
    "timestamp[s, +05:30]": pa.array([1, -62135596800, None], pa.timestamp("s", "+05:30")),
    "timestamp[us, nowhere]": pa.array([1, 2**63 - 1, None], pa.timestamp("us", "Nowhere/Land")),
    "duration[s]": pa.array([1, -5, None], pa.duration("s")),
    "duration[ns]": pa.array([9223372036854775000, -1000, None], pa.duration("ns")),
    "large_list": pa.array([[1], [], None], pa.large_list(pa.uint8())),
    "list_view": pa.array([[1], [], None], pa.list_view(pa.uint8())),
    "large_list_view": pa.array([["1"], [], None], pa.large_list_view(pa.large_string())),
    "fixed_size_list": pa.array([["a", None], None], pa.list_(pa.large_string(), 2)),
    "not null": pa.array([[1], None], pa.list_(pa.field("item", pa.int8(), nullable=False))),
    "a slice": pa.array([[[1]], [[2], None], [[3, 4]], None], pa.list_(pa.list_(pa.uint8())))[1:],
    "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "dictionary of large_string": pa.array(["a", None]).cast(
        pa.dictionary(pa.int8(), pa.large_string())
    ),
    "dictionary of numbers": pa.array([1, 2, None]).dictionary_encode(),
    "run_end_encoded": pc.run_end_encode(pa.array(["a", "a", None]), run_end_type=pa.int16()),
    "arrow.json": pa.json_(pa.large_string()).wrap_array(
        pa.array(['{"a":  1}', "null", None], pa.large_string())
    ),
    "opaque": opaque("foo", pa.array([b"a", None])),
    "opaque text": opaque("foo", pa.array(["a", None])),
    "tensor": pa.fixed_shape_tensor(pa.int32(), (2, 2)).wrap_array(
        pa.array([[1, 2, 3, 4], None], pa.list_(pa.int32(), 4))
    ),
    "map, sorted": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.uint8(), keys_sorted=True)),
    "map of structs": pa.array([[((1, "a"), 2)], [], None], pa.map_(STRUCT, pa.int8())),
    "floats": pa.array([NAN, -0.0, float("inf"), -float("inf"), 5e-324, None]),
    "floats in a struct": pa.array([(NAN,), (-0.0,), None], pa.struct([("f", pa.float32())])),
    "union": union([0, 1, 1], [pa.array([1, 0, 0]), pa.array(["", "x", None])], ["tag", "B"]),
    "union of unions": union(
        [0, 1, 0],
        [
            union([0, 1, 0], [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])], ["x", "y"]),
            pa.array([[1], [2], None], pa.list_(pa.uint8())),
        ],
        ["u", "l"],
    ),
    "names": pa.array(
        [(1, 2, 3, 4, 5)],
        pa.struct(
            [
                ("a.b", pa.int8()),
                ("q\"x'`\n", pa.uint8()),
                ("é☃\U0001f986", pa.int8()),
                ("tag", pa.int8()),
                ("a_b", pa.int64()),
            ]
        ),
    ),
}


@pytest.mark.parametrize("name", ARROW)
def test_every_arrow_type_comes_back(local, tmp_path, name):
    array = ARROW[name]
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(array))), array], ["n", "c"])
    for found in every_way(local, batch, tmp_path):
        found.validate(full=True)
        assert texts(local, found) == texts(local, batch)


ODD_STRUCTS = {
    "without names": ["", ""],
    "with some names": ["", "b"],
    "that differ in case": ["a", "A"],
}


@pytest.mark.parametrize("names", ODD_STRUCTS.values(), ids=ODD_STRUCTS)
def test_structs_with_names_sql_cannot_spell_come_back(local, tmp_path, names):
    kind = pa.struct([pa.field(name, pa.uint8()) for name in names])
    one = pa.StructArray.from_arrays(
        [pa.array([1, 2, None], pa.uint8())] * 2,
        fields=list(kind),
        mask=pa.array([False, True, False]),
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), one)
    arrays = pa.FixedSizeListArray.from_arrays(one, 1)
    for array in (one, lists, arrays):
        batch = pa.RecordBatch.from_arrays([array], ["c"])
        found = stored_and_read(local, batch, tmp_path).column("c")
        assert found.equals(array)
        assert found.type == array.type


def geometry(kind: pa.DataType, metadata: dict[str, str] | None = None) -> pa.Field:
    return pa.field("c", kind, metadata=metadata)


@pytest.mark.parametrize(
    ("field", "array"),
    [
        (geometry(pa.binary(), GEO), pa.array([WKB, None])),
        (geometry(pa.large_binary(), GEO), pa.array([WKB, None], pa.large_binary())),
        (
            geometry(pa.list_(pa.field("l", pa.binary(), metadata=GEO))),
            pa.array([[WKB, None], None]),
        ),
    ],
    ids=["binary", "large_binary", "list"],
)
def test_geometries_keep_their_metadata(local, tmp_path, field, array):
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([field]))
    assert "GEOMETRY" in table_for(batch.schema).codec.condition("c")
    assert stored_and_read(local, batch, tmp_path).equals(batch)


def test_the_reference_system_of_a_geometry_is_kept(local, tmp_path):
    local.execute("SET arrow_lossless_conversion = true")
    sql = "SELECT CAST('POINT(1 2)' AS GEOMETRY('OGC:CRS84')) AS c"
    (batch,) = local.execute(sql).to_arrow_table().to_batches()
    assert stored_and_read(local, batch, tmp_path).equals(batch)


def test_what_stands_beneath_a_null_is_left_behind(local, tmp_path):
    broken = pa.json_().wrap_array(pa.array(["1", "{ no json", "2"]))
    member = union([0, 1, 0], [broken, pa.array(["a", "b", "c"])], ["j", "s"])
    hidden = pa.StructArray.from_arrays([broken], ["j"], mask=pa.array([False, True, False]))
    batch = pa.RecordBatch.from_arrays([pa.array([0, 1, 2]), hidden, member], ["n", "c", "u"])
    found = texts(local, stored_and_read(local, batch, tmp_path))
    assert found["c"] == ["{'j': 1}", None, "{'j': 2}"]
    assert found["u"] == ["1", "b", "2"]


def test_columns_of_one_type_are_not_copied():
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1, 2]), "s": pa.array(["x", None])})
    stored = table_for(batch.schema).codec.to_storage(batch)
    for mine, theirs in zip(stored.columns, batch.columns, strict=True):
        assert [b and b.address for b in mine.buffers()] == [
            b and b.address for b in theirs.buffers()
        ]


def test_uuids_are_staged_as_texts(local):
    batch = rows_of(local, "UUID", lossless=True)
    codec = table_for(batch.schema).codec
    stored = codec.to_storage(batch)
    staged = codec.staged(stored)
    assert staged.schema.field("flat").type == pa.string()
    assert texts(local, staged) == texts(local, stored)
