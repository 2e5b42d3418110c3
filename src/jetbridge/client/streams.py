"""Reads the record batches of a scan, from several endpoints at the same time."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Generic, TypeVar

import pyarrow as pa

from jetbridge.client.connection import Answers
from jetbridge.client.errors import reading_answer
from jetbridge.errors import FailedPrecondition
from jetbridge.wire.arrow_input import BatchDecoder
from jetbridge.wire.flight_data import split
from jetbridge.wire.limits import ANSWER_LIMITS

T = TypeVar("T")

MAX_WORKERS = 8
_BATCHES_PER_WORKER = 2

Batches = Generator[pa.RecordBatch, None, None]


class Buffer(Generic[T]):
    """Pass items between two threads, with a bounded number of items in between.

    An iterator takes items and waits for more, until `finish` or `close`.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._finished = self._closed = False

    def put(self, item: T) -> bool:
        """Add an item, when there is room; return False if the buffer is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._size)
            if self._closed:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def finish(self) -> None:
        """Accept no more items; the reader still gets those in the buffer."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def close(self) -> None:
        """Drop all items and wake both threads."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def __iter__(self) -> "Buffer[T]":
        return self

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._finished or self._closed)
            if not self._items:
                raise StopIteration
            item = self._items.popleft()
            self._changed.notify_all()
            return item


class EndpointReader:
    """Read one endpoint. The call begins when the first batch is read."""

    def __init__(self, open_call: Callable[[], Answers], announced: pa.Schema) -> None:
        self._open_call = open_call
        self._announced = announced
        self._answers: Answers | None = None
        self._cancelled = False

    def batches(self) -> Batches:
        """Yield the batches that have rows. Raises FailedPrecondition if the columns differ."""
        with self._open_call() as answers:
            self._answers = answers
            if self._cancelled:
                return
            decoder: BatchDecoder | None = None
            for message in answers:
                with reading_answer("DoGet"):
                    data = split(message)
                    if data.header is None:
                        continue
                    if decoder is None:
                        decoder = BatchDecoder(data.header, ANSWER_LIMITS)
                        batches: list[pa.RecordBatch] = []
                    else:
                        decoder.feed(data)
                        batches = list(decoder.flush())
                self._check(decoder.schema)
                yield from (batch for batch in batches if batch.num_rows)

    def cancel(self) -> None:
        """End the call, from any thread. A reader that has not begun then yields nothing."""
        self._cancelled = True
        if self._answers is not None:
            self._answers.call.cancel()

    def _check(self, schema: pa.Schema) -> None:
        if schema.types != self._announced.types or schema.names != self._announced.names:
            raise FailedPrecondition(
                "the table was altered while the scan began, and its columns differ; scan again"
            )


def read_endpoints(readers: Sequence[EndpointReader]) -> Batches:
    """Yield the batches of all endpoints, in order within each. Closing early cancels the calls."""
    if len(readers) == 1:
        return readers[0].batches()
    return _Parallel(readers).batches()


class _Parallel:
    """Read several endpoints at the same time, each by one of a few threads."""

    def __init__(self, readers: Sequence[EndpointReader]) -> None:
        self._readers = tuple(readers)
        self._waiting = deque(readers)
        self._workers = min(len(readers), MAX_WORKERS)
        self._running = self._workers
        self._lock = threading.Lock()
        self._buffer: Buffer[pa.RecordBatch | Exception] = Buffer(
            max(1, _BATCHES_PER_WORKER * self._workers)
        )

    def batches(self) -> Batches:
        threads = [
            threading.Thread(target=self._work, name="jetbridge-scan", daemon=True)
            for _ in range(self._workers)
        ]
        if not threads:
            return
        try:
            for thread in threads:
                thread.start()
            for item in self._buffer:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self._buffer.close()
            for reader in self._readers:
                reader.cancel()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    def _work(self) -> None:
        try:
            while self._waiting:
                try:
                    reader = self._waiting.popleft()
                except IndexError:
                    break  # another worker took the last one
                for batch in reader.batches():
                    if not self._buffer.put(batch):
                        return
        except Exception as error:  # raised where the batches are read
            self._buffer.put(error)
        finally:
            with self._lock:
                self._running -= 1
                last = not self._running
            if last:
                self._buffer.finish()
