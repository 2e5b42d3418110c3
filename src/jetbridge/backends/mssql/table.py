"""Serves a table or view: scans it, changes its rows and alters it."""

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
    """Serve a view. Tables inherit its reads."""

    def __init__(
        self,
        database: Database,
        table: TableDescription,
        reader: SnapshotReader | None = None,
        since: int | None = None,
    ) -> None:
        self._database, self._table, self._reader, self._since = database, table, reader, since
        self._row_ids: RowIds | None = None if table.is_view else row_ids(table)
        self._info = table.info(self._row_ids.type if self._row_ids else None)

    def info(self) -> TableInfo:
        return self._info

    def scan(self, request: Scan) -> Iterable[pa.RecordBatch]:
        query = scan.plan_query(self._table, self._info, self._row_ids, request)
        if self._reader is not None:
            return query.convert(self._reader.stream(query.sql, query.parameters))
        return query.convert(scan.stream(self._database.server, query))

    def spark_relation(self) -> SparkRelation | None:
        """Return what Spark's tasks need to read the table, each at its own time.

        A snapshot has one connection, which cannot be shared with them.
        """
        if self._database.engine is None:
            return None
        return relations.spark_relation(self._database, self._table, self._info)

    def split(self, request: Scan) -> Sequence[str]:
        """Return the splits of a scan; one with a snapshot, which has one connection."""
        if self._reader is not None:
            return [scan.WHOLE]
        return scan.list_splits(self._database.server, self._table)


class MssqlTable(MssqlView):
    """Read, write and alter a table."""

    def count_rows(self) -> int:
        return scan.count_rows(self._database.server, self._table)

    def inserting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return insert.inserting(self._database, self._table, options)

    def updating(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return update_delete.updating(self._database, self._changed_table(), options)

    def deleting(self, options: DMLOptions) -> AbstractContextManager[Write]:
        return update_delete.deleting(self._database, self._changed_table(), options)

    def merging(self) -> AbstractContextManager[Write]:
        return update_delete.merging(self._database, self._changed_table())

    def alter(self, change: Alteration) -> "MssqlTable":
        database, schema = self._database, self._table.schema
        try:
            name = alter.alter(database.server, self._table, change, database.settings)
        finally:
            database.cache.forget()
        return MssqlTable(database, database.table(schema, name))

    def _changed_table(self) -> update_delete.ChangedTable:
        if self._row_ids is None:
            raise FailedPrecondition(
                f"{self._table.title()} has no primary key that can serve as row id, so its rows "
                "cannot be changed; add a primary key"
            )
        since = self._database.changes.latest() if self._since is None else self._since
        return update_delete.ChangedTable(self._table, self._row_ids, since)
