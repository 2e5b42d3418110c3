"""Limits the memory and disk of statements of clients; all of one server share one limit.

Each call of `run` opens a DuckDB of its own. A call reserves its share at its start and releases it
at its end. It never waits: if too little is left, the call is refused.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jetbridge.config.model import Limits, Shares
from jetbridge.errors import LimitExceeded

# Enough for DuckDB to sort and join tens of millions of rows in one thread; beyond that it spills.
MINIMUM = 64_000_000
# A call reserves a third of the rest, so that several calls fit and the first ones get much.
_PART = 3


@dataclass(frozen=True)
class StatementShare:
    """Hold the memory and disk of one call."""

    memory_bytes: int
    spill_bytes: int

    @property
    def threads(self) -> int:
        """Return the number of threads for which the memory is enough."""
        # More threads would hold so many blocks that a sort cannot continue.
        return max(1, self.memory_bytes // MINIMUM)


class StatementMemory:
    def __init__(self, memory_bytes: int, limits: Limits, tokens: int) -> None:
        """Set the limits. If there are several tokens, one of them gets at most half."""
        self._all = memory_bytes
        self._of_token = memory_bytes // 2 if tokens > 1 else memory_bytes
        self._minimum = min(MINIMUM, self._of_token)
        self._staged_bytes = limits.staged_bytes
        self._staged_of_token = Shares.of(limits, tokens).staged_bytes
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def reserve(self, owner: str) -> Iterator[StatementShare]:
        with self._lock:
            memory = self._part(owner)
            self._taken[owner] += memory
        try:
            yield StatementShare(memory, self._spill(memory))
        finally:
            with self._lock:
                self._taken[owner] -= memory
                if not self._taken[owner]:
                    del self._taken[owner]

    def _part(self, owner: str) -> int:
        of_token = self._of_token - self._taken[owner]
        left = min(of_token, self._all - self._taken.total())
        if left < self._minimum:
            by_itself = of_token < self._minimum and self._of_token < self._all
            who = f"of token {owner!r}" if by_itself else "on this server"
            raise LimitExceeded(
                f"the calls of run {who} use all the memory allowed to them; try again when one "
                "has ended, or raise sql.memory_limit"
            )
        return max(self._minimum, left // _PART)

    def _spill(self, memory: int) -> int:
        """Return the disk of a call. A token's disk is divided in proportion to its memory."""
        if self._staged_of_token is None:
            return self._staged_bytes
        return min(self._staged_bytes, self._staged_of_token * memory // max(1, self._of_token))
