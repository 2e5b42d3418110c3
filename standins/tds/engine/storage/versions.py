"""Which rows a transaction sees, and what rolling back takes away again.

Every table of DuckDB has two columns more: `__ins` and `__del`, the stamps of the transactions
that wrote the row and that deleted it. All writes go to DuckDB at once; the stamp of a transaction
that is still active hides them from others, and is the lock on the row. An update deletes the row
and inserts its new version. Rows that are deleted and committed are purged as soon as no open
snapshot can see them.
"""

import itertools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

from standins.tds.engine.storage.store import Store, is_conflict

if TYPE_CHECKING:
    from standins.tds.engine.storage.transactions import Transaction


@dataclass(eq=False)
class Snapshot:
    """What had not been committed at a moment: stamps from `limit` on, and the active ones."""

    limit: int
    active: frozenset[int]
    own: list[int]

    def sees_the_end_of(self, stamp: int) -> bool:
        return stamp < self.limit and stamp not in self.active

    def condition(self, alias: str = "") -> str:
        """SQL that is true for the rows that are visible."""
        ins, dele = f"{alias}__ins", f"{alias}__del"
        own = [stamp for stamp in self.own if stamp >= self.limit]
        written, deleted = f"{ins} < {self.limit}", f"{dele} IS NULL OR {dele} >= {self.limit}"
        if self.active:
            written += f" AND {ins} NOT IN ({_listed(self.active)})"
            deleted += f" OR {dele} IN ({_listed(self.active)})"
        if own:
            written = f"({written} OR {ins} IN ({_listed(own)}))"
            deleted = f"({deleted}) AND ({dele} IS NULL OR {dele} NOT IN ({_listed(own)}))"
        return f"({written}) AND ({deleted})"


DIRTY = "__del IS NULL"


@dataclass
class Garbage:
    stamps: list[int]
    tables: set[str] = field(default_factory=set)


class Versions:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._stamps = itertools.count(1)
        self._next = 1
        self.lock = threading.RLock()
        self.active: dict[int, Transaction] = {}
        self.writers: dict[str, set[int]] = {}
        self._snapshots: set[Snapshot] = set()
        self._garbage: list[Garbage] = []
        self._latches: dict[str, threading.Lock] = {}

    def stamp(self, transaction: "Transaction") -> int:
        with self.lock:
            made = next(self._stamps)
            self._next = made + 1
            self.active[made] = transaction
            return made

    def writes(self, stored: str, stamp: int) -> None:
        with self.lock:
            self.writers.setdefault(stored, set()).add(stamp)

    def others(self, stored: str, own: Iterable[int]) -> set[int]:
        """Stamps of other active transactions that have written to the table."""
        with self.lock:
            return self.writers.get(stored, set()) - set(own)

    def open(self, own: list[int]) -> Snapshot:
        with self.lock:
            made = Snapshot(self._next, frozenset(set(self.active) - set(own)), own)
            self._snapshots.add(made)
            return made

    def close(self, snapshot: Snapshot) -> None:
        with self.lock:
            self._snapshots.discard(snapshot)

    def latch(self, stored: str) -> threading.Lock:
        """Held while keys are checked and written; nobody waits for a transaction with it."""
        with self.lock:
            return self._latches.setdefault(stored, threading.Lock())

    def forget(self, stamps: Iterable[int]) -> None:
        """These are no longer active: what they wrote is committed, or has been taken away."""
        with self.lock:
            for stamp in stamps:
                self.active.pop(stamp, None)
                for written in self.writers.values():
                    written.discard(stamp)

    def undo(self, stamps: list[int], tables: Iterable[str]) -> None:
        listed = _listed(stamps)
        with self._cursor() as cursor:
            for stored in tables:
                run_again(cursor, f"DELETE FROM {stored} WHERE __ins IN ({listed})")
                run_again(cursor, f"UPDATE {stored} SET __del = NULL WHERE __del IN ({listed})")

    def drop(self, tables: Iterable[str]) -> None:
        with self._cursor() as cursor:
            for stored in tables:
                run_again(cursor, f"DROP TABLE IF EXISTS {stored}")

    def purge(self, stamps: list[int], tables: set[str]) -> None:
        """Deleted rows go away, now or when no snapshot needs them any more."""
        with self.lock:
            if tables:
                self._garbage.append(Garbage(stamps, tables))
            ready = [each for each in self._garbage if self._is_unseen(each)]
            self._garbage = [each for each in self._garbage if each not in ready]
        if not ready:
            return
        with self._cursor() as cursor:
            for each in ready:
                for stored in each.tables:
                    run_again(
                        cursor,
                        f"DELETE FROM {stored} WHERE __del IN ({_listed(each.stamps)})",
                        missing_is_fine=True,
                    )

    def _is_unseen(self, garbage: Garbage) -> bool:
        return all(
            snapshot.sees_the_end_of(stamp)
            for snapshot in self._snapshots
            for stamp in garbage.stamps
        )

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._store.cursor()
        try:
            yield cursor
        finally:
            cursor.close()


def run_again(cursor: duckdb.DuckDBPyConnection, sql: str, missing_is_fine: bool = False) -> None:
    """Till it does not meet another statement of DuckDB."""
    for attempt in itertools.count():
        try:
            cursor.execute(sql)
        except duckdb.TransactionException as failure:
            if not is_conflict(failure) or attempt > 1000:
                raise
        except duckdb.CatalogException:
            if not missing_is_fine:
                raise
            return
        else:
            return


def _listed(stamps: Iterable[int]) -> str:
    return ", ".join(str(each) for each in sorted(stamps))
