"""Reads the row ids that clients send with UPDATE and DELETE."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetbridge.errors import BadRequest, LimitExceeded

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Few enough to search them one by one.
_MOST_RECENT = 16


def read_row_ids(column: pa.Array, table: str) -> Integers:
    """Return the row ids as integers; raise BadRequest for another type, and for NULL."""
    if column.null_count or not pa.types.is_integer(column.type):
        raise BadRequest(f"the row ids of table {table!r} must be integers without NULL")
    values: Integers = column.cast(pa.int64()).to_numpy()
    return values


class RowIdSet:
    """Collect the row ids of a statement, each once."""

    def __init__(self) -> None:
        self._sorted: Integers = np.empty(0, dtype=np.int64)
        self._recent: list[Integers] = []

    def add(self, rowids: Integers) -> int:
        """Add row ids; return how many are new."""
        new = np.unique(rowids)
        for known in (self._sorted, *self._recent):
            if len(known) and len(new):
                new = new[~_contains(known, new)]
        if len(new):
            self._recent.append(new)
        if len(self._recent) > _MOST_RECENT:
            self._sorted = self.sorted()
            self._recent = []
        return len(new)

    def sorted(self) -> Integers:
        """Return all row ids, ascending."""
        return np.sort(np.concatenate([self._sorted, *self._recent]))


def _contains(known: Integers, values: Integers) -> Mask:
    """Return which values are in `known`, which ascends."""
    positions = np.searchsorted(known, values)
    positions[positions == len(known)] = 0
    equal: Mask = known[positions] == values
    return equal


def take_last_of_each(rows: pa.Table) -> tuple[Integers, list[pa.Array]]:
    """Return the distinct row ids, ascending, and for each the values that came last.

    The last column of `rows` has the row ids.
    """
    batch, *others = rows.to_batches()
    if others:  # strings are addressed by 32 bits
        raise LimitExceeded(
            "one UPDATE can set at most 2 GiB of text in one column; update fewer rows at once"
        )
    rowids = batch.column(batch.num_columns - 1).to_numpy()
    reversed_ids = rowids[::-1]
    distinct, first = np.unique(reversed_ids, return_index=True)
    indexes = pa.array(len(rowids) - 1 - first)
    return distinct, [column.take(indexes) for column in batch.columns[:-1]]
