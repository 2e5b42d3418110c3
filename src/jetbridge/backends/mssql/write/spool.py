"""Spools the rows of a statement, first in memory, then in files of a folder.

A complete file never changes, because it may be loaded several times.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from jetbridge.backends.mssql.database import SpoolOptions
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.errors import LimitExceeded
from jetbridge.runtime.array_sizes import array_bytes
from jetbridge.runtime.temporary_folders import TemporaryFolder

_READ_ROWS = 65_536
_FILE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class SpoolPart:
    """Name the rows that one task loads: `rows` rows of the files in order, after `skip` rows."""

    number: int
    files: tuple[str, ...]
    rows: int
    skip: int = 0

    def is_converted(self) -> bool:
        """Return whether rows have the driver's types. Spark's files (Parquet) have other types."""
        return not self.files[0].endswith(".parquet")

    def batches(self) -> Iterator[pa.RecordBatch]:
        skip, left = self.skip, self.rows
        for batch in self._all_batches():
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            part = batch.slice(skip, left)
            yield part
            skip, left = 0, left - part.num_rows
            if not left:
                return

    def _all_batches(self) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            if self.is_converted():
                with pa.memory_map(file) as mapped:
                    yield from pa.ipc.open_stream(mapped)
            else:
                with pq.ParquetFile(file) as source:
                    yield from source.iter_batches(_READ_ROWS)


class RowSpool:
    """Spool batches of one schema. Add all batches before you use `parts` or `batches`."""

    def __init__(self, options: SpoolOptions, file_rows: int) -> None:
        self._options = options
        self._folder: TemporaryFolder | None = None
        self._file_rows = file_rows
        self._max_bytes = options.staged_bytes
        self._in_memory: list[pa.RecordBatch] = []
        self._memory_rows = self._memory_bytes = 0
        self._bytes = 0
        self.rows = 0
        self.parts: list[SpoolPart] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._in_memory.append(batch)
        self._memory_rows += batch.num_rows
        self._memory_bytes += array_bytes(batch)
        self.rows += batch.num_rows
        self._bytes += array_bytes(batch)
        if self._bytes > self._max_bytes:
            raise LimitExceeded(
                f"the statement stages more than {self._max_bytes} bytes; write fewer rows at once"
            )
        if self._memory_rows >= self._file_rows or self._memory_bytes >= _FILE_BYTES:
            self._write()

    @property
    def size(self) -> int:
        return self._bytes

    def to_files(self) -> None:
        """Write the rows in memory to a file, so that Spark's workers can load them."""
        if self._memory_rows:
            self._write()

    def _write(self) -> None:
        with self._options.report_disk_errors():
            self._folder = self._folder or self._options.new_folder()
            file = self._folder.path / f"{len(self.parts):06d}.arrow"
            with (
                pa.OSFile(str(file), "wb") as sink,
                pa.ipc.new_stream(sink, self._in_memory[0].schema) as writer,
            ):
                for batch in self._in_memory:
                    writer.write_batch(batch)
        self.parts.append(SpoolPart(len(self.parts), (str(file),), self._memory_rows))
        self._in_memory, self._memory_rows, self._memory_bytes = [], 0, 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order. It can be called several times."""
        for part in self.parts:
            yield from part.batches()
        yield from self._in_memory

    def delete(self) -> None:
        self._in_memory = []
        if self._folder is not None:
            self._folder.remove()


def group_parts(parts: Sequence[SpoolPart], count: int) -> list[SpoolPart]:
    """Divide the rows of all files evenly into at most `count` parts."""
    rows = sum(part.rows for part in parts)
    count = min(count, rows)
    ends = [rows * number // max(count, 1) for number in range(count + 1)]
    return [_cut(parts, number, ends[number], ends[number + 1]) for number in range(count)]


def _cut(parts: Sequence[SpoolPart], number: int, start: int, end: int) -> SpoolPart:
    files: list[str] = []
    skip = before = 0
    for part in parts:
        if before < end and start < before + part.rows:
            skip = skip if files else start - before
            files += part.files
        before += part.rows
    return SpoolPart(number, tuple(files), end - start, skip)


@contextmanager
def open_spool(options: SpoolOptions, settings: MssqlSettings) -> Iterator[RowSpool]:
    """Yield a spool, and delete its rows after the block."""
    spool = RowSpool(options, settings.copy_flush_rows)
    try:
        yield spool
    finally:
        spool.delete()
