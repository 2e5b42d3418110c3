"""Handles on tables: a state to read, and the lake behind it to write to."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from jetbridge.backends.lake.ddl import alter, layout
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read import engine_relations, scan, splits
from jetbridge.backends.lake.write import insert, merge, update_delete
from jetbridge.catalog import Alteration, AsOf, DMLOptions, Scan, SparkRelation, TableInfo, Write


class PastTable:
    """A table as it was; it can be read and split, but not written."""

    def __init__(self, lake: Lake, state: TableState) -> None:
        self._lake, self._state = lake, state

    @property
    def state(self) -> TableState:
        return self._state

    def info(self) -> TableInfo:
        return self._state.info()

    def scan(self, request: Scan) -> Iterable[pa.RecordBatch]:
        return scan.scan(self._lake, self._state, request)

    def split(self, request: Scan) -> Sequence[str]:
        return splits.split(self._lake, self._state, request)

    def relation(self, *, row_ids: bool = False) -> AbstractContextManager[str | None]:
        return engine_relations.relation(self._lake, self._state, row_ids=row_ids)

    def spark_relation(self) -> SparkRelation:
        return engine_relations.spark_relation(self._lake, self._state)

    def count_rows(self) -> int:
        count = self._state.count()
        return scan.counted(self._lake, self._state) if count is None else count


class LakeTable(PastTable):
    def inserting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return insert.inserting(self._lake, self._state, options)

    def updating(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return update_delete.updating(self._lake, self._state, options)

    def deleting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return update_delete.deleting(self._lake, self._state, options)

    def merging(self) -> AbstractContextManager[Write]:
        return merge.merging(self._lake, self._state)

    def alter(self, change: Alteration) -> "LakeTable":
        """Applies to the table as it is now, not as this handle saw it."""
        return LakeTable(self._lake, alter.alter(self._lake, self._state, change))

    def lay_out(self, partition_by: str | None, sort_by: str | None) -> "LakeTable":
        return LakeTable(self._lake, layout.lay_out(self._lake, self._state, partition_by, sort_by))

    def at(self, point: AsOf) -> PastTable:
        return PastTable(self._lake, self._lake.current(self._state).at(point))
