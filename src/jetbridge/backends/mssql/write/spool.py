"""Rows of a statement on their way: in memory while they are few, then in files of a folder.

Each file is loaded by itself and may be loaded again, so it is never changed once it is complete.
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
from jetbridge.runtime.temporary_folders import TemporaryFolder, sweep

_READ_ROWS = 65_536
_FILE_BYTES = 256 * 1024 * 1024
# Of a folder that the configuration names, so that workers may be of another user.
_SHARED = 0o777


@dataclass(frozen=True)
class SpoolPart:
    """So many rows of some files, one after the other, after those that are skipped."""

    number: int
    files: tuple[str, ...]
    rows: int
    skip: int = 0

    def is_ready(self) -> bool:
        """Whether its rows are as the driver takes them; Spark writes its own types."""
        return not self.files[0].endswith(".parquet")

    def batches(self) -> Iterator[pa.RecordBatch]:
        skip, left = self.skip, self.rows
        for batch in self._whole():
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            taken = batch.slice(skip, left)
            yield taken
            skip, left = 0, left - taken.num_rows
            if not left:
                return

    def _whole(self) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            if self.is_ready():
                with pa.memory_map(file) as mapped:
                    yield from pa.ipc.open_stream(mapped)
            else:
                with pq.ParquetFile(file) as source:
                    yield from source.iter_batches(_READ_ROWS)


class RowSpool:
    """Batches of one schema; first all `add`, then `parts` or `batches`."""

    def __init__(self, options: SpoolOptions, file_rows: int) -> None:
        self._options = options
        self._folder: TemporaryFolder | None = None
        self._file_rows = file_rows
        self._most_bytes = options.staged_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._bytes = 0
        self.rows = 0
        self.parts: list[SpoolPart] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._bytes > self._most_bytes:
            raise LimitExceeded(
                f"the statement stages more than {self._most_bytes} bytes; write less at once"
            )
        if self._waiting_rows >= self._file_rows or self._waiting_bytes >= _FILE_BYTES:
            self._write()

    @property
    def size(self) -> int:
        return self._bytes

    def to_files(self) -> None:
        """All that is still in memory; for loads by others."""
        if self._waiting_rows:
            self._write()

    def _write(self) -> None:
        with on_disk(self._options):
            self._folder = self._folder or new_folder(self._options)
            file = self._folder.path / f"{len(self.parts):06d}.arrow"
            with (
                pa.OSFile(str(file), "wb") as sink,
                pa.ipc.new_stream(sink, self._waiting[0].schema) as writer,
            ):
                for batch in self._waiting:
                    writer.write_batch(batch)
        self.parts.append(SpoolPart(len(self.parts), (str(file),), self._waiting_rows))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything, in order; may be called again."""
        for part in self.parts:
            yield from part.batches()
        yield from self._waiting

    def delete(self) -> None:
        self._waiting = []
        if self._folder is not None:
            self._folder.remove()


def grouped(parts: Sequence[SpoolPart], most: int) -> list[SpoolPart]:
    """The rows of whole files in at most so many parts, which are as even as can be."""
    rows = sum(part.rows for part in parts)
    count = min(most, rows)
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
def spooling(options: SpoolOptions, settings: MssqlSettings) -> Iterator[RowSpool]:
    spool = RowSpool(options, settings.copy_flush_rows)
    try:
        yield spool
    finally:
        spool.delete()


def new_folder(options: SpoolOptions) -> TemporaryFolder:
    """For rows that others read; raises OSError."""
    if options.shared:  # workers may be of another user
        return TemporaryFolder("mssql", options.spool or None, mode=_SHARED)
    return TemporaryFolder("mssql", options.spool or None)


def remove_orphans(options: SpoolOptions) -> None:
    """Spools of processes of this machine that did not end by themselves."""
    sweep(options.spool_folder())


@contextmanager
def on_disk(options: SpoolOptions) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LimitExceeded(
            f"rows cannot be spooled in {options.spool_folder()!r}: {str(error)[:200]}; "
            "free some space there, or choose another folder with `spool`"
        ) from None
