"""INSERT: batches stream into data files, which one commit makes part of the table."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataWriter, write_all
from jetbridge.backends.lake.write import key_checks, spark_writes
from jetbridge.backends.lake.write.commit import DataFile, TableCommit
from jetbridge.backends.tables.column_mapping import ColumnMapping, map_insert_columns
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.catalog import DMLOptions, DMLResult, Write
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import BadRequest, Conflict, ConstraintViolation

_ROWS_PER_CHECK = 100_000


@contextmanager
def inserting(lake: Lake, seen: TableState, options: DMLOptions) -> Iterator[Write]:
    # An old handle may write: its rows go to the table as it is when the statement begins.
    statement = _Insert(lake, lake.current(seen), options)
    try:
        yield statement.write
    except BaseException:
        statement.abandon()
        raise
    statement.commit()


class _Insert:
    def __init__(self, lake: Lake, state: TableState, options: DMLOptions) -> None:
        self.lake, self.state, self.options = lake, state, options
        self._mapping: ColumnMapping | None = None
        self._sent: pa.Schema | None = None
        self._writer = self._new_writer(state)
        self._used = self._writer
        self._writers = [self._writer]
        self._unchecked: list[pa.RecordBatch] = []

    def _new_writer(self, state: TableState) -> DataWriter:
        folder = self.lake.data_folder(state)
        return DataWriter(self.lake.files, folder, self.lake.prefix(), state.codec.storage_schema)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        rows = batch.num_rows
        mapping = self._mapping_of(batch.schema)
        columns = mapping.convert(batch, self._writer.rows)
        stored = pa.RecordBatch.from_arrays(columns, schema=self.state.definition.schema)
        if rows:
            self._writer.add(self.state.codec.to_storage(stored))
            self._check(stored)
        return DMLResult(rows, stored if self.options.returning else None)

    def _mapping_of(self, sent: pa.Schema) -> ColumnMapping:
        if self._mapping is None or not (sent is self._sent or sent.equals(self._sent)):
            schema = self.state.definition.schema
            self._mapping = map_insert_columns(sent, schema, self.state.title())
            self._sent = sent
        return self._mapping

    def _check(self, stored: pa.RecordBatch | None) -> None:
        """CHECKs are asked about many rows at once; None: about those that are left."""
        if not self.state.definition.checks:
            return
        if stored is not None:
            self._unchecked.append(stored)
        if stored is None or sum(b.num_rows for b in self._unchecked) >= _ROWS_PER_CHECK:
            batches, self._unchecked = self._unchecked, []
            check_rows(self.state.definition, self.state.title(), batches)

    def commit(self) -> None:
        if not self._writer.rows:
            return
        try:
            self._check(None)
            files = self._writer.close()
            if not self.state.is_plain():
                spark_writes.insert(self.lake, self.state, files, self._fitting)
        except BaseException:
            self.abandon()
            raise
        if not self.state.is_plain():
            self.abandon()  # Spark has written files of its own
            return
        try:
            self.lake.commit(self.state, lambda now: TableCommit(files=self._checked(now, files)))
        except BaseException as error:
            written = [each for writer in self._writers for each in writer.locations]
            self.lake.discard(self.state, written, error)
            raise
        for writer in self._writers:
            if writer is not self._used:
                writer.abandon()

    def _checked(self, now: TableState, files: list[DataFile]) -> list[DataFile]:
        files = self._fitting(now, files)
        key_checks.refuse_duplicates(self.lake, now, files)
        return files

    def _fitting(self, now: TableState, files: list[DataFile]) -> list[DataFile]:
        """The rows for the table as it is now: someone may have altered it meanwhile."""
        before = self.state
        if now.fields == before.fields and now.definition == before.definition:
            self._used = self._writer
            return files
        writer = self._used = self._new_writer(now)
        self._writers.append(writer)
        try:
            schema = before.definition.schema
            mapping = map_insert_columns(schema, now.definition.schema, now.title())
            return write_all(writer, self._moved(files, mapping, now))
        except ConstraintViolation:
            raise
        except BadRequest as error:
            raise Conflict(
                f"table {now.title()!r} was altered while the statement ran: {error}"
            ) from None

    def _moved(
        self, files: list[DataFile], mapping: ColumnMapping, now: TableState
    ) -> Iterator[pa.RecordBatch]:
        codec = self.state.codec
        names = self.state.definition.schema.names
        inner = [(name, codec.select(name)) for name in names]
        source = queries.parquet([file.location for file in files])
        for batch in self.lake.reader.stream(queries.scan(source, inner)):
            logical = codec.from_result(batch, self.state.definition.schema)
            columns = mapping.convert(logical, 0)
            moved = pa.RecordBatch.from_arrays(columns, schema=now.definition.schema)
            check_rows(now.definition, now.title(), [moved])
            yield now.codec.to_storage(moved)

    def abandon(self) -> None:
        for writer in self._writers:
            writer.abandon()
