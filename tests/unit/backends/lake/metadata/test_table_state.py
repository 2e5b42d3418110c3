"""What a table state says of a metadata file, and that what it does not know stays."""

import gzip
import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from jetbridge.backends.lake.metadata.pointers import MetadataPointer
from jetbridge.backends.lake.metadata.structs import decode_schema
from jetbridge.backends.lake.metadata.table_state import TableState, read_state
from jetbridge.catalog import UniqueKey
from jetbridge.errors import Unavailable
from tests.unit.backends.lake.recorded_lake import RecordedLake

POINTER = MetadataPointer("s", "t", "t.metadata.json")


def test_columns_follow_the_schema_of_each_metadata_file(recorded: RecordedLake):
    names = [recorded.state("plain", version).definition.schema.names for version in range(7)]
    assert (
        names == [["id", "name"]] * 3 + [["id", "name", "size"]] * 2 + [["id", "label", "size"]] * 2
    )
    schema = recorded.state("plain").definition.schema
    assert schema.types == [pa.int64(), pa.string(), pa.int32()]
    assert [field.nullable for field in schema] == [False, True, True]
    assert schema.field("label").metadata == {b"comment": b"who"}


def test_numbers_of_a_table_come_from_its_summary(recorded: RecordedLake):
    state = recorded.state("plain")
    assert (state.version, state.count(), state.next_row_id, state.format_version) == (4, 4, 5, 3)
    assert state.has_row_ids()
    assert [s.sequence_number for s in state.snapshots()] == [1, 2, 3, 4]
    assert (recorded.state("plain", 0).version, recorded.state("plain", 0).count()) == (0, 0)
    assert recorded.state("plain", 0).snapshot is None


def test_folders_and_identity(recorded: RecordedLake):
    state = recorded.state("plain")
    assert (state.folder, state.data_folder) == ("recorded/plain", "recorded/plain/data")
    assert state.identity == recorded.state("plain", 0).identity
    moved = recorded.change("plain", properties={"write.data.path": "elsewhere/"})
    assert moved.data_folder == "elsewhere"
    assert recorded.change("plain", **{"table-uuid": None}).identity == "recorded/plain"


def test_layout_of_a_table(recorded: RecordedLake):
    plain, laid_out = recorded.state("plain"), recorded.state("laid_out")
    assert plain.is_plain()
    assert plain.partitioned_specs() == frozenset()
    assert not laid_out.is_plain()
    assert laid_out.partitioned_specs() == {1}
    [field] = laid_out.partition_fields
    assert (field.source_id, field.transform) == (1, "bucket[2]")
    [order] = laid_out.sort_fields
    assert (order.source_id, order.direction, order.null_order) == (2, "desc", "nulls-last")


def test_branches_and_tags(recorded: RecordedLake):
    references = recorded.state("laid_out").references
    assert sorted(references) == ["first", "main", "side"]
    assert references["first"].has_rules()
    assert not references["side"].has_rules()
    assert references["first"].snapshot_id == references["side"].snapshot_id


def test_a_snapshot_is_requested_only_where_the_file_means_another(recorded: RecordedLake):
    state = recorded.state("plain")
    assert state.requested_snapshot_id is None
    first = state.at_snapshot(state.snapshots()[0])
    assert first.requested_snapshot_id == first.snapshot_id
    # The column was renamed without a new snapshot.
    renamed = recorded.state("plain", 5)
    assert renamed.requested_snapshot_id is None
    before = renamed.at_snapshot(renamed.snapshot)
    assert before.definition.schema.names == ["id", "name", "size"]
    assert before.requested_snapshot_id == before.snapshot_id


def test_versions_of_a_table_share_what_ddl_did_not_change(recorded: RecordedLake):
    states = [recorded.state("plain", version) for version in (1, 2, 4, 5)]
    _ = states[0].definition
    assert states[0].file.metadata.schemas is states[1].file.metadata.schemas
    assert states[1].file.metadata.schemas is not states[3].file.metadata.schemas
    assert states[0].file.metadata.properties is states[3].file.metadata.properties
    assert [len(state.snapshots()) for state in states] == [1, 2, 3, 3]


def test_columns_that_shadow_those_of_files(recorded: RecordedLake):
    assert not recorded.state("plain").shadows_file_columns()
    fields = [{"id": 1, "name": "FileName", "required": False, "type": "string"}]
    schema = {"type": "struct", "schema-id": 2, "fields": fields}
    assert recorded.change("plain", schemas=[schema]).shadows_file_columns()


def test_only_ddl_changes_the_fingerprint(recorded: RecordedLake):
    prints = [recorded.state("plain", version).ddl_fingerprint() for version in range(1, 7)]
    assert [one == other for one, other in zip(prints, prints[1:], strict=False)] == [
        True,  # INSERT
        False,  # ADD COLUMN
        True,  # INSERT
        False,  # RENAME COLUMN
        True,  # DELETE
    ]


def test_keys_checks_and_defaults_come_from_the_property(recorded: RecordedLake):
    extras = {
        "checks": ["(id > 0)"],
        "defaults": {"2": "'x'", "3": "nextval('s')"},
        "keys": [{"columns": [1], "primary": True}, {"columns": [9], "primary": False}],
    }
    state = recorded.change("plain", properties={"jetbridge.table": json.dumps(extras)})
    assert state.definition.checks == ("(id > 0)",)
    assert state.definition.keys == (UniqueKey(("id",), primary=True),)
    assert (state.definition.schema.field("label").metadata or {})[b"default"] == b"'x'"


@pytest.mark.parametrize("text", ["", "5", "[]", '{"keys": 3}', '{"checks": [1]}'])
def test_property_that_another_program_damaged_says_nothing(recorded: RecordedLake, text: str):
    state = recorded.change("plain", properties={"jetbridge.table": text})
    assert state.definition.checks == ()
    assert state.definition.keys == ()


def test_one_bad_note_leaves_the_checks(recorded: RecordedLake):
    extras = {
        "checks": ["(id > 0)"],
        "notes": {"1": [{"arrow": [5]}], "2": [{"storage": "string"}]},
    }
    state = recorded.change("plain", properties={"jetbridge.table": json.dumps(extras)})
    assert state.definition.checks == ("(id > 0)",)
    assert state.definition.schema.types == [pa.int64(), pa.string(), pa.int32()]


def test_identifier_fields_of_another_engine_are_a_primary_key(recorded: RecordedLake):
    document = json.loads(Path(recorded.state("plain").location).read_text())
    document["schemas"][2]["identifier-field-ids"] = [1]
    state = recorded.change("plain", schemas=document["schemas"])
    assert state.definition.keys == (UniqueKey(("id",), primary=True),)


def as_state(**changes: object) -> TableState:
    fields = [{"id": 1, "name": "a", "required": False, "type": "int"}]
    document = {
        "format-version": 1,
        "location": "lake/t/",
        "last-column-id": 1,
        "schema": {"type": "struct", "fields": fields},
        **changes,
    }
    return read_state(POINTER, json.dumps(document).encode())


def test_format_1_has_one_schema_and_no_identity():
    state = as_state()
    assert (state.folder, state.identity, state.has_row_ids()) == ("lake/t", "lake/t", False)
    assert state.definition.schema.names == ["a"]


def test_parts_that_are_null_are_empty():
    names = ("schemas", "properties", "partition-specs", "sort-orders", "refs", "snapshots")
    state = as_state(**dict.fromkeys(names), **{"metadata-log": None, "current-snapshot-id": None})
    assert state.definition.schema.names == ["a"]
    assert (state.snapshots(), state.properties, state.references) == ([], {}, {})
    assert state.file.earlier_files() == []


def test_a_compressed_file_is_read(recorded: RecordedLake):
    state = recorded.state("plain")
    data = gzip.compress(Path(state.location).read_bytes())
    assert read_state(state.pointer, data).fields == state.fields


DAMAGES = {
    "empty": b"",
    "cut": b'{"format-version": 3, "location": "t"',
    "no JSON": b"PAR1",
    "a list": b"[]",
    "another file": b'{"a": 1}',
    "a text for a number": b'{"format-version": "x", "location": "t", "last-column-id": 1}',
    "not UTF-8": b'{"format-version": 3, "location": "t", "last-column-id": 1, "x": ["\xff"]}',
    "cut gzip": gzip.compress(b"{}")[:-4],
}


@pytest.mark.parametrize("data", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_named(data: bytes):
    with pytest.raises(Unavailable, match=r"table 's\.t' cannot be read: .* t\.metadata\.json is"):
        read_state(POINTER, data)


def test_without_a_schema_a_table_cannot_be_read():
    with pytest.raises(Unavailable, match="the metadata has no schema"):
        _ = as_state(schema=None).definition


SCHEMA = {
    "type": "struct",
    "schema-id": 3,
    "fields": [
        {"id": 1, "name": "a", "required": True, "type": "int", "note": "x"},
        {
            "id": 2,
            "name": "b",
            "required": False,
            "type": {
                "type": "list",
                "element-id": 3,
                "element": {
                    "type": "struct",
                    "fields": [
                        {"id": 4, "name": "c", "required": False, "type": "int", "unit": "m"}
                    ],
                },
                "element-required": False,
                "sorted": True,
            },
        },
    ],
    "identifier-field-ids": [1],
    "owner": "someone",
}


def test_a_schema_goes_back_with_the_keys_that_are_not_known():
    schema = decode_schema(json.dumps(SCHEMA).encode())
    assert schema.identifiers == (1,)
    assert json.loads(schema.with_fields(schema.fields, [1])) == SCHEMA


def test_a_changed_schema_keeps_unknown_keys_of_fields_that_stay():
    schema = decode_schema(json.dumps(SCHEMA).encode())
    first = msgspec.structs.replace(schema.fields[0], name="z", required=False)
    new = msgspec.structs.replace(schema.fields[0], id=9, name="new", initial_default=5)
    changed = json.loads(schema.with_fields([schema.fields[1], first, new], []))
    assert changed["owner"] == "someone"
    assert changed["identifier-field-ids"] == []
    assert changed["fields"] == [
        SCHEMA["fields"][1],  # type: ignore[index]
        {"id": 1, "name": "z", "required": False, "type": "int", "note": "x"},
        {"id": 9, "name": "new", "required": True, "type": "int", "initial-default": 5},
    ]
