"""Keeps the values that were used last, in bounded memory."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keep the values used last, as long as their total size is at most `most`.

    `size_of` gives the size of one value, by default 1. Every thread may use the cache.
    """

    def __init__(self, most: int, size_of: Callable[[V], int] | None = None) -> None:
        self.most = most
        self._values: Any = LRUCache(most, size_of)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Return the value, or None."""
        with self._lock:
            value: V | None = self._values.get(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Keep a value; one that is larger than the whole cache is not kept."""
        with self._lock:
            if self._values.getsizeof(value) <= self.most:
                self._values[key] = value

    def add(self, key: K) -> bool:
        """Return whether the key is new, and keep it; for caches without values."""
        with self._lock:
            is_new = self._values.get(key) is None
            if is_new:
                self._values[key] = True
            return is_new

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()
