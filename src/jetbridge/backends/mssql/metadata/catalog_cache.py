"""Keeps definitions from the catalog views until something in the database changes."""

import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

from cachetools import LRUCache

from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.dialects.tsql import statements

_T = TypeVar("_T")
# One call looks up a schema, then a table, then both again for its snapshot. Within this time, no
# statement of another session can end and be visible.
_FRESH_SECONDS = 0.0005
# Definitions of schemas and tables that are kept at once.
_MOST_VALUES = 10_000


class CatalogCache:
    """Keep definitions until something in the database is created, altered or dropped."""

    def __init__(self, server: ConnectionPool) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._stamp: tuple[Any, ...] | None = None
        self._checked = 0.0
        self._values: MutableMapping[Any, Any] = LRUCache(_MOST_VALUES)
        self._number = 1
        self._allows_snapshots: bool | None = None

    def get(self, key: Any, load: Callable[[], _T]) -> _T:
        """Return the value of a key; `load` reads it if it is unknown or no longer valid."""
        self._refresh()
        with self._lock:
            stamp, value = self._stamp, self._values.get(key)
        if value is None:
            value = load()
            self._refresh()  # a change that is rolled back may have been read: do not keep it
            with self._lock:
                if stamp == self._stamp:
                    self._values[key] = value
        result: _T = value
        return result

    def forget(self) -> None:
        """Forget all values after DDL of this process, which the server's clock may not show."""
        with self._lock:
            self._stamp = None

    def number(self) -> int:
        """Return the version of the catalog, which rises with each change."""
        self._refresh()
        return self._number

    def _refresh(self) -> None:
        """Read the time of the last change, and forget all values if it is another one."""
        with self._lock:
            if self._stamp is not None and time.monotonic() - self._checked < _FRESH_SECONDS:
                return
        by_columns = self._server.is_babelfish()
        (stamp,) = self._server.query(
            statements.VERSION_BY_COLUMNS if by_columns else statements.VERSION
        )
        with self._lock:
            self._checked = time.monotonic()
            if stamp != self._stamp:
                self._stamp = stamp
                self._number += 1
                self._values.clear()

    def allows_snapshots(self) -> bool:
        """Return whether the database has ALLOW_SNAPSHOT_ISOLATION. Queries it only once.

        Return False for Babelfish: a transaction locks the tables that it has read against ALTER
        and DROP there, even for the statement that has read them.
        """
        if self._allows_snapshots is None:
            allowed = self._server.query(statements.SNAPSHOTS) == [(1,)]
            self._allows_snapshots = allowed and not self._server.is_babelfish()
        return self._allows_snapshots
