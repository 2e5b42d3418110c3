"""Stages the rows of an UPDATE as they arrive: row ids and new values."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.backends.tables.column_mapping import ColumnMapping, map_update_columns
from jetbridge.backends.tables.row_ids import Integers, RowIdSet, read_row_ids, take_last_of_each
from jetbridge.backends.tables.staging import Staging
from jetbridge.catalog import ROWID, DMLOptions, DMLResult
from jetbridge.errors import BadRequest


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
