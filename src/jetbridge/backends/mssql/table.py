"""Handles on tables and views."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.ddl import alter
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.metadata.row_ids import RowIds, row_ids
from jetbridge.backends.mssql.read import scan
from jetbridge.backends.mssql.read import spark_relation as relations
from jetbridge.backends.mssql.read.snapshots import SnapshotReader
from jetbridge.backends.mssql.write import insert, update_delete
from jetbridge.catalog import Alteration, DMLOptions, Scan, SparkRelation, TableInfo, Write
from jetbridge.errors import FailedPrecondition


class MssqlView:
    """What can only be read."""

    def __init__(
        self, database: Database, described: TableDescription, moment: SnapshotReader | None = None
    ) -> None:
        self._database, self._described, self._moment = database, described, moment
        self._row_ids: RowIds | None = None if described.is_view else row_ids(described)
        self._info = described.info(self._row_ids.type if self._row_ids else None)

    def info(self) -> TableInfo:
        return self._info

    def scan(self, request: Scan) -> Iterable[pa.RecordBatch]:
        question = scan.question(self._described, self._info, self._row_ids, request)
        if self._moment is not None:
            return question.conformed(self._moment.stream(question.sql, question.parameters))
        return question.conformed(scan.stream(self._database.server, question))

    def spark_relation(self) -> SparkRelation | None:
        """At one moment there is one connection; so Spark's tasks read at moments of their own."""
        if self._database.engine is None:
            return None
        return relations.spark_relation(self._database, self._described, self._info)

    def split(self, request: Scan) -> Sequence[str]:
        """At one moment there is one connection, and so one part."""
        if self._moment is not None:
            return [scan.WHOLE]
        return scan.parts(self._database.server, self._described)


class MssqlTable(MssqlView):
    def count_rows(self) -> int:
        return scan.count(self._database.server, self._described)

    def inserting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return insert.inserting(self._database, self._described, options)

    def updating(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return update_delete.updating(self._database, self._described, self._ids(), options)

    def deleting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return update_delete.deleting(self._database, self._described, self._ids(), options)

    def merging(self) -> AbstractContextManager[Write]:
        return update_delete.merging(self._database, self._described, self._ids())

    def alter(self, change: Alteration) -> "MssqlTable":
        database, schema = self._database, self._described.schema
        try:
            name = alter.alter(database.server, self._described, change, database.settings)
        finally:
            database.known.forget()
        return MssqlTable(database, database.table(schema, name))

    def _ids(self) -> RowIds:
        if self._row_ids is None:
            raise FailedPrecondition(
                f"{self._described.title()} has no primary key whose values tell its rows apart, "
                "so they cannot be changed by row id; add a primary key"
            )
        return self._row_ids
