"""The row ids that UPDATE and DELETE are sent."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.errors import BadRequest, LimitExceeded

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def read_row_ids(column: pa.Array, table: str) -> Integers:
    if column.null_count or not pa.types.is_integer(column.type):
        raise BadRequest(f"the row ids of {table!r} must be integers without NULL")
    values: Integers = column.cast(pa.int64()).to_numpy()
    return values


class RowIdSet:
    """Which row ids a statement has had already, so that each counts once."""

    def __init__(self) -> None:
        self._sorted: Integers = np.empty(0, dtype=np.int64)
        self._recent: list[Integers] = []

    def add(self, rowids: Integers) -> int:
        distinct = np.unique(rowids)
        fresh = distinct
        for known in (self._sorted, *self._recent):
            if len(known) and len(fresh):
                fresh = fresh[~_within(fresh, known)]
        if len(fresh):
            self._recent.append(fresh)
        if len(self._recent) > 16:  # noqa: PLR2004 - few enough to search one by one
            self._sorted = self.sorted()
            self._recent = []
        return len(fresh)

    def sorted(self) -> Integers:
        return np.sort(np.concatenate([self._sorted, *self._recent]))


def _within(values: Integers, known: Integers) -> Mask:
    places = np.searchsorted(known, values)
    places[places == len(known)] = 0
    same: Mask = known[places] == values
    return same


def take_last_of_each(rows: pa.Table) -> tuple[Integers, list[pa.Array]]:
    """The row ids, ascending and each once, and the values that came last for each."""
    batch, *more = rows.to_batches()
    if more:  # strings are addressed by 32 bits
        raise LimitExceeded("one UPDATE can set at most 2 GiB of text in one column")
    rowids = batch.column(batch.num_columns - 1).to_numpy()
    backwards = rowids[::-1]
    distinct, first = np.unique(backwards, return_index=True)
    index = pa.array(len(rowids) - 1 - first)
    return distinct, [column.take(index) for column in batch.columns[:-1]]
