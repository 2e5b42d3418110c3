"""Terms of a layout, bound to the columns of recorded tables."""

from typing import Any

import pytest

from jetbridge.backends.lake.ddl.layout import _avro_name, _changes, bind, refuse_lost_columns
from jetbridge.backends.lake.ddl.layout_syntax import parse_order, parse_partitions
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.errors import BadRequest, FailedPrecondition
from tests.unit.backends.lake.recorded_lake import RecordedLake


def with_fields(recorded: RecordedLake, *fields: dict[str, Any]) -> TableState:
    listed = [{"required": False, **field} for field in fields]
    schema = {"type": "struct", "schema-id": 2, "fields": listed}
    return recorded.change("plain", schemas=[schema])


INNER = {"type": "struct", "fields": [{"id": 6, "name": "At", "required": False, "type": "date"}]}


def test_terms_are_bound_to_columns_by_id(recorded: RecordedLake):
    state = with_fields(
        recorded,
        {"id": 4, "name": "Ts", "type": "timestamptz"},
        {"id": 5, "name": "inner", "type": INNER},
    )
    terms = parse_partitions("day(TS), year(inner.at), bucket(8, ts), ts")
    bound = [bind(state, term, "partition_by") for term in terms]
    assert [(b.source, b.transform) for b in bound] == [
        (4, "day"),
        (6, "year"),
        (4, "bucket[8]"),
        (4, "identity"),
    ]


WRONG = {
    "none": r"table 's\.plain' has no column 'none'",
    "id.x": r"has no column 'id\.x'",
    "day(id)": "day does not take 'id', which is stored as long",
    "inner": "'inner' is a struct, name a column inside it",
    "hour(inner.at)": r"hour does not take 'inner\.at', which is stored as date",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_term_that_does_not_fit_is_refused(recorded: RecordedLake, text: str):
    state = with_fields(
        recorded,
        {"id": 1, "name": "id", "type": "long"},
        {"id": 5, "name": "inner", "type": INNER},
    )
    [term] = parse_partitions(text)
    with pytest.raises(BadRequest, match=f"^partition_by: .*{WRONG[text]}"):
        bind(state, term, "partition_by")


def test_a_layout_that_the_table_has_changes_nothing(recorded: RecordedLake):
    state = recorded.state("laid_out")
    same = _changes(state, parse_partitions("bucket(2, ID)"), parse_order("name DESC"))
    assert (same.partitions, same.order) == (None, None)
    other = _changes(state, parse_partitions("bucket(4, id)"), parse_order("name"))
    assert [b.transform for b in other.partitions or ()] == ["bucket[4]"]
    assert [o.descending for _, o in other.order or ()] == [False]
    assert _changes(state, None, None).partitions is None


def test_an_empty_text_removes_the_layout(recorded: RecordedLake):
    changes = _changes(recorded.state("laid_out"), [], [])
    assert (changes.partitions, changes.order) == ([], [])
    nothing = _changes(recorded.state("plain"), [], [])
    assert (nothing.partitions, nothing.order) == (None, None)


def test_a_term_may_be_there_once(recorded: RecordedLake):
    with pytest.raises(BadRequest, match=r"'bucket\(4, ID\)' is there twice"):
        _changes(recorded.state("plain"), parse_partitions("bucket(4, id), bucket(4, ID)"), None)
    with pytest.raises(BadRequest, match="sort_by: 'id' is there twice"):
        _changes(recorded.state("plain"), None, parse_order("id, id DESC"))


@pytest.mark.parametrize("kind", ["time", "timestamp_ns", {"type": "list", "element": "geography"}])
def test_a_table_that_spark_cannot_write_has_no_layout(recorded: RecordedLake, kind: Any):
    if isinstance(kind, dict):
        kind = {**kind, "element-id": 9, "element-required": False}
    state = with_fields(
        recorded, {"id": 1, "name": "id", "type": "long"}, {"id": 2, "name": "t", "type": kind}
    )
    with pytest.raises(FailedPrecondition, match="Spark does not write type .* of column 't'"):
        _changes(state, parse_partitions("id"), None)
    assert _changes(state, [], None).partitions is None


def test_a_column_of_the_layout_cannot_be_dropped(recorded: RecordedLake):
    state = recorded.state("laid_out")
    number, name = state.fields
    with pytest.raises(FailedPrecondition, match=r"'id' is part of the partitions.* RESET PARTI"):
        refuse_lost_columns(state, [name])
    with pytest.raises(FailedPrecondition, match=r"'name' is part of the sort order.* RESET SORT"):
        refuse_lost_columns(state, [number])
    refuse_lost_columns(state, [number, name])
    refuse_lost_columns(recorded.state("plain"), [])


@pytest.mark.parametrize(
    ("name", "valid"), [("a b", "a_x20b"), ("ß", "_xDF"), ("1a", "_1a"), ("a_1", "a_1")]
)
def test_names_of_partitions_are_valid_in_avro(name: str, valid: str):
    assert _avro_name(name) == valid
