"""Rows into Parquet data files, in bounded memory, a row group at a time."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from jetbridge.backends.lake.files import Files
from jetbridge.backends.lake.parquet_encoding import parquet_options
from jetbridge.backends.lake.write.commit import DataFile
from jetbridge.errors import LimitExceeded

# DuckDB reads row groups in parallel and passes over those that cannot match: small enough for
# both, large enough to compress.
ROW_GROUP_ROWS = 122_880
ROW_GROUP_BYTES = 64 * 1024 * 1024
FILE_BYTES = 512 * 1024 * 1024
# Two threads encode; more would only hold more row groups in memory.
_ENCODERS = ThreadPoolExecutor(2, "jetbridge-parquet")


@contextmanager
def disk(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LimitExceeded(
            f"rows cannot be written to {folder!r}: {str(error)[:200]}; free some space there"
        ) from None


class DataWriter:
    """Files named `{prefix}-{number}.parquet` in a folder; `close` ends the last of them.

    One row group is encoded while the next one is gathered.
    """

    def __init__(
        self,
        files: Files,
        folder: str,
        prefix: str,
        schema: pa.Schema,
    ) -> None:
        self._files, self._folder, self._schema = files, folder, schema
        self._prefix = f"{prefix}-{uuid4().hex[:12]}"
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = self._gathered_bytes = 0
        self._pending: Future[None] | None = None
        self._writer: pq.ParquetWriter | None = None
        self._written = 0
        self._rows_in_file = 0
        self.rows = 0
        self.locations: list[str] = []
        self._done: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes a batch of exactly the schema."""
        self._gathered.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._gathered_rows >= ROW_GROUP_ROWS or self._gathered_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._gathered:
            return
        batches, self._gathered = self._gathered, []
        self._gathered_rows = self._gathered_bytes = 0
        self._settle()
        self._pending = _ENCODERS.submit(self._encode, batches)

    def _settle(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def _encode(self, batches: list[pa.RecordBatch]) -> None:
        with disk(self._folder):
            table = pa.Table.from_batches(batches, self._schema)
            if self._writer is None:
                self._writer = self._opened(table)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            self._rows_in_file += table.num_rows
            self._written += table.nbytes
            if self._written >= FILE_BYTES:
                self._end_file()

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        location = f"{self._folder}/{self._prefix}-{len(self.locations):05d}.parquet"
        self._files.make_folder(self._folder)
        filesystem, path = self._files.filesystem(location)
        self.locations.append(location)
        options = parquet_options(first)
        return pq.ParquetWriter(path, self._schema, filesystem=filesystem, **options)

    def _end_file(self) -> None:
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        writer.close()
        self._files.flush(self.locations[-1])
        self._done.append(DataFile(self.locations[-1], self._rows_in_file))
        self._rows_in_file = self._written = 0

    def close(self) -> list[DataFile]:
        """All rows are in files now, which outlive a crash."""
        self._flush()
        self._settle()
        with disk(self._folder):
            self._end_file()
        return self._done

    def abandon(self) -> None:
        """Removes whatever was written."""
        with suppress(Exception):
            self._settle()
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()
        self._files.delete(self.locations)


def write_all(writer: DataWriter, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
    for batch in batches:
        writer.add(batch)
    return writer.close()
