"""Implements tables: a state to read, and the lake behind it to write to."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from jetbridge.backends.lake.ddl import alter, layout
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.history import state_at
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read import relation, scan, splits
from jetbridge.backends.lake.write import insert, merge, update_delete
from jetbridge.catalog import Alteration, AsOf, DMLOptions, Scan, SparkRelation, TableInfo, Write


class LakeTableSnapshot:
    """Read a table as it was; it cannot be written."""

    def __init__(self, lake: Lake, state: TableState) -> None:
        self._lake, self._state = lake, state

    @property
    def state(self) -> TableState:
        """Return the state that this handle reads."""
        return self._state

    def info(self) -> TableInfo:
        """Return columns and constraints."""
        return self._state.info()

    def scan(self, request: Scan) -> Iterable[pa.RecordBatch]:
        """Yield the rows that a request asks for."""
        return scan.scan(self._lake.read, self._state, request)

    def split(self, request: Scan) -> Sequence[str]:
        """Return the names of the splits of a parallel scan."""
        return splits.split(self._lake.read, self._state, request)

    def relation(self, *, row_ids: bool = False) -> AbstractContextManager[str | None]:
        """Yield a query of DuckDB with the rows, or None."""
        return relation.duckdb_relation(self._lake.read, self._state, row_ids=row_ids)

    def spark_relation(self) -> SparkRelation:
        """Return a query of Spark with the rows."""
        return relation.spark_relation(self._lake.read, self._state)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return scan.count_rows(self._lake.read, self._state)


class LakeTable(LakeTableSnapshot):
    """Read and write a table."""

    def inserting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """Begin an INSERT."""
        return insert.inserting(self._lake.publisher, self._state, options)

    def updating(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """Begin an UPDATE."""
        return update_delete.updating(self._lake.publisher, self._state, options)

    def deleting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        """Begin a DELETE."""
        return update_delete.deleting(self._lake.publisher, self._state, options)

    def merging(self) -> AbstractContextManager[Write]:
        """Begin a MERGE."""
        return merge.merging(self._lake.publisher, self._state)

    def alter(self, change: Alteration) -> "LakeTable":
        """Apply a change to the current table, not to the state of this handle."""
        return LakeTable(self._lake, alter.alter(self._lake.publisher, self._state, change))

    def lay_out(self, partition_by: str | None, sort_by: str | None) -> "LakeTable":
        """Set partitions and sort order of new rows."""
        state = layout.lay_out(self._lake.publisher, self._state, partition_by, sort_by)
        return LakeTable(self._lake, state)

    def at(self, point: AsOf) -> LakeTableSnapshot:
        """Return the table as it was at a version or a time."""
        current = self._lake.tables.current(self._state)
        return LakeTableSnapshot(self._lake, state_at(current, point))
