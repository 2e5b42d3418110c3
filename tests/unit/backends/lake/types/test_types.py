"""What columns are in Iceberg, what is recorded of them, and what is refused."""

import base64
import itertools
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from jetbridge.backends.lake.types import (
    KEPT,
    ColumnTypeNote,
    IcebergField,
    IcebergType,
    RowCodec,
    arrow_field,
    iceberg_type,
    note,
    promotes,
    signature,
    storage_field,
)
from jetbridge.errors import BadRequest, ConstraintViolation, NotSupported
from tests.helpers.lake_types import connected, table_for
from tools.types_page import PAGE, page

GEO = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"}


def column(kind: pa.DataType, **options: Any) -> pa.Field:
    return pa.field("c", kind, **options)


def kept_as(kind: pa.DataType) -> IcebergType:
    return iceberg_type(column(kind), itertools.count(1).__next__)


def as_json(kind: IcebergType) -> Any:
    return msgspec.json.decode(msgspec.json.encode(kind))


def from_json(kind: Any) -> IcebergType:
    return msgspec.convert(kind, IcebergType)  # type: ignore[no-any-return]


def noted(field: pa.Field, iceberg: IcebergType) -> ColumnTypeNote:
    made = note(field, iceberg)
    assert made is not None
    return made


@cache
def field_of(kind: str) -> pa.Field:
    """The column that DuckDB makes of a type of its own."""
    with connected() as local:
        local.execute("SET arrow_lossless_conversion = true")
        value = kind if kind.startswith("ROW") else f"CAST(NULL AS {kind})"
        return local.execute(f"SELECT {value} AS c").to_arrow_table().schema.field(0)


def test_the_page_of_types_is_made_of_the_table():
    assert PAGE.read_text() == page(), "run: python tools/types_page.py"


@pytest.mark.parametrize("kind", [name for name in KEPT if "(" not in name])
def test_every_row_of_the_table_is_a_type_of_duckdb(kind):
    made = iceberg_type(field_of("DECIMAL(9,2)" if kind == "DECIMAL" else kind), int)
    assert made == KEPT[kind].iceberg.format(digits="9,2")


def test_fields_inside_are_optional_and_numbered():
    inner = pa.field("x", pa.int8(), nullable=False)
    kind = pa.map_(pa.string(), pa.list_(pa.struct([inner, pa.field("y", pa.uuid())])))
    assert as_json(kept_as(kind)) == {
        "type": "map",
        "key-id": 1,
        "key": "string",
        "value-id": 2,
        "value": {
            "type": "list",
            "element-id": 3,
            "element": {
                "type": "struct",
                "fields": [
                    {"id": 4, "name": "x", "required": False, "type": "int"},
                    {"id": 5, "name": "y", "required": False, "type": "uuid"},
                ],
            },
            "element-required": False,
        },
        "value-required": False,
    }


def test_a_union_is_a_struct_with_a_tag():
    kind = as_json(
        kept_as(pa.sparse_union([pa.field("tag", pa.int8()), pa.field("s", pa.string())]))
    )
    assert [(f["name"], f["type"]) for f in kind["fields"]] == [
        ("tag", "string"),
        ("tag_2", "int"),
        ("s", "string"),
    ]


@pytest.mark.parametrize(
    ("names", "stored"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "A", "a_2"], ["a", "A_2", "a_2_2"]),
        (["", ""], ["field", "field_2"]),
        (["a.b", "a_b"], ["a_b", "a_b_2"]),
        (["É", "é"], ["É", "é_2"]),
        (['q"', "x y", "it's"], ['q"', "x y", "it's"]),
    ],
)
def test_names_of_fields_are_such_that_every_engine_takes_them(names, stored):
    kind = as_json(kept_as(pa.struct([pa.field(name, pa.int8()) for name in names])))
    assert [field["name"] for field in kind["fields"]] == stored


@pytest.mark.parametrize(
    "kind",
    [
        pa.float16(),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.struct([]),
        pa.list_(pa.int8(), 0),
        pa.list_(pa.struct([pa.field("a\0b", pa.int8())])),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.sparse_union([pa.field("a", pa.int8()), pa.field("A", pa.int8())]),
        pa.sparse_union([pa.field("a", pa.struct([pa.field("", pa.int8())]))]),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
    ],
    ids=str,
)
def test_types_that_cannot_be_kept_are_refused_with_the_column(kind):
    with pytest.raises(BadRequest, match="column 'c'"):
        kept_as(kind)


@pytest.mark.parametrize(
    "kind",
    [
        pa.bool_(),
        pa.int32(),
        pa.timestamp("us", "UTC"),
        pa.uuid(),
        pa.decimal128(38, 10),
        pa.list_(pa.field("l", pa.string())),
        pa.struct([("a", pa.map_(pa.string(), pa.date32()))]),
    ],
    ids=str,
)
def test_native_types_need_no_note(kind):
    assert note(column(kind), kept_as(kind)) is None


def test_a_note_is_json_and_leaves_out_what_has_other_places():
    field = column(pa.binary(), nullable=False, metadata={**GEO, "default": "NULL", "comment": "x"})
    made = noted(field, "binary")
    assert msgspec.json.decode(msgspec.json.encode(made), type=ColumnTypeNote) == made
    assert (made.storage, made.duckdb) == ("binary", "GEOMETRY")
    restored = arrow_field("d", "binary", required=True, doc="y", notes=[made])
    metadata = {**GEO, "comment": "y"}
    expected = pa.field("d", pa.binary(), nullable=False, metadata=metadata)
    assert restored.equals(expected, check_metadata=True)


def test_a_note_is_ignored_when_the_type_has_changed():
    made = noted(column(pa.int8()), "int")
    assert arrow_field("c", "int", notes=[made]).type == pa.int8()
    assert arrow_field("c", "long", notes=[made]).type == pa.int64()


def test_the_first_note_that_fits_counts():
    kinds = ((pa.uint32(), "long"), (pa.int8(), "int"), (pa.int16(), "int"))
    notes = [noted(column(kind), storage) for kind, storage in kinds]
    assert arrow_field("c", "int", notes=notes).type == pa.int8()


def test_spaces_in_the_name_of_a_type_do_not_matter():
    made = noted(column(pa.uint64()), "decimal(20,0)")
    assert arrow_field("c", "decimal(20, 0)", notes=[made]).type == pa.uint64()
    assert signature("decimal(20, 0)") == signature("decimal(20,0)")


def encoded(field: pa.Field) -> str:
    return base64.b64encode(pa.schema([field]).serialize().to_pybytes()).decode()


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"storage": "int"},
        {"storage": "int", "arrow": "!"},
        {"storage": "int", "arrow": "AAAA"},
        {"storage": "int", "arrow": 5},
        {"storage": "int", "arrow": encoded(column(pa.string()))},
        {"storage": "int", "arrow": encoded(column(pa.float16()))},
    ],
    ids=str,
)
def test_notes_that_nobody_of_us_wrote_are_ignored(made):
    assert arrow_field("c", "int", notes=[msgspec.convert(made, ColumnTypeNote)]).type == pa.int32()


def test_fields_renamed_by_others_have_the_new_name():
    kind = pa.list_(
        pa.struct([("a.b", pa.uint8()), ("u", pa.sparse_union([pa.field("m", STRUCT)]))])
    )
    stored = kept_as(kind)
    made = noted(column(kind), stored)
    assert arrow_field("c", stored, notes=[made]).type == kind
    renamed = as_json(stored)
    renamed["element"]["fields"][0]["name"] = "renamed"
    union = renamed["element"]["fields"][1]["type"]["fields"]
    union[0]["name"], union[1]["name"] = "kind", "member"
    union[1]["type"]["fields"][0]["name"] = "inside"
    inner = pa.struct([("inside", pa.uint8())])
    assert arrow_field("c", from_json(renamed), notes=[made]).type == pa.list_(
        pa.struct([("renamed", pa.uint8()), ("u", pa.sparse_union([pa.field("m", inner)]))])
    )


STRUCT = pa.struct([("x", pa.uint8())])
FOREIGN: list[dict[str, Any]] = [
    {"id": 1, "name": "t", "required": True, "type": "time"},
    {"id": 2, "name": "ns", "required": False, "type": "timestamp_ns"},
    {"id": 3, "name": "f", "required": False, "type": "fixed[3]"},
    {
        "id": 4,
        "name": "s",
        "required": False,
        "type": {
            "type": "struct",
            "fields": [{"id": 5, "name": "a", "required": True, "type": "int"}],
        },
    },
    {
        "id": 6,
        "name": "l",
        "required": False,
        "type": {"type": "list", "element-id": 7, "element": "time", "element-required": True},
    },
]


def foreign() -> RowCodec:
    fields = msgspec.convert(FOREIGN, list[IcebergField])
    columns = [arrow_field(f.name, f.type, required=f.required) for f in fields]
    return RowCodec(pa.schema(columns), fields)


def test_types_of_other_engines_are_kept_as_they_are():
    codec = foreign()
    assert [str(kind) for kind in codec.schema.types] == [
        "time64[us]",
        "timestamp[ns]",
        "fixed_size_binary[3]",
        "struct<a: int32 not null>",
        "list<l: time64[us] not null>",
    ]
    assert [codec.select(name) for name in codec.schema.names] == [
        '"t"', '"ns"', '"f"', '"s"', '"l"',
    ]  # fmt: skip
    rows = [{"t": 5, "ns": 7, "f": b"abc", "s": {"a": 1}, "l": [5]}, {"t": 6}]
    batch = pa.RecordBatch.from_pylist(rows, schema=codec.schema)
    stored = codec.to_storage(batch)
    assert codec.from_result(stored, codec.schema).equals(batch)


@pytest.mark.parametrize("row", [{"t": 5, "s": {"a": None}}, {"t": 5, "l": [None]}], ids=str)
def test_null_in_a_required_field_is_refused_with_the_row(row):
    codec = foreign()
    batch = pa.RecordBatch.from_pylist([{"t": 1, "s": None}, row], schema=codec.schema)
    with pytest.raises(BadRequest, match=r"column '.', row 11: .* which is NOT NULL"):
        codec.to_storage(batch, first_row=10)


def test_null_in_a_required_column_is_refused_with_the_row():
    codec = foreign()
    batch = pa.RecordBatch.from_pylist([{"t": 1}, {"t": None}], schema=codec.schema)
    with pytest.raises(ConstraintViolation, match=r"t \(row 11\)"):
        codec.to_storage(batch, first_row=10)


@pytest.mark.parametrize(
    "kind",
    ["timestamptz_ns", "variant", "geometry", "unknown", {"type": "struct", "fields": []}],
    ids=str,
)
def test_types_of_other_engines_that_nobody_reads_are_not_supported(kind):
    with pytest.raises(NotSupported, match="column 'c'"):
        arrow_field("c", from_json(kind))


def test_every_level_of_a_data_file_has_its_field_id():
    kind = kept_as(pa.map_(pa.string(), pa.list_(STRUCT)))
    field = storage_field(IcebergField(9, "c", required=True, type=kind))
    found = {}

    def collect(each: pa.Field) -> None:
        found[each.name] = (each.metadata or {}).get(b"PARQUET:field_id")
        for index in range(each.type.num_fields):
            collect(each.type.field(index))

    collect(field)
    assert found == {
        "c": b"9", "entries": None, "key": b"1", "value": b"2", "element": b"3", "x": b"4",
    }  # fmt: skip
    assert not field.nullable


@pytest.mark.parametrize(
    ("kind", "pushable"),
    [
        ("INTEGER", True),
        ("DOUBLE", True),
        ("UUID", True),
        ("STRUCT(a HUGEINT, b DOUBLE)", True),
        ("UNION(a INTEGER[], b GEOMETRY)", True),
        ("INTEGER[2]", True),
        ("STRUCT(a DOUBLE, b INTEGER[2])", False),  # DuckDB has no CASE for arrays
        ("ROW(1, 2)", False),
    ],
)
def test_filters_are_pushed_down_where_sql_has_the_type(kind, pushable):
    assert table_for(pa.schema([field_of(kind)])).codec.pushable("c") is pushable


def test_plain_columns_are_plain_in_sql_but_for_nan():
    schema = pa.schema([('a "b', pa.int64()), ("f", pa.float32())])
    codec = table_for(schema).codec
    assert [codec.select(name) for name in schema.names] == ['"a ""b"', '"f"']
    assert codec.condition('a "b') == '"a ""b"'
    assert codec.condition("f") == 'if(isnan("f"), CAST(\'nan\' AS FLOAT), "f")'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TINYINT", "SMALLINT"),
        ("TINYINT", "BIGINT"),
        ("UTINYINT", "SMALLINT"),
        ("USMALLINT", "UINTEGER"),
        ("UINTEGER", "BIGINT"),
        ("FLOAT", "DOUBLE"),
        ("DECIMAL(4,2)", "DECIMAL(38,2)"),
        ("TIMESTAMP_S", "TIMESTAMP"),
        ("JSON", "VARCHAR"),
        ("UTINYINT[2]", "INTEGER[]"),
        ("STRUCT(a INTEGER, b FLOAT)", "STRUCT(a BIGINT, b DOUBLE)"),
        ("STRUCT(a INTEGER, b FLOAT)", "STRUCT(b DOUBLE, c VARCHAR)"),
        ("MAP(TINYINT, TINYINT)[]", "MAP(TINYINT, INTEGER)[]"),
    ],
)
def test_types_are_widened_without_new_files_one_way_only(old, new):
    assert promotes(field_of(old), field_of(new))
    assert not promotes(field_of(new), field_of(old))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TINYINT", "UTINYINT"),
        ("UBIGINT", "BIGINT"),
        ("INTEGER", "DOUBLE"),
        ("HUGEINT", "VARCHAR"),
        ("TIMETZ", "VARCHAR"),
        ("DATE", "TIMESTAMP"),
        ("TIMESTAMP", "TIMESTAMPTZ"),
        ("DECIMAL(4,2)", "DECIMAL(8,3)"),
        ("BLOB", "VARCHAR"),
        ("INTEGER[2]", "INTEGER[3]"),
        ("STRUCT(a INTEGER)", "STRUCT(b INTEGER)"),
        ("MAP(INTEGER, INTEGER)", "MAP(BIGINT, INTEGER)"),
        ("UNION(a INTEGER)", "UNION(a BIGINT)"),
        ("INTEGER", "INTEGER[]"),
    ],
)
def test_other_changes_of_a_type_need_new_files(old, new):
    assert not promotes(field_of(old), field_of(new))


def test_another_layout_of_one_type_needs_no_new_files():
    kinds = (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()))
    pairs = itertools.product(kinds, kinds)
    assert all(promotes(column(one), column(other)) for one, other in pairs)
