"""Runs INSERT: batches stream into data files, which one commit makes part of the table."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataFile, DataWriter, write_all
from jetbridge.backends.lake.write import key_checks, spark_writes
from jetbridge.backends.lake.write.commit import TableCommit
from jetbridge.backends.lake.write.publisher import Publisher
from jetbridge.backends.tables.column_mapping import ColumnMapping, map_insert_columns
from jetbridge.backends.tables.constraints import check_rows
from jetbridge.catalog import DMLOptions, DMLResult, Write
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import BadRequest, Conflict, ConstraintViolation

_ROWS_PER_CHECK = 100_000


@contextmanager
def inserting(publisher: Publisher, state: TableState, options: DMLOptions) -> Iterator[Write]:
    """Write rows into files, and publish them when the block ends."""
    # An old handle may write: its rows go to the table as it is when the statement begins.
    statement = _LakeInsert(publisher, publisher.tables.current(state), options)
    try:
        yield statement.write
    except BaseException:
        statement.abandon()
        raise
    statement.commit()


class _LakeInsert:
    """Run one INSERT."""

    def __init__(self, publisher: Publisher, state: TableState, options: DMLOptions) -> None:
        self.publisher, self.state, self.options = publisher, state, options
        self._mapping: ColumnMapping | None = None
        self._sent: pa.Schema | None = None
        self._writer = self._new_writer(state)
        self._used = self._writer
        self._writers = [self._writer]
        self._unchecked: list[pa.RecordBatch] = []

    def _new_writer(self, state: TableState) -> DataWriter:
        return self.publisher.new_writer(state.data_folder, state.codec.storage_schema)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        """Write rows; returns them if RETURNING asks for them."""
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
        """Check CHECKs of many rows at once; None: of the rows that are left."""
        if not self.state.definition.checks:
            return
        if stored is not None:
            self._unchecked.append(stored)
        if stored is None or sum(b.num_rows for b in self._unchecked) >= _ROWS_PER_CHECK:
            batches, self._unchecked = self._unchecked, []
            check_rows(self.state.definition, self.state.title(), batches)

    def commit(self) -> None:
        """Publish the rows."""
        if not self._writer.rows:
            return
        try:
            self._check(None)
            files = self._writer.close()
            if not self.state.is_plain():
                spark_writes.insert(self.publisher, self.state, files, self._adapted)
        except BaseException:
            self.abandon()
            raise
        if not self.state.is_plain():
            self.abandon()  # Spark wrote files of its own
            return
        try:
            self.publisher.publish(self.state, lambda latest: self._describe(latest, files))
        except BaseException as error:
            locations = [location for writer in self._writers for location in writer.locations]
            self.publisher.discard(self.state, locations, error)
            raise
        for writer in self._writers:
            if writer is not self._used:
                writer.abandon()

    def _describe(self, latest: TableState, files: list[DataFile]) -> TableCommit:
        files = self._adapted(latest, files)
        key_checks.refuse_duplicates(self.publisher, latest, files)
        return TableCommit(files=files)

    def _adapted(self, latest: TableState, files: list[DataFile]) -> list[DataFile]:
        """Return files for the latest state: new ones if someone altered the table meanwhile."""
        before = self.state
        if latest.fields == before.fields and latest.definition == before.definition:
            self._used = self._writer
            return files
        writer = self._used = self._new_writer(latest)
        self._writers.append(writer)
        try:
            schema = before.definition.schema
            mapping = map_insert_columns(schema, latest.definition.schema, latest.title())
            return write_all(writer, self._adapted_rows(files, mapping, latest))
        except ConstraintViolation:
            raise
        except BadRequest as error:
            raise Conflict(
                f"table {latest.title()!r} was altered while the statement ran: {error}"
            ) from None

    def _adapted_rows(
        self, files: list[DataFile], mapping: ColumnMapping, latest: TableState
    ) -> Iterator[pa.RecordBatch]:
        codec = self.state.codec
        names = self.state.definition.schema.names
        inner = [(name, codec.select(name)) for name in names]
        source = queries.parquet([file.location for file in files])
        for batch in self.publisher.read.reader.stream(queries.scan(source, inner)):
            logical = codec.from_result(batch, self.state.definition.schema)
            columns = mapping.convert(logical, 0)
            rows = pa.RecordBatch.from_arrays(columns, schema=latest.definition.schema)
            check_rows(latest.definition, latest.title(), [rows])
            yield latest.codec.to_storage(rows)

    def abandon(self) -> None:
        """Remove all files of the statement."""
        for writer in self._writers:
            writer.abandon()
