"""Remembers which rows this process has changed, so that no statement overwrites what it missed.

SQL Server does not know when a statement read its rows: they are read on one connection and written
on another, perhaps minutes later. So each statement compares the row ids that it is about to write
with those that other statements have written since it read them.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from jetbridge.backends.tables.updates import Integers
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    FailedPrecondition,
    NotSupported,
)

# How many row ids are remembered, 8 MB; a statement counts as some more, for its own memory.
_MOST_REMEMBERED = 1024 * 1024
_STATEMENT_COST = 32
# Errors of statements that have certainly not been committed.
_REFUSALS = (BadRequest, AlreadyExists, Conflict, FailedPrecondition, NotSupported)


@dataclass(frozen=True)
class _Change:
    number: int
    table: int
    row_ids: Integers

    def cost(self) -> int:
        return _STATEMENT_COST + len(self.row_ids)


class RowChanges:
    """Remember the rows of one database that were changed by statements of this process.

    Old changes are forgotten. A statement that read its rows before a change that is forgotten
    conflicts with it, whichever rows it writes.
    """

    def __init__(self, at_most: int = _MOST_REMEMBERED) -> None:
        self._at_most, self._remembered = at_most, 0
        self._lock = threading.Lock()
        self._number = 0
        self._changes: deque[_Change] = deque()
        self._running: list[_Change] = []
        self._forgotten: dict[int, int] = {}

    def latest(self) -> int:
        """Return the number of the last change. Read rows only after this."""
        return self._number

    @contextmanager
    def changing(self, table: int, title: str, row_ids: Integers, since: int) -> Iterator[None]:
        """Change rows of a table in the block; `row_ids` ascend.

        Raises Conflict if another statement changes one of them, or has done so after the change
        `since`. A block that is refused counts for nothing. One that fails otherwise counts as a
        change, because it may have committed.
        """
        change = _Change(0, table, row_ids)
        if not len(row_ids):
            yield
            return
        with self._lock:
            self._refuse_conflict(change, title, since)
            self._running.append(change)
        refused = False
        try:
            yield
        except _REFUSALS:
            refused = True
            raise
        finally:
            with self._lock:
                self._running = [other for other in self._running if other is not change]
                if not refused:
                    self._number += 1
                    self._remember(_Change(self._number, table, row_ids))

    def _refuse_conflict(self, change: _Change, title: str, since: int) -> None:
        conflicts = self._forgotten.get(change.table, 0) > since
        conflicts = conflicts or any(_overlap(change, other) for other in self._running)
        for other in reversed(self._changes):
            if conflicts or other.number <= since:
                break
            conflicts = _overlap(change, other)
        if conflicts:
            raise Conflict(
                f"rows of {title} were changed by another statement since this one read them; "
                "run the statement again"
            )

    def _remember(self, change: _Change) -> None:
        self._changes.append(change)
        self._remembered += change.cost()
        while self._remembered > self._at_most:
            oldest = self._changes.popleft()
            self._remembered -= oldest.cost()
            self._forgotten[oldest.table] = oldest.number


def _overlap(one: _Change, other: _Change) -> bool:
    if one.table != other.table:
        return False
    few, many = sorted((one.row_ids, other.row_ids), key=len)
    positions = np.searchsorted(many, few)
    positions[positions == len(many)] = 0
    return bool(np.any(many[positions] == few))
