"""Locks on tables, names and applications' resources; waits, time-outs and deadlocks.

Rows are locked by the stamps in them (see `versions`): `wait_for` is the wait for one. A table's
lock is kept by a transaction till its end, or till the end of the statement.
"""

import threading
import time
from collections.abc import Callable, Hashable
from typing import Protocol

from standins.tds.engine.errors import error
from standins.tds.values import SqlError

SCH_S, IS, S, U, IX, BULK, X, SCH_M = "SCH_S", "IS", "S", "U", "IX", "BULK", "X", "SCH_M"
COMPATIBLE: dict[str, set[str]] = {
    SCH_S: {SCH_S, IS, S, U, IX, BULK, X},
    IS: {SCH_S, IS, S, U, IX},
    S: {SCH_S, IS, S, U},
    U: {SCH_S, IS, S},
    IX: {SCH_S, IS, IX},
    BULK: {SCH_S, BULK},
    X: {SCH_S},
    SCH_M: set(),
}
POLL = 5.0


class Owner(Protocol):
    """A transaction, as far as locks know it."""

    spid: int
    ended: bool
    victim: bool
    weight: int
    deadlock_priority: int
    lock_timeout: int  # milliseconds; -1 waits for ever

    def cancelled(self) -> bool: ...


class Locks:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._held: dict[Hashable, list[tuple[Owner, str]]] = {}
        self._waiting: dict[Owner, set[Owner]] = {}

    def acquire(
        self, owner: Owner, resource: Hashable, mode: str, timeout: int | None = None
    ) -> bool:
        """False where the owner holds this already, so that nothing is to be released."""
        with self.changed:
            if (owner, mode) in self._held.get(resource, ()):
                return False
            self._wait(owner, lambda: self._blockers(owner, resource, mode), timeout)
            self._held.setdefault(resource, []).append((owner, mode))
            return True

    def release(self, owner: Owner, resource: Hashable, mode: str) -> bool:
        with self.changed:
            holders = self._held.get(resource, [])
            if (owner, mode) not in holders:
                return False
            holders.remove((owner, mode))
            if not holders:
                del self._held[resource]
            self.changed.notify_all()
            return True

    def release_all(self, owner: Owner) -> None:
        with self.changed:
            for resource in list(self._held):
                left = [each for each in self._held[resource] if each[0] is not owner]
                if left:
                    self._held[resource] = left
                else:
                    del self._held[resource]
            self.changed.notify_all()

    def mode_of(self, owner: Owner, resource: Hashable) -> str | None:
        with self.changed:
            return next((mode for who, mode in self._held.get(resource, ()) if who is owner), None)

    def is_blocked(self, owner: Owner, resource: Hashable, mode: str) -> bool:
        with self.changed:
            return bool(self._blockers(owner, resource, mode))

    def holders(self, mode: str, resource_kind: str) -> set[Owner]:
        """Who holds a lock of this mode on any resource of the kind."""
        with self.changed:
            return {
                who
                for resource, holders in self._held.items()
                for who, held in holders
                if held == mode and isinstance(resource, tuple) and resource[0] == resource_kind
            }

    def wait_for(self, owner: Owner, others: set[Owner]) -> None:
        """Till all of these transactions have ended."""
        with self.changed:
            self._wait(owner, lambda: {each for each in others if not each.ended}, None)

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _blockers(self, owner: Owner, resource: Hashable, mode: str) -> set[Owner]:
        fits = COMPATIBLE[mode]
        return {
            who
            for who, held in self._held.get(resource, ())
            if who is not owner and held not in fits
        }

    def _wait(self, owner: Owner, blockers: Callable[[], set[Owner]], timeout: int | None) -> None:
        limit = owner.lock_timeout if timeout is None else timeout
        deadline = None if limit < 0 else time.monotonic() + limit / 1000
        try:
            while found := blockers():
                self._waiting[owner] = found
                self._break_cycle(owner)
                _refuse(owner)
                left = POLL if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise error(1222)
                self.changed.wait(min(left, POLL))
                _refuse(owner)
        finally:
            self._waiting.pop(owner, None)

    def _break_cycle(self, owner: Owner) -> None:
        """One of a circle of waiting transactions is chosen; the cheapest to roll back."""
        cycle = self._cycle(owner, owner, set())
        if not cycle or any(each.victim for each in cycle):
            return
        victim = min(
            cycle, key=lambda each: (each.deadlock_priority, each.weight, each is not owner)
        )
        victim.victim = True
        self.changed.notify_all()

    def _cycle(self, start: Owner, here: Owner, seen: set[Owner]) -> list[Owner]:
        for other in self._waiting.get(here, ()):
            if other is start:
                return [here]
            if other not in seen:
                seen.add(other)
                found = self._cycle(start, other, seen)
                if found:
                    return [here, *found]
        return []


def _refuse(owner: Owner) -> None:
    if owner.victim:
        raise error(1205, owner.spid)
    if owner.cancelled():
        raise SqlError(3617, "The query was canceled.", 11)
