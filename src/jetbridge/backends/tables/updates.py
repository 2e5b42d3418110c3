"""Reads the row ids of UPDATE and DELETE, and stages the rows of an UPDATE as they arrive."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.tables.column_mapping import ColumnMapping, map_update_columns
from jetbridge.backends.tables.staging import Staging
from jetbridge.catalog import ROWID, DMLOptions, DMLResult
from jetbridge.errors import BadRequest, LimitExceeded

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Few enough to search them one by one.
_MOST_RECENT = 16
_LARGEST = 2**63 - 1


def read_row_ids(column: pa.Array, table: str) -> Integers:
    """Return the row ids as integers; raise BadRequest for NULL, other types and 2^63 or more."""
    if column.null_count or not pa.types.is_integer(column.type):
        raise BadRequest(f"the row ids of table {table!r} must be integers without NULL")
    if column.type == pa.uint64():
        largest = pc.max(column).as_py() or 0
        if largest > _LARGEST:
            raise BadRequest(
                f"row id {largest} of table {table!r} is too large; send the row ids of a scan"
            )
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


@dataclass(frozen=True)
class UpdatedRows:
    """Hold distinct row ids, ascending, and the new values of some columns for each."""

    row_ids: Integers
    fields: tuple[pa.Field, ...]
    values: list[pa.Array]


class StagedUpdate:
    """Stage the rows of one UPDATE; `check` raises for a row id that the table cannot have."""

    def __init__(
        self,
        table: str,
        schema: pa.Schema,
        options: DMLOptions,
        staging: Staging,
        check: Callable[[Integers], None],
    ) -> None:
        self._table, self._schema, self._options = table, schema, options
        self._staging, self._check = staging, check
        self._mapping: ColumnMapping | None = None
        self._row_ids = RowIdSet()
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        """Stage a batch; return the number of rows that no batch before has named."""
        mapping = self._mapping
        if mapping is None or not batch.schema.equals(mapping.sent_schema):
            mapping = self._map_columns(batch.schema)
        row_ids = read_row_ids(batch.column(mapping.rowid), self._table)
        self._check(row_ids)
        columns = mapping.convert(batch, self._rows, self._staging.room())
        self._rows += batch.num_rows
        names = [field.name for field in mapping.targets]
        stored = pa.RecordBatch.from_arrays([*columns, pa.array(row_ids)], names=[*names, ROWID])
        if batch.num_rows:
            self._staging.add(stored)
        count = self._row_ids.add(row_ids)
        returned = _in_sent_order(stored, mapping) if self._options.returning else None
        return DMLResult(count, returned)

    def _map_columns(self, sent: pa.Schema) -> ColumnMapping:
        mapping = map_update_columns(sent, self._schema, self._table)
        before = self._mapping
        if before is not None and before.targets != mapping.targets:
            raise BadRequest(
                "all batches of one UPDATE must set the same columns in the same order"
            )
        self._mapping = mapping
        return mapping

    def updated_rows(self) -> UpdatedRows | None:
        """Return the last values for each row; None if the statement sets nothing."""
        mapping = self._mapping
        if not self._staging.rows or mapping is None or not mapping.targets:
            return None
        staged = pa.Table.from_batches(self._staging.batches()).combine_chunks()
        row_ids, values = take_last_of_each(staged)
        return UpdatedRows(row_ids, mapping.targets, values)

    def close(self) -> None:
        self._staging.close()


def _in_sent_order(stored: pa.RecordBatch, mapping: ColumnMapping) -> pa.RecordBatch:
    """Return the columns in the order they were sent, with the types of the table."""
    fields, columns = list(mapping.targets), stored.columns
    values = columns[:-1]
    values.insert(mapping.rowid, columns[-1])
    fields.insert(mapping.rowid, pa.field(ROWID, pa.int64(), nullable=False))
    return pa.RecordBatch.from_arrays(values, schema=pa.schema(fields))
