"""Columns that were read lately, unpacked: a small table that is read again costs no decoding.

Data files never change, so nothing here ever gets old. Only tables that fit as a whole are kept:
the scan of a large one would push out everything else and find nothing the next time.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class ColumnChunkKey:
    """A column of a row group of a file."""

    location: str
    row_group: int
    field_id: bytes


# What a chunk takes besides its values: a row in a file of its own has few of them.
CHUNK_BYTES = 1_024


class ColumnCache:
    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._kept: OrderedDict[ColumnChunkKey, pa.ChunkedArray] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, chunk: ColumnChunkKey) -> pa.ChunkedArray | None:
        with self._lock:
            found = self._kept.get(chunk)
            if found is not None:
                self._kept.move_to_end(chunk)
            return found

    def put(self, chunk: ColumnChunkKey, values: pa.ChunkedArray) -> None:
        with self._lock:
            if chunk in self._kept:
                return
            self._kept[chunk] = values
            self._bytes += values.nbytes + CHUNK_BYTES
            while self._bytes > self.most_bytes:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= gone.nbytes + CHUNK_BYTES
