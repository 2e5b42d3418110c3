"""Finds rows by their ids: in which file they are, and at which position."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.backends.lake.metadata.snapshot_files import SnapshotFiles
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.read.relation import open_snapshot
from jetbridge.catalog import ROWID
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import BadRequest, Conflict, FailedPrecondition

Integers = npt.NDArray[np.int64]

# Above so many rows it is cheaper to read every file than to find out which ones matter.
_MOST_SOUGHT = 100_000


class RowLocations:
    """Collect where rows are, and refuse rows that others changed since the statement began."""

    def __init__(self, pinned: TableState, latest: TableState) -> None:
        self._pinned, self._latest = pinned, latest
        self._files: list[pa.Array] = []
        self._positions: list[pa.Array] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of `locate_rows`; raises Conflict for one that changed since."""
        updated = batch.column(queries.FOUND_UPDATED)
        newest = updated.to_numpy(zero_copy_only=False)
        if len(newest) and newest.max() > self._pinned.version:
            raise self._conflict()
        self._files.append(batch.column(queries.FOUND_FILE).cast(pa.string()).dictionary_encode())
        self._positions.append(batch.column(queries.FOUND_AT))
        self._rows += batch.num_rows

    def refuse_missing(self, row_ids: Integers) -> None:
        """Raise Conflict unless all of these rows were added."""
        if self._rows != len(row_ids):
            raise self._conflict()

    def _conflict(self) -> Conflict:
        return Conflict(
            f"a row of {self._latest.title()!r} was changed or deleted by someone else meanwhile; "
            "run the statement again"
        )

    def by_file(self) -> dict[str, Integers]:
        """Return the positions of the rows by data file, ascending."""
        parts: dict[str, list[Integers]] = {}
        for files, column in zip(self._files, self._positions, strict=True):
            positions = column.to_numpy(zero_copy_only=False).astype(np.int64)
            codes = files.indices.to_numpy()
            for code, name in enumerate(files.dictionary.to_pylist()):
                parts.setdefault(name, []).append(positions[codes == code])
        return {name: np.sort(np.concatenate(part)) for name, part in parts.items()}


def locate_rows(
    context: ReadContext,
    state: TableState,
    files: SnapshotFiles,
    row_ids: Integers,
    columns: Sequence[tuple[str, str]] = (),
    table: pa.Table | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows by id: `columns` as names and SQL, `rowid`, file, position and last change."""
    table = pa.table({ROWID: row_ids}) if table is None else table
    shadowed = state.shadows_file_columns()
    few = len(row_ids) <= _MOST_SOUGHT and not shadowed
    candidates = files.may_hold(row_ids) if few else None
    if not files.files or candidates == []:
        return
    if candidates is not None and len(candidates) == len(files.files):
        candidates = None
    with open_snapshot(context, state) as relation:
        row_id = queries.UNSKIPPED_ROW_ID if files.mixes(row_ids) else queries.ROW_ID
        sql = queries.locate_rows(
            relation.sql, list(columns), "sought", candidates, row_id, places=not shadowed
        )
        yield from context.reader.stream(sql, sought=_contiguous(table), **relation.tables)


def _contiguous(table: pa.Table) -> pa.Table:
    """Return the table without slices of nested arrays, which DuckDB 1.5 misreads."""
    return pa.concat_tables([table, table.slice(0, 0)]).combine_chunks()


def refuse_without_row_ids(state: TableState) -> None:
    """Raise FailedPrecondition for a table whose rows have no ids."""
    if not state.has_row_ids():
        raise FailedPrecondition(
            f"table {state.title()!r} has Iceberg format {state.format_version}, and its rows have "
            "no ids yet, so they can only be read and inserted; upgrade it with "
            f"`jetbridge optimize CATALOG.{state.title()} --upgrade`"
        )


def check_row_ids(row_ids: Integers, state: TableState) -> None:
    """Raise BadRequest for a row id that the table never had."""
    wrong = row_ids[(row_ids < 0) | (row_ids >= state.next_row_id)]
    if len(wrong):
        raise BadRequest(f"table {state.title()!r} never had a row with rowid {wrong[0]}")
