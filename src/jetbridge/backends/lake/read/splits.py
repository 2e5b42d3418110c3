"""The parts of a large table that are read at the same time: some files, or a piece of one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.snapshot_files import DataFileEntry, SnapshotFiles, inventory
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import ROW_GROUP_ROWS
from jetbridge.backends.lake.read.relation import is_read_by_duckdb
from jetbridge.catalog import Scan
from jetbridge.errors import BadRequest

WHOLE = "0-0"
# Files from the first to before the second, or of one file the rows from and to.
_NAME = re.compile(r"(?:(?P<file>[0-9]{1,9}):)?(?P<start>[0-9]{1,18})-(?P<end>[0-9]{1,18})")
# Two of our row groups. Where a filter picks few rows, each part costs more than it saves.
ROWS_PER_PART = 2 * ROW_GROUP_ROWS
ROWS_PER_FILTERED_PART = 1_000_000
MOST_PARTS = 8


@dataclass(frozen=True)
class ScanSplit:
    """The rows of whole files; if `end` is given, the rows at these positions of one file."""

    files: tuple[DataFileEntry, ...]
    start: int = 0
    end: int | None = None

    @property
    def locations(self) -> tuple[str, ...]:
        return tuple(file.location for file in self.files)


def split(lake: Lake, state: TableState, request: Scan) -> list[str]:
    """Parts of about as many rows each; a small table is one part."""
    least = ROWS_PER_PART if request.filter is None else ROWS_PER_FILTERED_PART
    count = state.count()
    if count is None or count < 2 * least or state.hides_places():
        return [WHOLE]
    if not is_read_by_duckdb(lake, state):
        return [WHOLE]  # each part would read the whole table
    listed = inventory(lake.reader, state)
    total = sum(file.rows for file in listed.files)
    goal = max(least, -(-total // MOST_PARTS))
    goal = -(-goal // ROW_GROUP_ROWS) * ROW_GROUP_ROWS
    return list(_ranges(listed, goal)) or [WHOLE]


def _ranges(listed: SnapshotFiles, goal: int) -> Iterator[str]:
    """Small files are joined, and large ones cut."""
    start = rows = 0
    for index, file in enumerate(listed.files):
        if file.rows > goal:
            if start < index:
                yield f"{start}-{index}"
            yield from (
                f"{index}:{first}-{min(first + goal, file.rows)}"
                for first in range(0, file.rows, goal)
            )
            start, rows = index + 1, 0
            continue
        rows += file.rows
        if rows >= goal:
            yield f"{start}-{index + 1}"
            start, rows = index + 1, 0
    if start < len(listed.files):
        yield f"{start}-{len(listed.files)}"


def part_of(lake: Lake, state: TableState, name: str | None) -> ScanSplit | None:
    """The part that `split` named so; None for the whole table."""
    if name in (None, WHOLE):
        return None
    found = _parsed(inventory(lake.reader, state), name or "")
    if found is None:
        raise BadRequest(f"table {state.title()!r} has no part {name!r}")
    return found


def _parsed(listed: SnapshotFiles, name: str) -> ScanSplit | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    file, start, end = found["file"], int(found["start"]), int(found["end"])
    if file is None:
        return ScanSplit(listed.files[start:end]) if start < end <= len(listed.files) else None
    if int(file) >= len(listed.files) or not start < end <= listed.files[int(file)].rows:
        return None
    return ScanSplit((listed.files[int(file)],), start, end)
