"""Finds earlier states of a table, for AT."""

from collections.abc import Sequence
from datetime import UTC, datetime

from jetbridge.backends.lake.metadata.structs import Snapshot
from jetbridge.backends.lake.metadata.table_state import CREATED, REPLACED, TableState
from jetbridge.backends.tables.time_travel import (
    describe_kept_versions,
    parse_timestamp,
    parse_version,
    version_not_kept,
)
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.errors import NotFound


def read_history(state: TableState) -> list[Snapshot]:
    """Return the kept snapshots that led to the current one, the oldest first."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in state.snapshots()}
    newest_first: list[Snapshot] = []
    snapshot = snapshots.get(state.file.metadata.current_snapshot_id or 0)
    while snapshot is not None:
        newest_first.append(snapshot)
        replaced = snapshot.property(REPLACED) or "0"
        snapshot = snapshots.get(snapshot.parent_snapshot_id or int(replaced))
    return newest_first[::-1]


def state_at(state: TableState, point: AsOf) -> TableState:
    """Return the table as it was at a version or a time; raises NotFound with what is kept."""
    history = read_history(state)
    begins = not history or _is_first(history[0])
    if point.unit == AtUnit.VERSION:
        earlier = _by_number(state, history, parse_version(point.value), begins)
    else:
        earlier = _by_time(state, history, parse_timestamp(point.value) // 1000, begins)
    if earlier is not None:
        return earlier
    raise _not_kept(state, point, history, begins)


def _by_number(
    state: TableState, history: Sequence[Snapshot], number: int, begins: bool
) -> TableState | None:
    if number == state.version:
        return state
    if number == 0 and begins:
        return state.at_snapshot(None)
    for snapshot in history:
        if snapshot.sequence_number == number:
            return state.at_snapshot(snapshot)
    other = state.file.snapshot_list.find(number)  # the id of a snapshot of another branch
    return None if other is None else state.at_snapshot(other)


def _by_time(
    state: TableState, history: Sequence[Snapshot], millisecond: int, begins: bool
) -> TableState | None:
    for snapshot in reversed(history):
        if snapshot.timestamp_ms <= millisecond:
            return state.at_snapshot(snapshot)
    created = state.properties.get(CREATED, "")
    if begins and created.isdecimal() and int(created) <= millisecond:
        return state.at_snapshot(None)
    return None


def _not_kept(
    state: TableState, point: AsOf, history: Sequence[Snapshot], begins: bool
) -> NotFound:
    oldest = 0 if begins else history[0].sequence_number
    since = int(state.properties.get(CREATED) or 0)
    if history and (not begins or not since):
        since = history[0].timestamp_ms
    kept = describe_kept_versions(oldest, state.version, datetime.fromtimestamp(since / 1000, UTC))
    number = point.value if point.unit == AtUnit.VERSION else ""
    expired = not begins and (not number or int(number) < oldest)
    return version_not_kept(state.title(), point, f"it has expired, {kept}" if expired else kept)


def _is_first(snapshot: Snapshot) -> bool:
    """Return whether a table began with it; a replaced one begins anew with a later number."""
    return not snapshot.parent_snapshot_id and snapshot.sequence_number <= 1
