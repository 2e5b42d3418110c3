"""A bounded queue between two threads that either side can end."""

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


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
