"""Writes rows into Parquet data files, in bounded memory, a row group at a time.

A column is encoded by its first rows. A dictionary of values that do not repeat doubles the size
of a column and the time to write it (1M rows of bigint, double, string, timestamp: 0.42 s with
dictionaries, 0.19 s without), and compression of numbers that do not get smaller costs time in
every read. Only encodings that every engine reads are used.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jetbridge.backends.lake.files import Files
from jetbridge.errors import LimitExceeded
from jetbridge.runtime.array_sizes import array_bytes

# DuckDB reads row groups in parallel and skips those that cannot match: this size is small enough
# for both, and large enough to compress.
ROW_GROUP_ROWS = 122_880
ROW_GROUP_BYTES = 64 * 1024 * 1024
FILE_BYTES = 512 * 1024 * 1024
# Two threads encode; more would only hold more row groups in memory.
_ENCODERS = ThreadPoolExecutor(2, "jetbridge-parquet")


_CODEC, _LEVEL = "zstd", 1
_FIXED = {"write_statistics": True, "store_schema": False, "version": "2.6"}
# Size of each of three samples: at the beginning, in the middle and at the end.
_SAMPLE_ROWS = 2048
# A dictionary is worth it if at most this share of the values of a sample are distinct.
_REPEATS = 0.5
# Compression is worth it if it leaves at most this share of the size.
_SHRINKS = 0.75


@dataclass(frozen=True)
class DataFile:
    """Name a Parquet file with rows that is not part of a table yet."""

    location: str
    rows: int


@contextmanager
def disk(folder: str) -> Iterator[None]:
    """Raise an OSError of the block as LimitExceeded with the folder."""
    try:
        yield
    except OSError as error:
        raise LimitExceeded(
            f"rows cannot be written to {folder!r}: {str(error)[:200]}; free some space there"
        ) from None


class DataWriter:
    """Write files named `{prefix}-{number}.parquet` into a folder.

    One row group is encoded while the next one is gathered; `close` ends the last file.
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
        self._bytes_in_file = 0
        self._rows_in_file = 0
        self.rows = 0
        self.locations: list[str] = []
        self._done: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of exactly the schema."""
        self._gathered.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += array_bytes(batch)
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
            self._bytes_in_file += array_bytes(table)
            if self._bytes_in_file >= FILE_BYTES:
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
        self._rows_in_file = self._bytes_in_file = 0

    def close(self) -> list[DataFile]:
        """End the last file, and return all files; they outlive a crash."""
        self._flush()
        self._settle()
        with disk(self._folder):
            self._end_file()
        return self._done

    def abandon(self) -> None:
        """Remove all files that were written."""
        with suppress(Exception):
            self._settle()
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()
        self._files.delete(self.locations)


def write_all(writer: DataWriter, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
    """Write all batches, and return the files."""
    for batch in batches:
        writer.add(batch)
    return writer.close()


def parquet_options(first: pa.Table) -> dict[str, Any]:
    """Return the options of a `ParquetWriter` for a file that begins with these rows."""
    sample = _sample(first)
    dictionaries: list[str] = []
    codecs: dict[str, str] = {}
    for column, paths in _leaves(first.schema):
        values = sample.column(column)
        nested = bool(values.type.num_fields)
        if nested or _repeats(values):
            dictionaries += paths
        if nested or _shrinks(values):
            codecs |= dict.fromkeys(paths, _CODEC)
    levels = dict.fromkeys(codecs, _LEVEL)
    # An empty one would not mean "for no column" but the default.
    return {
        **_FIXED,
        "use_dictionary": dictionaries or False,
        "compression": codecs or "none",
        "compression_level": levels or None,
    }


def _sample(table: pa.Table) -> pa.Table:
    last = max(0, table.num_rows - _SAMPLE_ROWS)
    starts = sorted({0, last // 2, last})
    return pa.concat_tables([table.slice(start, _SAMPLE_ROWS) for start in starts]).combine_chunks()


def _leaves(schema: pa.Schema) -> Iterator[tuple[int, list[str]]]:
    """Yield the columns, each with the paths of its leaves in a Parquet file."""
    inner: list[str] = []
    if any(field.type.num_fields for field in schema):
        file = pa.BufferOutputStream()
        pq.write_metadata(schema, file)
        parquet = pq.read_metadata(pa.BufferReader(file.getvalue())).schema
        inner = [parquet.column(index).path for index in range(len(parquet))]
    for index, field in enumerate(schema):
        within = [path for path in inner if path.startswith(f"{field.name}.")]
        yield index, within if field.type.num_fields else [field.name]


def _repeats(values: pa.ChunkedArray) -> bool:
    try:
        return bool(pc.count_distinct(values).as_py() <= _REPEATS * len(values))
    except pa.ArrowNotImplementedError:
        return True


def _shrinks(values: pa.ChunkedArray) -> bool:
    """Return whether zstd makes numbers smaller; True for everything else."""
    if not pa.types.is_primitive(values.type) or pa.types.is_boolean(values.type):
        return True
    width = values.type.bit_width // 8
    plain = b"".join(
        chunk.buffers()[1].slice(chunk.offset * width, len(chunk) * width)
        for chunk in values.chunks
    )
    return len(pa.compress(plain, _CODEC, asbytes=True)) <= _SHRINKS * len(plain)
