"""Record batches out of the endpoints of a scan, read at the same time when there are several."""

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
    """Iterating takes items out and waits for more, until `finish` or `close`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._finished = self._closed = False

    def put(self, item: T) -> bool:
        """Waits for room; False when nobody takes items any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._size)
            if self._closed:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def finish(self) -> None:
        """No more items will come; those that are here are still taken."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def close(self) -> None:
        """Drops all items and wakes both sides."""
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
    """One endpoint; the call begins with the first batch asked for."""

    def __init__(self, open_call: Callable[[], Answers], announced: pa.Schema) -> None:
        self._open_call = open_call
        self._announced = announced
        self._answers: Answers | None = None
        self._cancelled = False

    def batches(self) -> Batches:
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
                        found: list[pa.RecordBatch] = []
                    else:
                        decoder.feed(data)
                        found = list(decoder.flush())
                self._check(decoder.schema)
                yield from (batch for batch in found if batch.num_rows)

    def cancel(self) -> None:
        """From any thread; also a part that has not begun yields nothing afterwards."""
        self._cancelled = True
        if self._answers is not None:
            self._answers.call.cancel()

    def _check(self, schema: pa.Schema) -> None:
        if schema.types != self._announced.types or schema.names != self._announced.names:
            raise FailedPrecondition(
                "the scan delivers other columns than the table had a moment ago: "
                "it was altered meanwhile; scan again"
            )


def read_parts(parts: Sequence[EndpointReader]) -> Batches:
    """All batches, in order within a part. Closing it early cancels the calls."""
    if len(parts) == 1:
        return parts[0].batches()
    return _Parallel(parts).batches()


class _Parallel:
    def __init__(self, parts: Sequence[EndpointReader]) -> None:
        self._parts = tuple(parts)
        self._todo = deque(parts)
        self._workers = min(len(parts), MAX_WORKERS)
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
            for part in self._parts:
                part.cancel()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    def _work(self) -> None:
        try:
            while self._todo:
                try:
                    part = self._todo.popleft()
                except IndexError:
                    break  # another worker was quicker
                for batch in part.batches():
                    if not self._buffer.put(batch):
                        return
        except Exception as error:  # it is raised where the batches are read
            self._buffer.put(error)
        finally:
            with self._lock:
                self._running -= 1
                last = not self._running
            if last:
                self._buffer.finish()
