"""Splits large tables for parallel scans: a split is some files, or a piece of one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jetbridge.backends.lake.metadata.snapshot_files import DataFileEntry, SnapshotFiles
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import ROW_GROUP_ROWS
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.read.relation import is_read_by_duckdb
from jetbridge.catalog import Scan
from jetbridge.errors import BadRequest

WHOLE = "0-0"
# The name of a split: a range of files, or a file and a range of its rows.
_NAME = re.compile(r"(?:(?P<file>[0-9]{1,9}):)?(?P<start>[0-9]{1,18})-(?P<end>[0-9]{1,18})")
# Two of our row groups. Where a filter picks few rows, a split costs more than it saves.
ROWS_PER_SPLIT = 2 * ROW_GROUP_ROWS
ROWS_PER_FILTERED_SPLIT = 1_000_000
MOST_SPLITS = 8


@dataclass(frozen=True)
class ScanSplit:
    """Choose the rows of whole files; with `end`, the rows at these positions of one file."""

    files: tuple[DataFileEntry, ...]
    start: int = 0
    end: int | None = None

    @property
    def locations(self) -> tuple[str, ...]:
        """Return the locations of the files."""
        return tuple(file.location for file in self.files)


def split(context: ReadContext, state: TableState, request: Scan) -> list[str]:
    """Return the names of splits of about as many rows each; a small table is one split."""
    least = ROWS_PER_SPLIT if request.filter is None else ROWS_PER_FILTERED_SPLIT
    count = state.count()
    if count is None or count < 2 * least or state.shadows_file_columns():
        return [WHOLE]
    if not is_read_by_duckdb(context, state):
        return [WHOLE]  # each split would read the whole table
    snapshot_files = context.snapshot_files(state)
    total = sum(file.rows for file in snapshot_files.files)
    goal = max(least, -(-total // MOST_SPLITS))
    goal = -(-goal // ROW_GROUP_ROWS) * ROW_GROUP_ROWS
    return list(_ranges(snapshot_files, goal)) or [WHOLE]


def _ranges(listed: SnapshotFiles, goal: int) -> Iterator[str]:
    """Yield the names of splits: small files are joined, and large ones cut."""
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


def find_split(context: ReadContext, state: TableState, name: str | None) -> ScanSplit | None:
    """Return the split of a name that `split` returned; None for the whole table."""
    if name in (None, WHOLE):
        return None
    scan_split = _parse(context.snapshot_files(state), name or "")
    if scan_split is None:
        raise BadRequest(f"table {state.title()!r} has no part {name!r}")
    return scan_split


def _parse(listed: SnapshotFiles, name: str) -> ScanSplit | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    file, start, end = match["file"], int(match["start"]), int(match["end"])
    if file is None:
        return ScanSplit(listed.files[start:end]) if start < end <= len(listed.files) else None
    if int(file) >= len(listed.files) or not start < end <= listed.files[int(file)].rows:
        return None
    return ScanSplit((listed.files[int(file)],), start, end)
