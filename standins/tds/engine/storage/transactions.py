"""A transaction: its stamps, its definitions not yet committed, its locks."""

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from standins.tds.engine.errors import error
from standins.tds.engine.storage.catalog import Catalog, Table
from standins.tds.engine.storage.locks import Locks
from standins.tds.engine.storage.store import Store
from standins.tds.engine.storage.versions import Snapshot, Versions

DESCRIPTORS = itertools.count(0x1_0000_0001)


class Core:
    """What all sessions of an engine share."""

    def __init__(self) -> None:
        self.store = Store()
        self.catalog = Catalog()
        self.locks = Locks()
        self.versions = Versions(self.store)


@dataclass
class Savepoint:
    name: str
    stamps: int
    changes: dict[int, Table | None]
    created: int


@dataclass(eq=False)
class Transaction:
    core: Core
    spid: int
    cancelled: Callable[[], bool]
    lock_timeout: int = -1
    deadlock_priority: int = 0
    isolation: str = "READ COMMITTED"
    count: int = 0  # 0: only for one statement
    descriptor: int = 0
    doomed: bool = False
    victim: bool = False
    ended: bool = False
    weight: int = 0
    stamps: list[int] = field(default_factory=list)
    written: dict[str, set[int]] = field(default_factory=dict)
    deleted_from: set[str] = field(default_factory=set)
    changes: dict[int, Table | None] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)
    savepoints: list[Savepoint] = field(default_factory=list)
    snapshot: Snapshot | None = None
    short: list[tuple[Hashable, str]] = field(default_factory=list)

    def begin(self) -> None:
        self.count += 1
        if not self.descriptor:
            self.descriptor = next(DESCRIPTORS)

    def stamp(self, anew: bool = False) -> int:
        """What marks the rows written now; `anew` for a part that may be undone by itself."""
        if self.doomed:
            raise error(3930)
        if anew or not self.stamps:
            self.stamps.append(self.core.versions.stamp(self))
        return self.stamps[-1]

    def wrote(self, stored: str, stamp: int, rows: int, deleted: bool = False) -> None:
        """To be called before DuckDB commits, so that nobody reads past the lock."""
        self.written.setdefault(stored, set()).add(stamp)
        self.weight += rows
        self.core.versions.writes(stored, stamp)
        if deleted:
            self.deleted_from.add(stored)

    def lock(self, resource: Hashable, mode: str, short: bool = False) -> None:
        if self.core.locks.acquire(self, resource, mode) and short:
            self.short.append((resource, mode))

    def end_statement(self) -> None:
        for resource, mode in self.short:
            self.core.locks.release(self, resource, mode)
        self.short.clear()

    def save(self, name: str) -> None:
        self.savepoints.append(
            Savepoint(name.lower(), len(self.stamps), dict(self.changes), len(self.created))
        )
        if self.stamps:
            self.stamp(anew=True)
            self.savepoints[-1].stamps = len(self.stamps) - 1

    def roll_back_to(self, name: str) -> None:
        place = next(
            (at for at, each in enumerate(self.savepoints) if each.name == name.lower()), None
        )
        if place is None:
            raise error(6401, name)
        if self.doomed:
            raise error(3931)
        found = self.savepoints[place]
        del self.savepoints[place + 1 :]
        self.take_back(self.stamps[found.stamps :])
        self.core.versions.drop(self.created[found.created :])
        del self.created[found.created :]
        self.changes = dict(found.changes)
        self.stamp(anew=True)
        found.stamps = len(self.stamps) - 1

    def take_back(self, stamps: list[int]) -> None:
        """Undo what was written with these stamps."""
        if not stamps:
            return
        tables = [stored for stored, written in self.written.items() if written & set(stamps)]
        self.core.versions.undo(stamps, tables)
        self.core.versions.forget(stamps)
        self.stamps = [each for each in self.stamps if each not in stamps]

    def commit(self) -> None:
        core = self.core
        with core.versions.lock:
            core.versions.forget(self.stamps)
            core.catalog.publish(self.changes)
            self._close_snapshot()
        core.versions.purge(self.stamps, self.deleted_from - set(self.replaced))
        self._end()
        core.versions.drop(self.replaced)

    def roll_back(self) -> None:
        for each in reversed(self.undo):
            each()
        kept = [stored for stored in self.written if stored not in self.created]
        if self.stamps:
            self.core.versions.undo(self.stamps, kept)
        with self.core.versions.lock:
            self.core.versions.forget(self.stamps)
            self._close_snapshot()
        self.core.versions.purge([], set())
        self.changes.clear()
        self._end()
        self.core.versions.drop(self.created)

    def _close_snapshot(self) -> None:
        if self.snapshot is not None:
            self.core.versions.close(self.snapshot)
            self.snapshot = None

    def _end(self) -> None:
        self.ended = True
        self.count = 0
        self.core.locks.release_all(self)
        self.core.locks.wake()
