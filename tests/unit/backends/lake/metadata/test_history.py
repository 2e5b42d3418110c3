"""AT (VERSION) and AT (TIMESTAMP) over recorded tables."""

from datetime import UTC, datetime

import pytest

from jetbridge.backends.lake.metadata.history import read_history, state_at
from jetbridge.backends.lake.metadata.table_state import CREATED, REPLACED, TableState
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.errors import NotFound
from tests.unit.backends.lake.recorded_lake import RecordedLake


def version(number: int) -> AsOf:
    return AsOf(AtUnit.VERSION, str(number))


def moment(milliseconds: float) -> AsOf:
    text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ")
    return AsOf(AtUnit.TIMESTAMP, text.removesuffix("+00:00"))


def times(state: TableState) -> list[int]:
    return [snapshot.timestamp_ms for snapshot in state.snapshots()]


def test_each_version_has_its_rows_and_columns(recorded: RecordedLake):
    state = recorded.state("plain")
    found = [state_at(state, version(number)) for number in range(5)]
    assert [past.version for past in found] == [0, 1, 2, 3, 4]
    assert [past.count() for past in found] == [0, 2, 3, 5, 4]
    assert [past.definition.schema.names[1:] for past in found] == [
        ["name"],
        ["name"],
        ["name"],
        ["name", "size"],
        ["label", "size"],
    ]


def test_a_time_means_the_last_snapshot_before_it(recorded: RecordedLake):
    state = recorded.state("plain")
    for number, time in enumerate(times(state), 1):
        assert state_at(state, moment(time)).version == number
        if number > 1:
            assert state_at(state, moment(time - 1)).version == number - 1
    assert state_at(state, moment(times(state)[-1] + 10**9)).version == 4


def test_before_its_first_snapshot_a_table_is_empty_if_its_creation_is_known(
    recorded: RecordedLake,
):
    first = times(recorded.state("plain"))[0]
    with pytest.raises(NotFound, match="plain"):
        state_at(recorded.state("plain"), moment(first - 1))
    state = recorded.change("plain", properties={CREATED: str(first - 1_000)})
    assert state_at(state, moment(first - 1)).snapshot is None
    with pytest.raises(NotFound, match="plain"):
        state_at(state, moment(first - 1_001))


def test_a_version_that_never_was_is_not_found(recorded: RecordedLake):
    with pytest.raises(NotFound, match="plain") as caught:
        state_at(recorded.state("plain"), version(9))
    assert "expired" not in str(caught.value)


def expired(recorded: RecordedLake) -> TableState:
    """The table after its first two snapshots expired."""
    snapshots = [
        {
            "snapshot-id": s.snapshot_id,
            "parent-snapshot-id": s.parent_snapshot_id,
            "sequence-number": s.sequence_number,
            "timestamp-ms": s.timestamp_ms,
            "schema-id": s.schema_id,
            "manifest-list": s.manifest_list,
        }
        for s in recorded.state("plain").snapshots()[2:]
    ]
    return recorded.change("plain", snapshots=snapshots)


def test_versions_that_expired_are_said_to_be(recorded: RecordedLake):
    state = expired(recorded)
    assert [s.sequence_number for s in read_history(state)] == [3, 4]
    assert state_at(state, version(3)).version == 3
    for point in (version(0), version(2), moment(times(state)[0] - 1)):
        with pytest.raises(NotFound, match="has expired"):
            state_at(state, point)


def test_a_snapshot_of_another_branch_is_found_by_its_id(recorded: RecordedLake):
    state = recorded.state("laid_out")
    side = state.references["side"].snapshot_id
    assert [s.sequence_number for s in read_history(state)] == [1, 2]
    assert state_at(state, version(side)).snapshot_id == side


def test_history_goes_on_before_a_table_was_replaced(recorded: RecordedLake):
    snapshots = recorded.state("plain").snapshots()
    listed: list[dict[str, object]] = [
        {"snapshot-id": s.snapshot_id, "sequence-number": s.sequence_number, "timestamp-ms": 1}
        for s in snapshots[:2]
    ]
    listed[1] = {**listed[1], "summary": {REPLACED: str(snapshots[0].snapshot_id)}}
    state = recorded.change(
        "plain", snapshots=listed, **{"current-snapshot-id": snapshots[1].snapshot_id}
    )
    assert [s.sequence_number for s in read_history(state)] == [1, 2]
