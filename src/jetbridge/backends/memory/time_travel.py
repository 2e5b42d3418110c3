"""AT (VERSION => n) and AT (TIMESTAMP => t)."""

from bisect import bisect_right
from collections.abc import Sequence

from jetbridge.backends.memory.store import MemoryTableVersion
from jetbridge.backends.tables.time_travel import (
    parse_timestamp,
    parse_version,
    to_microseconds,
    version_not_kept,
)
from jetbridge.catalog import AsOf, AtUnit


def state_at(table: str, history: Sequence[MemoryTableVersion], point: AsOf) -> MemoryTableVersion:
    """The version asked for; raises NotFound that says which versions are kept."""
    if point.unit == AtUnit.VERSION:
        index = parse_version(point.value) - history[0].version
        found = 0 <= index < len(history)
    else:
        wanted = parse_timestamp(point.value)
        index = bisect_right(history, wanted, key=lambda state: to_microseconds(state.time)) - 1
        found = index >= 0
    if found:
        return history[index]
    first, last = history[0], history[-1]
    raise version_not_kept(
        table,
        point,
        f"kept are versions {first.version} to {last.version}, from {first.time:%F %T.%f} UTC on",
    )
