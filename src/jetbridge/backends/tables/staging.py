"""Rows of a statement that is not published yet: in memory, and above a limit on disk."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.ipc

from jetbridge.errors import LimitExceeded

# Small batches as they came, each with the message it arrived in, are joined above this: below
# it an INSERT need not pay for the copy, above it the messages would fragment the memory.
_MOST_RAW_BYTES = 64 * 1024 * 1024
# Rows and bytes of a joined batch: strings are addressed by 32 bits, and messages stay small.
JOINED_ROWS = 65_536
JOINED_BYTES = 32 * 1024 * 1024


def join_batches(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows in larger batches, none of them a slice of something larger."""
    joined: list[pa.RecordBatch] = []
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rows += batch.num_rows
        size += batch.nbytes
        if group and (rows > JOINED_ROWS or size > JOINED_BYTES):
            joined.append(concatenate(group))
            group, rows, size = [], batch.num_rows, batch.nbytes
        group.append(batch)
    if group:
        joined.append(concatenate(group))
    return joined


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several with the same types."""
    schema = batches[0].schema
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir()
        raise LimitExceeded(
            f"rows cannot be staged in {folder!r}: {str(error)[:200]}; "
            "free some space there, or set TMPDIR to a larger folder"
        ) from None


class Staging:
    """Batches with the same types, in order; first all `add`, then `batches`.

    Above `limit` bytes they go to disk, above `most_bytes` the statement fails.
    """

    def __init__(self, limit: int, most_bytes: int) -> None:
        self._limit = limit
        self._most_bytes = most_bytes
        self._bytes = 0
        self._most_raw = min(limit, _MOST_RAW_BYTES)
        self._batches: list[pa.RecordBatch] = []
        self._settled = 0  # so many batches are joined
        self._settled_bytes = 0
        self._raw_bytes = 0
        self._file: pa.NativeFile | None = None
        self._sink: pa.NativeFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._schema: pa.Schema | None = None
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.rows += batch.num_rows
        # What it takes once it is copied: many NULLs may share a buffer.
        self._bytes += batch.nbytes
        if self.room() < 0:
            raise LimitExceeded(
                f"the statement stages more than {self._most_bytes} bytes; write less at once"
            )
        # Now: for a slice that is the whole it was cut from.
        self._raw_bytes += batch.get_total_buffer_size()
        if self._raw_bytes > self._most_raw:
            self._settle()

    def room(self) -> int:
        """Bytes that may still be added."""
        return self._most_bytes - self._bytes

    def _settle(self) -> None:
        joined = join_batches(self._batches[self._settled :])
        self._batches[self._settled :] = joined
        self._settled = len(self._batches)
        self._settled_bytes += sum(batch.nbytes for batch in joined)
        self._raw_bytes = 0
        if self._settled_bytes > self._limit:
            with _disk():
                self._spill()

    def spilled(self) -> bool:
        return self._file is not None

    def _spill(self) -> None:
        if self._writer is None:
            self._schema = self._batches[0].schema
            # It has no name: the file is gone with the process, however that ends. Arrow's own
            # files, because rows read through Python's stay in its memory.
            with tempfile.TemporaryFile() as file:
                name = f"/proc/self/fd/{file.fileno()}"
                self._sink = pa.OSFile(name, "wb")
                self._file = pa.OSFile(name, "rb")
            self._writer = pa.ipc.new_stream(self._sink, self._schema)
        for batch in self._batches:
            self._writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._batches = []
        self._settled = self._settled_bytes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything that was added; may be called again."""
        if self._file is not None:
            if self._writer is not None and self._sink is not None:
                with _disk():
                    self._writer.close()
                    self._sink.close()
                self._writer = self._sink = None
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)
        yield from self._batches

    def close(self) -> None:
        for file in (self._file, self._sink):
            if file is not None:
                file.close()
        self._file = self._sink = self._writer = None
        self._batches = []
