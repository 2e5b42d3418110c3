"""Stages rows of a statement until it publishes: in memory, and on disk above a limit."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.ipc

from jetbridge.errors import LimitExceeded
from jetbridge.runtime.array_sizes import array_bytes

# Up to this size, batches stay as they came, each with the message in which it arrived: a small
# INSERT copies nothing. Above it they are joined, because many messages would fragment the memory.
_MOST_RAW_BYTES = 64 * 1024 * 1024
# Limits of a joined batch: Arrow addresses strings by 32 bits, and messages stay small.
JOINED_ROWS = 65_536
JOINED_BYTES = 32 * 1024 * 1024


def join_batches(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the rows in larger batches, each in its own memory."""
    joined: list[pa.RecordBatch] = []
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rows += batch.num_rows
        size += array_bytes(batch)
        if group and (rows > JOINED_ROWS or size > JOINED_BYTES):
            joined.append(concatenate(group))
            group, rows, size = [], batch.num_rows, array_bytes(batch)
        group.append(batch)
    if group:
        joined.append(concatenate(group))
    return joined


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch of several with the same types."""
    schema = batches[0].schema
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


@contextmanager
def _name_disk_errors() -> Iterator[None]:
    """Turn a failed write into LimitExceeded, which names the folder and the remedy."""
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir()
        raise LimitExceeded(
            f"rows cannot be staged in {folder!r}: {str(error)[:200]}; "
            "free some space there, or set TMPDIR to a larger folder"
        ) from None


class Staging:
    """Hold batches with the same types, in order. Call `add` for all of them, then `batches`.

    Batches above `spill_bytes` go to a temporary file; above `max_bytes` the statement fails.
    """

    def __init__(self, spill_bytes: int, max_bytes: int) -> None:
        self._spill_bytes, self._max_bytes = spill_bytes, max_bytes
        self._bytes = 0
        self._most_raw_bytes = min(spill_bytes, _MOST_RAW_BYTES)
        self._batches: list[pa.RecordBatch] = []  # joined ones, then raw ones
        self._joined_count = 0
        self._joined_bytes = 0
        self._raw_bytes = 0
        self._file: pa.NativeFile | None = None
        self._sink: pa.NativeFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._schema: pa.Schema | None = None
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Stage a batch; raise LimitExceeded above `max_bytes`, and if the disk is full."""
        self._batches.append(batch)
        self.rows += batch.num_rows
        # Its size after a copy, which may be larger: many NULLs can share one buffer.
        self._bytes += array_bytes(batch)
        if self.room() < 0:
            raise LimitExceeded(
                f"the statement stages more than {self._max_bytes} bytes; write fewer rows at once"
            )
        # Its size now may be larger, as a slice holds all of its buffer, or smaller: Arrow counts
        # a buffer once that several columns share, and a join writes it out for each of them.
        self._raw_bytes += max(batch.get_total_buffer_size(), array_bytes(batch))
        if self._raw_bytes > self._most_raw_bytes:
            self._join()

    def room(self) -> int:
        """Return the number of bytes that may still be added."""
        return self._max_bytes - self._bytes

    def _join(self) -> None:
        joined = join_batches(self._batches[self._joined_count :])
        self._batches[self._joined_count :] = joined
        self._joined_count = len(self._batches)
        self._joined_bytes += sum(array_bytes(batch) for batch in joined)
        self._raw_bytes = 0
        if self._joined_bytes > self._spill_bytes:
            with _name_disk_errors():
                self._spill()

    def _spill(self) -> None:
        if self._writer is None:
            self._schema = self._batches[0].schema
            # The file has no name, so it disappears with the process. Arrow opens it again: rows
            # read through a file object of Python would stay in Python's memory.
            with tempfile.TemporaryFile() as file:
                name = f"/proc/self/fd/{file.fileno()}"
                self._sink = pa.OSFile(name, "wb")
                self._file = pa.OSFile(name, "rb")
            self._writer = pa.ipc.new_stream(self._sink, self._schema)
        for batch in self._batches:
            self._writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._batches = []
        self._joined_count = self._joined_bytes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield everything that was added; you may call it again."""
        if self._file is not None:
            if self._writer is not None and self._sink is not None:
                with _name_disk_errors():
                    self._writer.close()
                    self._sink.close()
                self._writer = self._sink = None
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)
        yield from self._batches

    def close(self) -> None:
        """Drop all batches and the temporary file."""
        for file in (self._file, self._sink):
            if file is not None:
                file.close()
        self._file = self._sink = self._writer = None
        self._batches = []
