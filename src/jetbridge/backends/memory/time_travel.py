"""Finds the version that AT (VERSION => n) or AT (TIMESTAMP => t) names."""

from bisect import bisect_right
from collections.abc import Sequence

from jetbridge.backends.memory.store import MemoryTableVersion
from jetbridge.backends.tables.time_travel import (
    describe_kept_versions,
    parse_timestamp,
    parse_version,
    to_microseconds,
    version_not_kept,
)
from jetbridge.catalog import AsOf, AtUnit


def find_version(
    table: str, history: Sequence[MemoryTableVersion], point: AsOf
) -> MemoryTableVersion:
    """Return the version; raise NotFound, which names the versions that are kept."""
    oldest, newest = history[0], history[-1]
    if point.unit == AtUnit.VERSION:
        index = parse_version(point.value) - oldest.version
        exists = 0 <= index < len(history)
    else:
        timestamp = parse_timestamp(point.value)
        index = bisect_right(history, timestamp, key=lambda v: to_microseconds(v.time)) - 1
        exists = index >= 0
    if exists:
        return history[index]
    kept = describe_kept_versions(oldest.version, newest.version, oldest.time)
    raise version_not_kept(table, point, kept)
