"""Fields through changes of a schema: ids, promotion, and values of old files."""

import json

import msgspec
import pytest

from jetbridge.backends.lake.metadata.fields import (
    ids_below,
    merge_types,
    renames_inside,
    reshape,
)
from jetbridge.backends.lake.metadata.lost_partitions import (
    lost_specs,
    refuse_lost_partitions,
    refuse_to_lose_partitions,
)
from jetbridge.backends.lake.types.iceberg_types import (
    IcebergField,
    IcebergType,
    ListType,
    MapType,
    StructType,
    contains_lists,
    decode_fields,
    fields_inside,
    signature,
)
from jetbridge.errors import FailedPrecondition
from tests.helpers.lake_types import connected
from tests.unit.backends.lake.recorded_lake import RecordedLake


def field(number: int, name: str, kind: IcebergType = "int") -> IcebergField:
    return IcebergField(number, name, required=False, type=kind)


def struct(*fields: IcebergField) -> StructType:
    return StructType(fields)


PROMOTED = [
    ("int", "long", True),
    ("float", "double", True),
    ("decimal(9,2)", "decimal(18,2)", True),
    ("decimal(9, 2)", "decimal(9,2)", True),
    ("long", "int", False),
    ("decimal(9,2)", "decimal(9,3)", False),
    ("decimal(18,2)", "decimal(9,2)", False),
    ("int", "string", False),
    ("int", ListType(1, "int", element_required=False), False),
]


@pytest.mark.parametrize(("old", "new", "fits"), PROMOTED)
def test_flat_types_are_promoted(old: IcebergType, new: IcebergType, fits: bool):
    assert merge_types(old, new) == (new if fits else None)


def test_fields_of_a_struct_keep_their_ids_by_name():
    old = struct(field(5, "a"), field(6, "b", "float"))
    new = struct(field(50, "b", "double"), field(51, "c"), field(52, "a", "long"))
    merged = struct(field(6, "b", "double"), field(51, "c"), field(5, "a", "long"))
    assert merge_types(old, new) == merged
    assert merge_types(old, struct(field(50, "a", "string"))) is None


def test_parts_of_lists_and_maps_keep_their_ids():
    old_list = ListType(5, struct(field(6, "a")), element_required=True)
    new_list = ListType(50, struct(field(51, "a", "long")), element_required=False)
    assert merge_types(old_list, new_list) == ListType(
        5, struct(field(6, "a", "long")), element_required=False
    )
    old_map = MapType(5, "string", 6, "int", value_required=False)
    new_map = MapType(50, "string", 51, "long", value_required=False)
    assert merge_types(old_map, new_map) == MapType(5, "string", 6, "long", value_required=False)
    assert merge_types(old_map, MapType(50, "int", 51, "int", value_required=False)) is None
    assert merge_types(old_list, old_map) is None


OLD = struct(field(1, "a"), field(2, "b"), field(3, "gone"))
NEW = struct(field(2, "x y"), field(4, "new"), field(1, "a"))
VALUES = [
    (OLD, NEW, "{'a': 1, 'b': 2, 'gone': 3}", {"x y": 2, "new": None, "a": 1}),
    (OLD, NEW, "NULL::STRUCT(a INT, b INT, gone INT)", None),
    (
        ListType(9, OLD, element_required=False),
        ListType(9, NEW, element_required=False),
        "[{'a': 1, 'b': 2, 'gone': 3}]",
        [{"x y": 2, "new": None, "a": 1}],
    ),
    (
        MapType(8, "int", 9, OLD, value_required=False),
        MapType(8, "int", 9, NEW, value_required=False),
        "MAP {7: {'a': 1, 'b': 2, 'gone': 3}}",
        [(7, {"x y": 2, "new": None, "a": 1})],
    ),
    ("int", "long", "5", 5),
]


@pytest.mark.parametrize(("stored", "current", "value", "expected"), VALUES)
def test_values_of_old_files_get_the_fields_of_today(stored, current, value, expected):
    query = f"SELECT {reshape('v', stored, current)} AS v FROM (SELECT {value} AS v)"
    with connected() as local:
        assert local.execute(query).to_arrow_table().column("v").to_pylist() == [expected]


def test_a_value_whose_fields_did_not_change_is_left_alone():
    assert reshape("v", OLD, OLD) == "v"


def test_ids_and_names_at_every_depth():
    kind = MapType(2, "int", 3, ListType(4, OLD, element_required=False), value_required=False)
    column = field(10, "c", kind)
    assert ids_below(column) == {10, 2, 3, 4, 1}.union({1, 2, 3})
    assert list(fields_inside(kind)) == [(1, "a"), (2, "b"), (3, "gone")]
    assert contains_lists(kind)
    assert not contains_lists(OLD)
    assert signature(kind) == "map<int,list<struct<int,int,int>>>"


def test_a_field_that_had_another_name_is_found():
    first = [field(10, "c", struct(field(1, "a")))]
    assert not renames_inside([first, [field(10, "renamed", struct(field(1, "a")))]])
    assert renames_inside([first, [field(10, "c", struct(field(1, "b")))]])


def test_json_of_fields_comes_back():
    texts = [
        {"id": 1, "name": "a", "required": True, "type": "int", "doc": "d", "write-default": 5},
        {
            "id": 2,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 3,
                "key": "string",
                "value-id": 4,
                "value": {"type": "struct", "fields": []},
                "value-required": True,
            },
        },
    ]
    fields = decode_fields(json.dumps(texts))
    assert json.loads(msgspec.json.encode(fields)) == texts


def test_a_spec_by_a_dropped_column_is_lost(recorded: RecordedLake):
    manifests = recorded.lake.read.manifests
    state = recorded.state("laid_out")
    assert lost_specs(state) == frozenset()
    refuse_lost_partitions(state)
    rest = [column for column in state.fields if column.name != "id"]
    assert lost_specs(state, rest) == {1}
    with pytest.raises(FailedPrecondition, match=r"partitions by 'id'.*jetbridge optimize"):
        refuse_to_lose_partitions(manifests, state, rest)
    plain = recorded.state("plain")
    refuse_to_lose_partitions(manifests, plain, plain.fields[1:])


def test_spark_cannot_change_a_table_with_a_lost_spec(recorded: RecordedLake):
    schema = {"type": "struct", "schema-id": 1, "fields": []}
    old = {"type": "struct", "schema-id": 0}
    old["fields"] = [{"id": 1, "name": "id", "required": True, "type": "long"}]
    state = recorded.change("laid_out", schemas=[old, schema], **{"current-schema-id": 1})
    with pytest.raises(FailedPrecondition, match=r"partitions by 'id'.*--older-than 0s"):
        refuse_lost_partitions(state)
